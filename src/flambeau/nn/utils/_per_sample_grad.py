"""Gradients of single samples, kept beside the parameters: `call_for_per_sample_grads`.

Every sample is given parameters of its own, which are views of the same memory:

    p [*]  --expand-->  [N, *]  --vmap(functional_call)-->  outputs      (forward)
    p.grad_sample [N, *]  <--hook--  gradient of the view                (backward)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor
from flambeau.nn.module import Module

_WHO = "call_for_per_sample_grads"


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """The forward of `module`, after whose backward each parameter has the gradients of single samples as `grad_sample`, and no `grad`.

    Shape: parameters [*], their grad_sample [N, *].

    Args:
        batch_size: N; by default that of the tensors among the arguments. Tensors of another size are the same for all samples.
        loss_reduction: "mean" where the loss is a mean over samples, whose gradients are then multiplied by N; or "sum".
        batch_first: whether samples lie along the first axis of arguments and results, or along the second.

    Raises:
        RuntimeError: another argument than these, or parameters that have a grad_sample already: clear it between two calls.

    >>> import flambeau as fl
    >>> from flambeau.nn.utils._per_sample_grad import call_for_per_sample_grads
    >>> layer = fl.nn.Linear(4, 3)
    >>> call_for_per_sample_grads(layer)(fl.ones(5, 4)).sum().backward()
    >>> layer.weight.grad_sample.shape, layer.weight.grad is None
    (flambeau.Size([5, 3, 4]), True)
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"{_WHO}: loss_reduction = {loss_reduction!r}; expected 'sum' or 'mean'")
    if not isinstance(module, Module):
        raise RuntimeError(f"{_WHO}: module is {type(module).__name__}; expected a Module")
    if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
        raise RuntimeError(f"{_WHO}: batch_size = {batch_size!r}; expected a positive int or None")
    for name, p in module.named_parameters():
        if getattr(p, "grad_sample", None) is not None:
            raise RuntimeError(f"{_WHO}: parameter '{name}' has a grad_sample already; set it to None before the next call")
    axis = 0 if batch_first else 1

    @functools.wraps(module.forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        from flambeau.func import functional_call, vmap
        from flambeau.func._tree import flatten, tree_map

        leaves, build = flatten((args, kwargs))
        n = _size(leaves, axis) if batch_size is None else batch_size
        at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.dim() > axis and x.shape[axis] == n]
        named = dict(module.named_parameters())
        own = {name: _for_each(p, n, n if loss_reduction == "mean" else 1) for name, p in named.items() if p.requires_grad}

        def of_one(parameters: Any, inputs: Any) -> Any:
            every = list(leaves)
            for i, x in zip(at, inputs):
                every[i] = x.unsqueeze(axis)
            given, options = build(every)
            out = functional_call(module, {**named, **parameters}, given, options)
            return tree_map(lambda y: y.squeeze(axis) if isinstance(y, Tensor) else y, out)

        mapped = vmap(of_one, in_dims=(0, axis), out_dims=axis, randomness="different")
        return mapped(own, [leaves[i] for i in at])

    return call


def _for_each(p: Tensor, n: int, scale: int) -> Tensor:
    """A parameter once for each of n samples, whose gradient is kept as the parameter's grad_sample."""
    every = p.detach().expand(n, *p.shape).requires_grad_()

    def keep(gradient: Tensor) -> None:
        found = gradient.detach() * scale
        before = getattr(p, "grad_sample", None)
        p.grad_sample = found if before is None else before + found  # type: ignore[attr-defined]

    every.register_hook(keep)
    return every


def _size(leaves: list[Any], axis: int) -> int:
    sizes = {x.shape[axis] for x in leaves if isinstance(x, Tensor) and x.dim() > axis}
    if len(sizes) != 1:
        raise RuntimeError(f"{_WHO}: the arguments' tensors have {sorted(sizes)} samples; expected one number (or pass batch_size)")
    return sizes.pop()
