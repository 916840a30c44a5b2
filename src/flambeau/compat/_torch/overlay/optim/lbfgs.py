"""`torch.optim.lbfgs`: beside the optimizer its line search as functions, which other minimizers call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._C import Tensor
from flambeau.optim import lbfgs as _ours

__all__: list[str] = []


def _cubic_interpolate(x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None) -> float:
    """Where between the bounds (or the two places) the cubic through values and slopes of two places is least."""
    places = float(x1), float(x2)
    low, high = (min(places), max(places)) if bounds is None else map(float, bounds)
    slopes = float(g1), float(g2)
    a, b = (_ours.Point(x, float(f), None, g) for x, f, g in zip(places, (f1, f2), slopes))
    return _ours.cubic(a, b, low, high)


def _strong_wolfe(
    obj_func: Callable[[Any, float, Tensor], tuple[Any, Tensor]], x: Any, t: Any, d: Tensor, f: Any, g: Tensor, gtd: Any,
    c1: float = 1e-4, c2: float = 0.9, tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[float, Tensor, float, int]:  # fmt: skip
    """Loss and gradient at a point of x + t d for the strong Wolfe conditions, its t, and how often `obj_func(x, t, d)` was called."""

    def at(t: float) -> _ours.Point:
        loss, grad = obj_func(x, t, d)
        return _ours.Point(t, float(loss), grad, float(grad.dot(d)))

    start = _ours.Point(0.0, float(f), g, float(gtd))
    found, calls = _ours.strong_wolfe(at, start, float(t), float(d.abs().max()), tolerance_change, max_ls, c1, c2)
    return found.loss, found.grad, found.t, calls
