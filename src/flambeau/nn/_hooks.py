"""How Module hooks are kept, removed and tied to the backward pass.

A hook is kept in an insertion-ordered dict under the id of its handle. The backward hooks need to
see gradients at the border of a module, so two identity Functions ("taps") are laid around the
call:

    inputs --[InputTap]--> forward --[OutputTap]--> outputs          (forward)
    grad_input <--[InputTap]-- ... <--[OutputTap]-- grad_output      (backward)
        2. full_backward hooks          1. full_backward_pre hooks
"""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor
from flambeau.autograd import Function, is_grad_enabled


class _Call:
    """What the two taps of one call share."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.grad_outputs: tuple[Tensor | None, ...] = ()
        self.n_inputs = 0
        self.input_positions: list[int] = []
        self.taps_inputs = False


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _checked(kind: str, module: Any, result: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
    results = _as_tuple(result)
    if len(results) != len(given):
        raise RuntimeError(
            f"{kind} hook of {type(module).__name__} returned {len(results)} gradients; expected "
            f"{len(given)} (or None to leave them as they are)"
        )
    return results


def _run_backward_hooks(
    call: _Call, grad_inputs: tuple[Tensor | None, ...]
) -> tuple[Tensor | None, ...]:
    for hook in tuple(call.module._backward_hooks.values()):
        result = hook(call.module, grad_inputs, call.grad_outputs)
        if result is not None:
            grad_inputs = _checked("full_backward", call.module, result, grad_inputs)
    return grad_inputs


class _OutputTap(Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, call: _Call, positions: list[int], n: int, *xs: Tensor) -> Any:
        ctx.call, ctx.positions, ctx.n = call, positions, n
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        call: _Call = ctx.call
        full: list[Tensor | None] = [None] * ctx.n
        for i, grad in zip(ctx.positions, grads):
            full[i] = grad
        grad_outputs = tuple(full)
        for hook in tuple(call.module._backward_pre_hooks.values()):
            result = hook(call.module, grad_outputs)
            if result is not None:
                grad_outputs = _checked("full_backward_pre", call.module, result, grad_outputs)
        call.grad_outputs = grad_outputs
        if not call.taps_inputs:
            _run_backward_hooks(call, (None,) * call.n_inputs)
        return (None, None, None, *(grad_outputs[i] for i in ctx.positions))


class _InputTap(Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, call: _Call, *xs: Tensor) -> Any:
        ctx.call = call
        return tuple(x.view_as(x) for x in xs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        call: _Call = ctx.call
        full: list[Tensor | None] = [None] * call.n_inputs
        for i, grad in zip(call.input_positions, grads):
            full[i] = grad
        grad_inputs = _run_backward_hooks(call, tuple(full))
        return (None, *(grad_inputs[i] for i in call.input_positions))


def tap_inputs(module: Any, args: tuple[Any, ...]) -> tuple[_Call, tuple[Any, ...]]:
    """Lays the input tap: the positional tensor arguments that require gradients pass through
    it.
    """
    call = _Call(module)
    call.n_inputs = len(args)
    call.input_positions = [
        i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad
    ]
    if not (is_grad_enabled() and call.input_positions and module._backward_hooks):
        return call, args
    call.taps_inputs = True
    tapped = _InputTap.apply(call, *(args[i] for i in call.input_positions))
    out = list(args)
    for i, x in zip(call.input_positions, _as_tuple(tapped)):
        out[i] = x
    return call, tuple(out)


def tap_outputs(call: _Call, result: Any) -> Any:
    """Lays the output tap on a tensor or on the tensors of a tuple or list; others pass
    untouched.
    """
    flat = list(result) if isinstance(result, (tuple, list)) else [result]
    positions = [i for i, x in enumerate(flat) if isinstance(x, Tensor) and x.requires_grad]
    if not (is_grad_enabled() and positions):
        return result
    tapped = _OutputTap.apply(call, positions, len(flat), *(flat[i] for i in positions))
    for i, x in zip(positions, _as_tuple(tapped)):
        flat[i] = x
    if not isinstance(result, (tuple, list)):
        return flat[0]
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*flat)
    return type(result)(flat)
