"""Bounding gradients: by their common norm or element by element."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._no_tensor import wants_tensors
from flambeau._warn import warn
from flambeau.autograd import no_grad


def _grads(parameters: Any) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    grads = [p.grad for p in parameters if p.grad is not None]
    _refuse_sparse(grads)
    return grads


def _refuse_sparse(grads: list[Tensor]) -> None:
    if (i := _C.first_sparse(grads)) >= 0:
        raise NotImplementedError(
            f"clip_grad: gradient {i} (shape {list(grads[i].shape)}) is sparse; expected dense gradients "
            "(leave its parameter out, and bound the values of .grad.coalesce() instead)"
        )


@wants_tensors
def get_total_norm(
    tensors: Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as if they were one vector.

    Raises:
        RuntimeError: the norm is inf or nan and `error_if_nonfinite` is set.
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensors:
        return ops.zeros(())
    _refuse_sparse(tensors)
    order = float(norm_type)
    if order in (0.0, -math.inf):  # the norm of the tensors' norms, which of order 0 is another one: how many are not all zeros
        total: Tensor = ops.vector_norm(ops.stack([ops.vector_norm(t, order) for t in tensors]), order)
    else:
        total = _C.optim.total_norm(tensors, order)
    if error_if_nonfinite and not math.isfinite(float(total.item())):
        raise RuntimeError(
            f"get_total_norm: the norm of order {norm_type} is {total.item()}; the gradients "
            "overflowed "
            "or hold nan (pass error_if_nonfinite=False to go on)"
        )
    return total


@wants_tensors
def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales the gradients by min(1, max_norm / (total_norm + 1e-6)) in place."""
    grads = _grads(parameters)
    if grads:
        with no_grad():
            scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
            _C.optim.scale_(grads, scale)


@wants_tensors
def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales the gradients in place so that their common norm is at most `max_norm`.

    Returns the norm before.

    Raises:
        RuntimeError: the norm is inf or nan and `error_if_nonfinite` is set.

    Warns:
        UserWarning: `parameters` is a generator that was used up before.

    Source: Pascanu et al. 2013, algorithm 1.
    """
    exhausted = isinstance(parameters, types.GeneratorType)
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if exhausted and not parameters:
        warn("clip_grad_norm_: parameters is a generator that gives nothing, so that nothing is bounded; was it used before? (pass a list)")
    total = get_total_norm(_grads(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


@wants_tensors
def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Clamps every gradient element to [-clip_value, clip_value] in place."""
    with no_grad():
        for grad in _grads(parameters):
            grad.clamp_(min=-float(clip_value), max=float(clip_value))


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The older name of `clip_grad_norm_`, with a warning."""
    warn("nn.utils.clip_grad_norm is the older name of nn.utils.clip_grad_norm_", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
