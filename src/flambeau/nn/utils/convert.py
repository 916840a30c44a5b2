"""All parameters as one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau._C import ShapeError, Tensor, ops
from flambeau._no_tensor import wants_tensors


@wants_tensors
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Joins the parameters, each flattened, into one vector."""
    return ops.cat([p.reshape(-1) for p in parameters], 0)


@wants_tensors
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Makes the parameters views of the slices of `vec`, one after the other: they share its memory, and are of its type.

    Raises:
        TypeError: `vec` is no tensor.
        ShapeError: it has fewer elements than the parameters together.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: expected Tensor, but got: {type(vec).__name__}")
    params = list(parameters)
    n = sum(p.numel() for p in params)
    if vec.ndim != 1 or len(vec) < n:
        raise ShapeError(f"vector_to_parameters: vec has shape {list(vec.shape)}; the parameters need [{n}]")
    start = 0
    for p in params:
        p.data = vec.detach()[start : start + p.numel()].view(p.shape)
        start += p.numel()
