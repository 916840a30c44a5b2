"""What `torch` itself has and `flambeau` has not, or has otherwise. The other files of this tree are below `torch` as they are named here."""

from __future__ import annotations

from typing import Any

from flambeau import _C, _tensor
from flambeau.compat._torch.overlay.torch_version import __version__

__all__ = ["typename"]


class _TypedTensors(type):
    """The class of `torch.FloatTensor` and its kin: calling one makes a tensor, and tensors of its element type are its instances."""

    dtype: Any

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _C.Tensor) and value.dtype is cls.dtype and not value.is_meta

    def __call__(cls, *args: Any) -> Any:
        if len(args) == 1 and not isinstance(args[0], (int, _C.Size)):
            data = args[0]
            return data.detach().to(cls.dtype) if isinstance(data, _C.Tensor) else _C.tensor_from(data, cls.dtype)
        sizes = tuple(args[0]) if len(args) == 1 and isinstance(args[0], _C.Size) else args or (0,)
        return _C.ops.empty(sizes, dtype=cls.dtype)


for _name, _text in _tensor.TYPE_NAMES.items():
    if not _name.startswith("complex"):
        globals()[_text] = _TypedTensors(_text, (), {"dtype": getattr(_C, _name), "__module__": "torch", "__doc__": f"Tensors of {_name}, by their old name."})
        __all__.append(_text)


def typename(obj: Any) -> str:
    """`torch.FloatTensor` for a tensor, the qualified name of the class for other objects."""
    if isinstance(obj, _C.Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
