"""Tensors that a Module knows by name.

A `Parameter` is a leaf that the optimizer moves; a `Buffer` is state that is saved and moved with
the module but not trained (running statistics). Both are Tensors in every other respect: an
operation on one gives a plain Tensor. Assigning one to a Module attribute registers it there.
"""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor, ops


def _rebuild_parameter(data: Tensor, requires_grad: bool) -> Parameter:
    return Parameter(data, requires_grad)


def _rebuild_buffer(data: Tensor, persistent: bool) -> Buffer:
    return Buffer(data, persistent=persistent)


def _alias(cls: type[Tensor], data: Tensor | None, requires_grad: bool) -> Any:
    if data is None:
        data = ops.empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(
            f"{cls.__name__}: data = {type(data).__name__}; expected a Tensor (wrap it: "
            "flambeau.tensor(data))"
        )
    if requires_grad and not data.is_floating_point():
        raise RuntimeError(
            f"{cls.__name__}: data has dtype {data.dtype}; only floating-point tensors can require "
            "gradients (pass requires_grad=False)"
        )
    return Tensor._make_subclass(cls, data.detach(), requires_grad)


class Parameter(Tensor):
    """A trainable tensor; `requires_grad` is True unless told otherwise.

    Shares the memory of `data`.

    Raises:
        TypeError: `data` is not a Tensor.
        RuntimeError: `requires_grad` with an integer or boolean `data`.

    >>> import flambeau as fl
    >>> fl.nn.Parameter(fl.zeros(2)).requires_grad
    True
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        self: Parameter = _alias(cls, data, requires_grad)
        return self

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        pass

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            copy = type(self)(self.detach().clone(), self.requires_grad)
            memo[id(self)] = copy
        result: Parameter = memo[id(self)]
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild_parameter, (self.detach(), self.requires_grad), self.__dict__ or None


class Buffer(Tensor):
    """A tensor that belongs to a module's state but is not trained.

    `persistent=False` leaves it out of `state_dict`.

    >>> import flambeau as fl
    >>> m = fl.nn.Module()
    >>> m.mean = fl.nn.Buffer(fl.zeros(2))
    >>> [name for name, _ in m.named_buffers()]
    ['mean']
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        requires_grad = data is not None and isinstance(data, Tensor) and data.requires_grad
        self: Buffer = _alias(cls, data, requires_grad)
        self.persistent = persistent
        return self

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        pass

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), persistent=self.persistent)
        result: Buffer = memo[id(self)]
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild_buffer, (self.detach(), self.persistent), self.__dict__ or None
