"""Quantiles: sort, then mix the two elements around each rank."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import no_such_axis
from flambeau._functions import movedim
from flambeau._held import held
from flambeau._out import takes_out
from flambeau._spelled import spelled
from flambeau.amp.autocast_mode import widens

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@spelled()
@takes_out
@widens
def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The q-th quantiles along `dim`, or of all elements; rows with a NaN give NaN.

    Args:
        q: a number between 0 and 1, or a vector of them in the type of `input`.
        interpolation: what stands between the elements below and above a rank that is no whole number: 'linear',
            'lower', 'higher', 'midpoint' or 'nearest'.

    Shape:
        as a reduction of `input`, with the size of a vector `q` as a new first axis.

    Raises:
        ValueError: numbers outside of [0, 1], another interpolation, or no elements.
        DTypeError: `input` is no float32 or float64 tensor, or `q` of another type.

    Example:
        >>> import flambeau as fl
        >>> fl.quantile(fl.tensor([1.0, 2.0, 3.0, 5.0]), fl.tensor([0.25, 0.5]))
        tensor([1.7500, 2.5000])
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@spelled()
@takes_out
@widens
def nanquantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """`quantile` of the elements that are not NaN; NaN where there are none."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def _checked(op: str, input: Tensor, q: Any, interpolation: str) -> Tensor:
    """q as a tensor of 0 or 1 axes."""
    if interpolation not in _INTERPOLATIONS:
        raise _C.ArgumentError(f"{op}: interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation!r}")
    if input.dtype not in (_C.float32, _C.float64):
        raise _C.DTypeError(f"{op}: input tensor must be either float or double dtype, but is {input.dtype}")
    if isinstance(q, Tensor):
        if q.ndim > 1 or q.dtype is not input.dtype:
            raise _C.DTypeError(
                f"{op}: q tensor must be same dtype as the input tensor, {input.dtype}, and a number or a vector; "
                f"it is {q.dtype} {list(q.shape)}"
            )
    ranks: Tensor = q if isinstance(q, Tensor) else ops.full((), float(q), dtype=input.dtype, device=input.device)
    given = held(ranks)
    if not given.is_meta and not bool(((given >= 0) & (given <= 1)).all().item()):
        raise _C.ArgumentError(f"{op}: q must be in the range [0, 1] but got {given.tolist()}")
    return ranks


def _quantile(
    op: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Tensor:
    q = _checked(op, input, q, interpolation)
    dim = None if dim is None else int(dim)
    if dim is not None and not -max(input.ndim, 1) <= dim < max(input.ndim, 1):
        raise no_such_axis(op, "dim", dim, input.shape)
    if dim is None or input.ndim == 0:
        rows, lead = input.reshape(-1), []
        kept = [1] * input.ndim
    else:
        rows = movedim(input, dim, -1)
        lead = list(rows.shape[:-1])
        kept = list(input.shape)
        kept[dim] = 1
    if rows.shape[-1] == 0:
        raise _C.ArgumentError(f"{op}: input has shape {list(input.shape)}; expected elements to choose from")
    ordered, _ = rows.sort(-1)  # NaN last
    bad = ops.isnan(ordered)
    last = rows.shape[-1] - 1
    if ignore_nan:
        ranks = q.reshape(-1) * (last - bad.sum(-1, keepdim=True)).clamp(min=0).to(input.dtype)
    else:
        ranks = ops.where(bad[..., -1:], float(last), q.reshape(-1) * last)
    below, above = ranks.floor(), ranks.ceil()
    if interpolation in ("lower", "higher", "nearest"):
        at = below if interpolation == "lower" else above if interpolation == "higher" else ranks.round()
        found = ordered.gather(-1, at.detach().to(_C.int64))
    else:
        weight = ops.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
        low, high = (ordered.gather(-1, at.detach().to(_C.int64)) for at in (below, above))
        found = ops.lerp(low, high, weight)
    if q.ndim == 0:
        return found.reshape(kept if keepdim else lead)
    found = movedim(found, -1, 0)
    return found.reshape([q.shape[0], *kept]) if keepdim else found
