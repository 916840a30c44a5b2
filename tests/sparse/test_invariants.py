"""What is only claimed of sparse tensors is looked at where a program asks for it."""

import pytest

import flambeau as fl

checked = fl.sparse.check_sparse_tensor_invariants


def unordered(**how):
    return fl.sparse_coo_tensor([[1, 0]], [1.0, 2.0], (2,), is_coalesced=True, **how)


def descending(**how):
    return fl.sparse_csr_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2), **how)


@pytest.mark.parametrize(("make", "text"), [(unordered, "is_coalesced = True, but"), (descending, "the columns of row 0 do not ascend")])
def test_claims(make, text):
    make()
    with pytest.raises(ValueError, match=text):
        make(check_invariants=True)
    with checked():
        make(check_invariants=False)
        with pytest.raises(ValueError, match=text):
            make()
    with pytest.raises(ValueError, match=text):
        checked()(make)()
    make()


def test_the_switch():
    assert not checked.is_enabled()
    try:
        checked.enable()
        assert checked.is_enabled()
        with checked(False):
            assert not checked.is_enabled()
        assert checked.is_enabled()
    finally:
        checked.disable()


def test_layouts_that_are_not_here_are_refused():
    made = fl.sparse_compressed_tensor([0, 1, 2], [1, 0], [2.0, 3.0], (2, 2), layout=fl.sparse_csr)
    assert made.layout is fl.sparse_csr and made.to_dense().tolist() == [[0, 2], [3, 0]]
    for name in ("sparse_csc", "sparse_bsr", "sparse_bsc"):
        with pytest.raises(NotImplementedError, match=f"there are no tensors of layout {name}"):
            getattr(fl, f"{name}_tensor")([0, 1], [0], [1.0])
    with pytest.raises(ValueError, match="layout = None"):
        fl.sparse_compressed_tensor([0, 1], [0], [1.0])
    with pytest.raises(NotImplementedError, match="strided"):
        fl.sparse_compressed_tensor([0, 1], [0], [1.0], layout=fl.strided)
