"""Functions of matrices inside of `vmap`: axes in front of a matrix are a batch to them already, so samples are one axis more."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor, has_override
from flambeau.autograd import Function


class OverLeadingAxes(Function):
    """Base of functions whose tensors and results are matrices, vectors or numbers behind any axes, the same for all.

    A result without elements stands for one that was not asked for, and is none of a batch.
    """

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:  # type: ignore[override]
        """All samples by one call."""
        ranks = [a.ndim - (d is not None) for a, d in zip(args, in_dims, strict=True) if isinstance(a, Tensor)]
        given = [_of_samples(a, d, info.batch_size, max(ranks)) if isinstance(a, Tensor) else a for a, d in zip(args, in_dims, strict=True)]
        found = cls.apply(*given)
        several = isinstance(found, tuple)
        dims = tuple(None if tuple(y.shape) == (0,) else 0 for y in (found if several else (found,)))
        return found, dims if several else dims[0]


def _of_samples(x: Tensor, dim: int | None, size: int, rank: int) -> Tensor:
    """[size, *shape] of samples with `rank` axes."""
    x = x.expand((size, *x.shape)) if dim is None else x
    return x.reshape((size, *(1,) * (rank + 1 - x.ndim), *x.shape[1:]))


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """For a function by NumPy without gradients, of tensors whose axes in front are the same: all samples of a `vmap` by one call."""

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        tensors = [a for a in args if isinstance(a, Tensor)]
        if not has_override(*tensors):
            return function(*args)
        from flambeau.func._batched import unbatched

        level, values = unbatched(tensors)
        if level is None:
            return function(*args)
        given = iter(values)
        found = run(*(next(given) if isinstance(a, Tensor) else a for a in args))
        if isinstance(found, Tensor):
            return level.wrap(found)
        return getattr(type(found), "_make", tuple)(map(level.wrap, found))

    return run
