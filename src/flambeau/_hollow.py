"""Tensors without memory, of classes with a `__torch_dispatch__`: Note [Hollow tensors], csrc/bindings/hollow.h."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._memory_format import strided


def make_wrapper_subclass(
    cls: type[Tensor],
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: Any = None,
    storage_size: int | None = None,
) -> Any:
    """A tensor of a class with a `__torch_dispatch__` that has a shape and a type, and no memory.

    What it stands for is in attributes that the class gives it. The core knows its shape, strides, type and device, and autograd follows
    it; each call below autograd that it is an argument of goes to the class. The other arguments say what PyTorch's caches and memory
    would make of it, and have no meaning here.

    Raises:
        ArgumentError: the class has no `__torch_dispatch__`.
        NotImplementedError: the layout is none of strided tensors.

    >>> import flambeau as fl
    >>> class Doubled(fl.Tensor):
    ...     @staticmethod
    ...     def __new__(cls, half):
    ...         self = fl.Tensor._make_wrapper_subclass(cls, half.shape, dtype=half.dtype)
    ...         self.half = half
    ...         return self
    ...     __torch_function__ = fl._C.no_torch_function
    ...     @classmethod
    ...     def __torch_dispatch__(cls, func, types, args, kwargs):
    ...         return func(*(x.half * 2 if isinstance(x, cls) else x for x in args), **kwargs)
    >>> Doubled(fl.tensor([1.0, 2.0])) + 1
    tensor([3., 5.])
    """
    if layout is not None and layout is not strided:
        raise NotImplementedError(f"_make_wrapper_subclass: layout = {layout}; expected strided, or None")
    made = _C.graph.make_hollow(cls, size, strides, dtype, device)
    return made.requires_grad_(True) if requires_grad else made


def deep_copy(x: Tensor, memo: dict[int, Any]) -> Tensor:
    """What `copy.deepcopy` makes of one: a clone by its class, with copies of the attributes."""
    made: Tensor = x.detach().clone()
    if type(made) is not type(x):
        raise RuntimeError(
            f"deepcopy: clone() of {type(x).__name__} is a {type(made).__name__}; expected its __torch_dispatch__ to keep the class"
        )
    if x.requires_grad:
        made.requires_grad_(True)
    memo[id(x)] = made
    if x.grad is not None:
        made.grad = copy.deepcopy(x.grad, memo)
    vars(made).update(copy.deepcopy(vars(x), memo))
    return made


def slots(x: Tensor) -> dict[str, Any]:
    """What is in the slots of x's class, by name; the core asks before an object goes that is not its tensor's last owner."""
    import copyreg

    return {name: getattr(x, name) for name in copyreg._slotnames(type(x)) if hasattr(x, name)}  # type: ignore[attr-defined]


def rebuild(
    cls: type[Tensor],
    size: Sequence[int],
    strides: Sequence[int],
    dtype: Any,
    device: str,
    requires_grad: bool,
    attributes: dict[str, Any],
    in_slots: dict[str, Any],
) -> Tensor:
    """What `reduce` took apart."""
    made: Tensor = make_wrapper_subclass(cls, size, strides, dtype=dtype, device=device, requires_grad=requires_grad)
    vars(made).update(attributes)
    for name, value in in_slots.items():
        setattr(made, name, value)
    return made


def reduce(x: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """How one is pickled: by its shape and type, and its attributes."""
    return rebuild, (type(x), tuple(x.shape), x.stride(), x.dtype, str(x.device), x.requires_grad, dict(vars(x)), slots(x))


def text(x: Tensor) -> str:
    """How one is printed where its class says nothing."""
    return f"{type(x).__name__}(..., size={tuple(x.shape)}, dtype={x.dtype})"
