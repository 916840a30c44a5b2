"""Sparse tensors by the names that PyTorch had for them: `sparse.FloatTensor(indices, values, size)`."""

from __future__ import annotations

import pytest

import flambeau as fl

pytestmark = pytest.mark.filterwarnings("ignore:sparse.*deprecated:UserWarning")


def parts(dtype=fl.float32):
    return fl.tensor([[0, 1, 1], [2, 0, 2]]), fl.tensor([3, 4, 5], dtype=dtype)


@pytest.mark.parametrize(("name", "dtype"), [("FloatTensor", fl.float32), ("DoubleTensor", fl.float64), ("LongTensor", fl.int64)])
def test_they_make_tensors_and_have_instances(name, dtype):
    kind = getattr(fl.sparse, name)
    x = kind(*parts(dtype), fl.Size([2, 4]))
    assert x.dtype is dtype and x.shape == (2, 4) and x.to_dense().tolist() == [[0, 0, 3, 0], [4, 0, 5, 0]]
    assert isinstance(x, kind) and isinstance(x, fl.sparse.SparseTensor) and x.type() == f"flambeau.sparse.{name}"
    assert not isinstance(x, fl.sparse.HalfTensor) and not isinstance(x.to_dense(), kind)
    assert kind(*parts(dtype)).shape == (2, 3) and kind(2, 3).shape == (2, 3) and kind(fl.Size([4])).dtype is dtype and kind().shape == (0,)


def test_values_say_the_type():
    assert fl.sparse.FloatTensor(*parts(fl.float64)).dtype is fl.float64
    with pytest.raises(TypeError, match="sparse.FloatTensor: got list, list; expected tensors of indices and values"):
        fl.sparse.FloatTensor([[0], [1]], [1.0])
    with pytest.warns(UserWarning, match="sparse.FloatTensor is deprecated; use sparse_coo_tensor"):
        fl.sparse.FloatTensor(*parts())


@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("make", ["new_zeros", "new_empty"])
def test_new_tensors_have_the_layout_and_no_places(layout, make):
    x = fl.eye(2).to_sparse() if layout == "coo" else fl.eye(2).to_sparse_csr()
    for made in (getattr(x, make)((2, 3)), getattr(x, make)(2, 3), getattr(x, make)(size=(2, 3))):
        assert made.layout == x.layout and made.shape == (2, 3) and made.to_dense().tolist() == [[0.0] * 3] * 2
    made = getattr(x, make)((2, 3), dtype=fl.float64, requires_grad=True)
    assert made.dtype == fl.float64 and made.requires_grad


def test_empty_like_keeps_which_axes_have_indices():
    x = fl.sparse_coo_tensor([[0, 2]], fl.ones(2, 3), (5, 3))
    for made in (fl.empty_like(x), fl.zeros_like(x, requires_grad=True)):
        assert made.shape == (5, 3) and made._nnz() == 0 and (made.sparse_dim(), made.dense_dim()) == (1, 1)
    assert made.requires_grad and fl.empty_like(x, dtype=fl.int64).dtype == fl.int64
