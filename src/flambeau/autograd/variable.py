"""`Variable`, which tensors were wrapped in before they knew of gradients themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau import _C, _running
from flambeau._C import Tensor
from flambeau._warn import warn

__all__ = ["Variable"]


class _Wraps(type):
    """Of a class whose instances are the tensors."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor)

    def __subclasscheck__(cls, kind: Any) -> bool:
        return issubclass(kind, Tensor)

    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        if volatile is not None:
            warn("Variable: volatile has no effect any more; use `with no_grad():`")
        if data is None:
            data = _C.ops.empty((0,))
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable: data is a {type(data).__name__}; expected a Tensor")
        return data.detach().requires_grad_(requires_grad)


class _Engine:
    """What runs a backward, as `Variable._execution_engine`: programs that exchange gradients ask it to call them at its end."""

    queue_callback = staticmethod(_running.queue_callback)


if TYPE_CHECKING:
    Variable = Tensor
else:

    class Variable(metaclass=_Wraps):
        """`Variable(data, requires_grad)` is a tensor with the memory of `data` and without its history: programs from before 0.4 call it.

        Tensors are its instances.

        Raises:
            TypeError: `data` is no Tensor.

        >>> import flambeau as fl
        >>> x = fl.autograd.Variable(fl.ones(2), requires_grad=True)
        >>> x.requires_grad, isinstance(x, fl.autograd.Variable), type(x) is fl.Tensor
        (True, True, True)
        """

        _execution_engine = _Engine()
