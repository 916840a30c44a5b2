"""`swap_tensors`: two tensors change places, and whoever holds one holds the other from then on."""

from __future__ import annotations

import weakref
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._memory_format import strided


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Swaps what two tensors are: values, type and class, `requires_grad`, `grad` and attributes. The objects stay where they are held.

    Hooks stay with the object that they were registered for.

    Raises:
        TypeError: something else than tensors with memory of their own, as sparse ones.
        RuntimeError: one has a history (detach it), is referred to weakly, or their classes have other slots.

    >>> import flambeau as fl
    >>> a, b = fl.zeros(2), fl.ones(1, dtype=fl.int64)
    >>> fl.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([1]), tensor([0., 0.]))
    """
    for name, value in (("t1", t1), ("t2", t2)):
        if not isinstance(value, Tensor) or value.layout is not strided:
            raise TypeError(f"swap_tensors: {name} is a {type(value).__name__}; expected a dense tensor")
        if not value.is_leaf:
            raise _C.AutogradError(f"swap_tensors: {name} has a history ({value.grad_fn}); expected a leaf (detach() makes one)")
        if weakref.getweakrefs(value):
            raise RuntimeError(f"swap_tensors: {name} is referred to weakly, and who does so would see another tensor")
    if t1 is t2:
        return
    with _plain_calls():
        _swap(t1, t2)


def _plain_calls() -> Any:
    from flambeau.overrides import DisableTorchFunctionSubclass

    return DisableTorchFunctionSubclass()


def _swap(t1: Any, t2: Any) -> None:
    kinds, attributes = (type(t1), type(t2)), (dict(vars(t1)), dict(vars(t2)))
    grads, wants = (t1.grad, t2.grad), (t1.requires_grad, t2.requires_grad)
    values = (t1.detach(), t2.detach())
    try:
        t1.__class__ = kinds[1]
        t2.__class__ = kinds[0]
    except TypeError as error:
        t1.__class__ = kinds[0]
        raise RuntimeError(f"swap_tensors: t1 and t2 are of classes with other slots: {error}") from None
    for t in (t1, t2):
        t.grad = None
        Tensor.requires_grad_(t, False)
    for t, other in ((t1, 1), (t2, 0)):
        Tensor.data.__set__(t, values[other])  # type: ignore[attr-defined]
        vars(t).clear()
        vars(t).update(attributes[other])
        Tensor.requires_grad_(t, wants[other])
        t.grad = grads[other]
