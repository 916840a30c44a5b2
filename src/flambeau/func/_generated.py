"""`generate_vmap_rule = True`: a custom function whose forward, backward and jvp, written for a sample, are called once for a batch.

Of a function f a function of batches is made. Its forward is f's inside of a vmap; its backward is f's inside of another one. What f's
`setup_context` keeps would belong to the first vmap, which has returned by then, so it is called again in the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau._C import AutogradError, Tensor
from flambeau.autograd.function import Function, FunctionCtx
from flambeau.func._vmap import vmap


def generated(function: Any) -> Any:
    """The rule of a function that has `forward(*args)` and `setup_context`: f(info, in_dims, *args), as a static `vmap` would be."""

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        found = _over_batches(function, in_dims, info.randomness).apply(*args)
        return found, (0,) * len(found) if isinstance(found, tuple) else 0

    return rule


def _context(function: Any, inputs: Sequence[Any], output: Any) -> FunctionCtx:
    ctx = FunctionCtx()
    ctx._fl_function = function
    function.setup_context(ctx, tuple(inputs), output)
    return ctx


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _fitted(grad: Any, like: Any) -> Any:
    """A sample's gradient, summed over axes along which its argument was broadcast."""
    if not isinstance(grad, Tensor) or not isinstance(like, Tensor) or grad.shape == like.shape:
        return grad
    return grad.sum_to_size(like.shape)


def _over_batches(function: Any, in_dims: tuple[int | None, ...], randomness: str) -> Any:
    marks: dict[str, Any] = {}

    def of_sample(*inputs: Any) -> Any:
        output = function.forward(*inputs)
        ctx = _context(function, inputs, output)
        if ctx._fl_dirty:
            said = "mark_dirty beside generate_vmap_rule = True; write to no input, or define a static vmap"
            raise AutogradError(f"{function.__name__}: {said}")
        marks["fixed"] = [i for i, y in enumerate(_listed(output)) if any(y is f for f in ctx._fl_fixed)]
        marks["materialize"] = ctx._fl_materialize
        return output

    def by_samples(ctx: Any, call: Any, beside: Sequence[Any]) -> list[Any]:
        """What `call(context, *beside)` gives each sample, of which some may be None; those are None for all."""
        saved = iter(ctx.saved_tensors)
        inputs = [next(saved) if is_tensor else v for is_tensor, v in ctx.arguments]
        given: list[Any] = []

        def run(inputs: Any, outputs: Any, beside: Any) -> Any:
            inner = _context(function, inputs, outputs if ctx.several else outputs[0])
            inner.needs_input_grad = ctx.needs_input_grad
            inner._fl_forwards = ctx._fl_forwards
            given[:] = _listed(call(inner, *beside))
            if call is not function.jvp:
                given[: len(inputs)] = [_fitted(g, x) for g, x in zip(given, inputs)]
            return tuple(g for g in given if g is not None)

        outputs = list(saved)
        dims = (list(in_dims), [0] * len(outputs), [None if b is None else d for b, d in zip(beside, ctx.beside, strict=True)])
        found = iter(vmap(run, in_dims=dims, randomness=randomness)(inputs, outputs, list(beside)))
        return [None if g is None else next(found) for g in given]

    class OverBatches(Function):
        generate_vmap_rule = True  # by another vmap around this one

        @staticmethod
        def forward(*args: Any) -> Any:
            return vmap(of_sample, in_dims=in_dims, randomness=randomness)(*args)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            outputs = _listed(output)
            ctx.set_materialize_grads(marks["materialize"])
            ctx.mark_non_differentiable(*(outputs[i] for i in marks["fixed"]))
            ctx.several = isinstance(output, (tuple, list))
            ctx.arguments = [(isinstance(v, Tensor), None if isinstance(v, Tensor) else v) for v in inputs]
            kept = (*(v for v in inputs if isinstance(v, Tensor)), *outputs)
            ctx.save_for_backward(*kept)
            ctx.save_for_forward(*kept)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            ctx.beside = [0] * len(grads)
            found = by_samples(ctx, function._fl_rule(), grads)
            found += [None] * (len(in_dims) - len(found))
            return tuple(g if g is None or d is not None else g.sum(0) for g, d in zip(found, in_dims, strict=False))

    if function.jvp is not Function.jvp:

        def jvp(ctx: Any, *tangents: Any) -> Any:
            ctx.beside = list(in_dims)
            found = by_samples(ctx, function.jvp, tangents)
            return tuple(found) if ctx.several else found[0]

        OverBatches.jvp = staticmethod(jvp)  # type: ignore[method-assign]
    OverBatches.__name__ = OverBatches.__qualname__ = function.__name__
    return OverBatches
