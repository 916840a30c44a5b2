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


def test_a_layout_as_an_argument():
    made = fl.sparse_compressed_tensor([0, 1, 2], [1, 0], [2.0, 3.0], (2, 2), layout=fl.sparse_csr)
    assert made.layout is fl.sparse_csr and made.to_dense().tolist() == [[0, 2], [3, 0]]
    for layout in (None, fl.strided, fl.sparse_coo):
        with pytest.raises(ValueError, match=r"layout = .*; expected one of flambeau.sparse_csr, flambeau.sparse_csc"):
            fl.sparse_compressed_tensor([0, 1], [0], [1.0], layout=layout)


def test_rows_of_a_column():
    with pytest.raises(ValueError, match="sparse_csc_tensor: the rows of column 0 do not ascend"):
        fl.sparse_csc_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2), check_invariants=True)
