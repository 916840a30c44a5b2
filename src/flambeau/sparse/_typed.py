"""Sparse tensors by their old names: `sparse.FloatTensor(indices, values, size)`, and `isinstance(x, sparse.FloatTensor)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau import _C, _tensor
from flambeau._C import Tensor
from flambeau._warn import warn
from flambeau.sparse._construct import sparse_coo_tensor
from flambeau.sparse._tensor import SparseCOO

__all__ = [
    "BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip


class _TypedSparse(type):
    """The class of these names: calling one makes a tensor in coordinates, and those of its element type are its instances."""

    dtype: Any

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, SparseCOO) and value.dtype is cls.dtype

    def __call__(cls, *args: Any) -> Tensor:
        warn(f"sparse.{cls.__name__} is deprecated; use sparse_coo_tensor")
        sizes = tuple(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else args or (0,)
        if all(isinstance(n, int) for n in sizes):
            return sparse_coo_tensor([[]] * len(sizes), _C.ops.empty((0,), dtype=cls.dtype), sizes)
        if len(args) not in (2, 3) or not all(isinstance(a, Tensor) for a in args[:2]):
            got = ", ".join(type(a).__name__ for a in args)
            raise TypeError(f"sparse.{cls.__name__}: got {got}; expected tensors of indices and values, and the size, or the size alone")
        return sparse_coo_tensor(*args)


if TYPE_CHECKING:

    class BFloat16Tensor(SparseCOO): ...

    class ByteTensor(SparseCOO): ...

    class CharTensor(SparseCOO): ...

    class DoubleTensor(SparseCOO): ...

    class FloatTensor(SparseCOO): ...

    class HalfTensor(SparseCOO): ...

    class IntTensor(SparseCOO): ...

    class LongTensor(SparseCOO): ...

    class ShortTensor(SparseCOO): ...
else:
    for _name, _text in _tensor.TYPE_NAMES.items():
        if _text in __all__:
            _doc = f"""Sparse tensors of {_name} in coordinates, by their old name: of indices, values and a size, and for `isinstance`.

        Values of another type stay what they are, as in PyTorch.

        Raises:
            TypeError: something else than two tensors and a size, or a size.
        """
            _own = {"dtype": getattr(_C, _name), "__module__": f"{_tensor.library}.sparse", "__doc__": _doc}
            globals()[_text] = _TypedSparse(_text, (), _own)
