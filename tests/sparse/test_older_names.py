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
