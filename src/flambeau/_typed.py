"""Tensors by their old names: `LongTensor([1, 2])`, `isinstance(x, FloatTensor)`, and what else asks by such a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau import _C, _tensor
from flambeau._C import Tensor
from flambeau._from_data import tensor

__all__ = ["set_default_tensor_type", "typename", *(name for name in _tensor.TYPE_NAMES.values() if not name.startswith("Complex"))]


class _TypedTensors(type):
    """The class of `FloatTensor` and its kin: calling one makes a tensor, and tensors of its element type are its instances."""

    dtype: Any
    is_cuda = is_sparse = False

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype and not value.is_meta

    def __call__(cls, *args: Any) -> Any:
        sizes = _tensor.sizes_of(cls.__name__, args)
        if sizes is None:
            data = args[0]
            return data.as_subclass(Tensor).to(cls.dtype) if isinstance(data, Tensor) else tensor(data, dtype=cls.dtype, device="cpu")
        return _C.ops.empty(sizes, dtype=cls.dtype)


if TYPE_CHECKING:

    class FloatTensor(Tensor): ...

    class DoubleTensor(Tensor): ...

    class HalfTensor(Tensor): ...

    class BFloat16Tensor(Tensor): ...

    class LongTensor(Tensor): ...

    class IntTensor(Tensor): ...

    class ShortTensor(Tensor): ...

    class CharTensor(Tensor): ...

    class ByteTensor(Tensor): ...

    class BoolTensor(Tensor): ...

    class UInt16Tensor(Tensor): ...

    class UInt32Tensor(Tensor): ...

    class UInt64Tensor(Tensor): ...
else:
    for _name, _text in _tensor.TYPE_NAMES.items():
        if _text in __all__:
            _doc = f"""Tensors of {_name}, by their old name: of data, of sizes, and the class of such tensors for `isinstance`.

        Shape: FloatTensor(2, 3) [2, 3], not initialised; FloatTensor() [0]; FloatTensor([1.0, 2.0]) as the data.
        """
            globals()[_text] = _TypedTensors(_text, (), {"dtype": getattr(_C, _name), "__module__": _tensor.library, "__doc__": _doc})


def typename(obj: Any) -> str:
    """The old name of a tensor's type, or the qualified name of another object's class.

    >>> import flambeau as fl
    >>> fl.typename(fl.ones(1)), fl.typename(fl.nn.Linear(1, 1))
    ('flambeau.FloatTensor', 'flambeau.nn.modules.linear.Linear')
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def set_default_tensor_type(t: Any) -> None:
    """Makes the element type of `t` (`FloatTensor`, `DoubleTensor` or such a name) the default one; `set_default_dtype` in new programs.

    Raises:
        TypeError: it is no type of floating point tensors on the CPU.
    """
    name = str(t).rpartition(".")[2] if isinstance(t, str) and ".cuda." not in t else getattr(t, "__name__", "")
    found = [n for n, text in _tensor.TYPE_NAMES.items() if name == text]
    if not found or not getattr(_C, found[0]).is_floating_point:
        raise TypeError(f"set_default_tensor_type: t = {t!r}; expected FloatTensor, DoubleTensor or another type of floats on the CPU")
    _C.set_default_dtype(getattr(_C, found[0]))
