"""All parameters as one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau._C import Tensor, ops
from flambeau.autograd import no_grad


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Joins the parameters, each flattened, into one vector."""
    return ops.cat([p.reshape(-1) for p in parameters], 0)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Writes the slices of `vec` into the parameters in place.

    Raises:
        ValueError: the lengths differ.
    """
    params = list(parameters)
    n = sum(p.numel() for p in params)
    if tuple(vec.shape) != (n,):
        raise ValueError(
            f"vector_to_parameters: vec has shape {list(vec.shape)}; the parameters need [{n}]"
        )
    start = 0
    with no_grad():
        for p in params:
            p.copy_(vec[start : start + p.numel()].reshape(p.shape))
            start += p.numel()
