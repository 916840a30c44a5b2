"""Branches and loops as functions. Who traces a program needs them; here they decide at once, as `if` and `while` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau._C import ArgumentError, Tensor
from flambeau._no_tensor import wants_tensors


def _decided(op: str, value: Any) -> bool:
    if not isinstance(value, (bool, int, float, Tensor)):
        raise RuntimeError(f"{op}: the condition is a {type(value).__name__}; expected a bool or a tensor of one element")
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ArgumentError(f"{op}: the condition has shape {list(value.shape)}; expected one element")
    return bool(value)


@wants_tensors
def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """`true_fn(*operands)` where `pred` is true, else `false_fn(*operands)`. Gradients go through the branch that was taken.

    Example:
        >>> import flambeau as fl
        >>> x = fl.tensor([1.0, 2.0])
        >>> fl.cond(x.sum() > 2, lambda x: x * 10, lambda x: -x, (x,))
        tensor([10., 20.])
    """
    return (true_fn if _decided("cond", pred) else false_fn)(*operands)


@wants_tensors
def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> tuple[Any, ...]:
    """What becomes of the inputs by `inputs = body_fn(*inputs)` while `cond_fn(*inputs)` is true.

    Example:
        >>> import flambeau as fl
        >>> fl.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (fl.tensor(0), fl.ones(2)))
        (tensor(3), tensor([8., 8.]))
    """
    values = tuple(carried_inputs)
    n = len(values)
    while _decided("while_loop", cond_fn(*values)):
        after = body_fn(*values)
        values = tuple(after) if isinstance(after, (tuple, list)) else (after,)
        if len(values) != n:
            raise RuntimeError(f"while_loop: body_fn returned {len(values)} values; expected {n}, as it was given")
    return values
