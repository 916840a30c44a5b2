"""`generate_vmap_rule = True`: a custom function whose forward, backward and jvp, written for a sample, are called once for a batch.

Of a function f a function of batches is made. Its forward is f's inside of a vmap; its backward is f's inside of another one. What f's
`setup_context` keeps belongs to the first vmap, which has returned by then. So the function of batches saves those tensors, and nothing
else, as they are outside of a vmap: its own arguments and results where they are f's. The second vmap gets them, and a context like the
first one is made of its samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau._C import AutogradError, Tensor
from flambeau.autograd.function import Function, FunctionCtx
from flambeau.func._levels import shape_of
from flambeau.func._tree import flatten
from flambeau.func._vmap import vmap


def generated(function: Any) -> Any:
    """The rule of a function that has `forward(*args)` and `setup_context`: f(info, in_dims, *args), as a static `vmap` would be."""

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        found = _over_batches(function, in_dims, info.randomness).apply(*args)
        return found, (0,) * len(found) if isinstance(found, tuple) else 0

    return rule


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _fitted(grad: Any, shape: tuple[int, ...] | None) -> Any:
    """A sample's gradient, summed over axes along which its argument was broadcast."""
    if not isinstance(grad, Tensor) or shape is None or tuple(grad.shape) == shape:
        return grad
    return grad.sum_to_size(shape)


class _Kept:
    """What a context of samples keeps, of which the tensors are among arguments and results, or come beside these."""

    _OURS = ("_fl_function", "_fl_dirty", "_fl_fixed", "_fl_materialize")

    def __init__(self, ctx: FunctionCtx, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.leaves, self._build = flatten({name: v for name, v in vars(ctx).items() if name not in self._OURS})
        self.others: list[Tensor] = []
        self.places: dict[int, int] = {}  # of leaves: i-th argument, result or other tensor, counted through
        known = [*inputs, *outputs]
        for n, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor):
                place = next((i for i, v in enumerate(known) if v is leaf), len(known))
                if place == len(known):
                    known.append(leaf)
                    self.others.append(leaf)
                self.places[n], self.leaves[n] = place, None
        self.tensors = sorted(set(self.places.values()))  # their places

    def context(self, function: Any, tensors: Sequence[Any]) -> FunctionCtx:
        """One that keeps other tensors in their stead."""
        at = dict(zip(self.tensors, tensors, strict=True))
        leaves = [at[self.places[n]] if n in self.places else leaf for n, leaf in enumerate(self.leaves)]
        ctx = FunctionCtx()
        vars(ctx).update(self._build(leaves), _fl_function=function)
        return ctx


def _over_batches(function: Any, in_dims: tuple[int | None, ...], randomness: str) -> Any:
    def by_samples(ctx: Any, call: Any, beside: Sequence[Any]) -> list[Any]:
        """What `call(context, *beside)` gives each sample, of which some may be None; those are None for all."""
        given: list[Any] = []

        def run(tensors: Any, beside: Any) -> Any:
            inner = ctx.kept.context(function, tensors)
            inner.needs_input_grad = ctx.needs_input_grad
            inner._fl_forwards = ctx._fl_forwards
            given[:] = _listed(call(inner, *beside))
            if call is not function.jvp:
                given[: len(ctx.shapes)] = [_fitted(g, shape) for g, shape in zip(given, ctx.shapes)]
            return tuple(g for g in given if g is not None)

        dims = (list(ctx.dims), [None if b is None else d for b, d in zip(beside, ctx.beside, strict=True)])
        found = iter(vmap(run, in_dims=dims, randomness=randomness)(list(ctx.saved_tensors), list(beside)))
        return [None if g is None else next(found) for g in given]

    class OverBatches(Function):
        generate_vmap_rule = True  # by another vmap around this one

        @staticmethod
        def forward(*args: Any) -> Any:
            return vmap(function.forward, in_dims=in_dims, randomness=randomness)(*args)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            outputs = _listed(output)

            def of_sample(inputs: Any, output: Any) -> list[Tensor]:
                inner = FunctionCtx()
                inner._fl_function = function
                function.setup_context(inner, inputs, output)
                if inner._fl_dirty:
                    said = "mark_dirty beside generate_vmap_rule = True; write to no input, or define a static vmap"
                    raise AutogradError(f"{function.__name__}: {said}")
                kept = ctx.kept = _Kept(inner, inputs, _listed(output))
                ctx.shapes = [shape_of(v) if isinstance(v, Tensor) else None for v in inputs]
                ctx.set_materialize_grads(inner._fl_materialize)
                samples = zip(outputs, _listed(output), strict=True)
                ctx.mark_non_differentiable(*(y for y, sample in samples if any(sample is fixed for fixed in inner._fl_fixed)))
                others, kept.others = kept.others, []
                return others

            others = vmap(of_sample, in_dims=(in_dims, 0), randomness=randomness)(tuple(inputs), output)
            ctx.several = isinstance(output, (tuple, list))
            known = [*inputs, *outputs, *others]
            dims = [*in_dims, *[0] * (len(known) - len(inputs))]
            ctx.dims = [dims[place] for place in ctx.kept.tensors]
            tensors = [known[place] for place in ctx.kept.tensors]
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)

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
