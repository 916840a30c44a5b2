"""LBFGS: a quasi-Newton method with limited memory, and a line search for the strong Wolfe conditions.

One step is many iterations: of each, a direction from the last changes of gradients (the two-loop recursion), then a
length along it. All parameters are one vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, overload

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.autograd import enable_grad, no_grad
from flambeau.optim._plans import Entries
from flambeau.optim.optimizer import Optimizer, Params, R, non_negative


class Point(NamedTuple):
    """A place along a direction d."""

    t: float  # how far along
    loss: float
    grad: Any  # of all parameters, [n]
    slope: float  # grad @ d


class LBFGS(Optimizer):
    """Minimises what the closure of `step` computes, which is called many times and must be deterministic.

    Args:
        max_iter: iterations in one step.
        max_eval: calls of the closure in one step (default: 5 / 4 of `max_iter`).
        tolerance_grad: a step ends where no element of the gradient is above.
        tolerance_change: a step ends where neither loss nor parameters change by more.
        history_size: how many changes of the gradient are kept.
        line_search_fn: None, or 'strong_wolfe'.

    Raises:
        ValueError: a negative lr, another line search, or more than one group of parameters.

    Source: Nocedal and Wright, "Numerical Optimization", 2006, algorithms 7.4, 7.5 (directions), 3.5 and 3.6 (lengths).

    Example:
        >>> import flambeau as fl
        >>> x = fl.tensor([3.0, -2.0], requires_grad=True)
        >>> optimizer = fl.optim.LBFGS([x], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = ((x - 1) ** 2).sum()
        ...     loss.backward()
        ...     return loss
        >>> _ = optimizer.step(closure)
        >>> bool((abs(x - 1) < 1e-4).all())
        True
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn = {line_search_fn!r}; expected None or 'strong_wolfe'")
        defaults = {
            **non_negative("LBFGS", lr=lr),
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self._fl_groups) != 1:
            raise ValueError(
                "LBFGS doesn't support per-parameter options (parameter groups), since all parameters are one vector; "
                f"got {len(self._fl_groups)} groups"
            )

    @property
    def _params(self) -> list[Tensor]:
        """All parameters: programs read `optimizer.state[optimizer._params[0]]`, which has the number of calls."""
        return self._fl_groups[0]["params"]  # type: ignore[no-any-return]

    # ---------------------------------------------------------------- all parameters as one vector

    def _fl_flat_grad(self) -> Tensor:
        params = self._fl_groups[0]["params"]
        return ops.cat([_parts(ops.zeros_like(p) if p.grad is None else p.grad.to_dense()).reshape(-1) for p in params], 0).detach()

    def _fl_go(self, t: float, direction: Tensor) -> None:
        at = 0
        for p in map(_parts, self._fl_groups[0]["params"]):
            p.add_(direction[at : at + p.numel()].view(p.shape), alpha=t)
            at += p.numel()

    # ---------------------------------------------------------------- step

    @overload
    def step(self, closure: None = ...) -> None: ...

    @overload
    def step(self, closure: Callable[[], R]) -> R: ...

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Does up to `max_iter` iterations and returns the loss before them.

        Raises:
            TypeError: no closure.
        """
        if closure is None:
            raise TypeError(
                "LBFGS.step() missing 1 required positional argument: 'closure', a function that computes the loss and its gradients"
            )
        if _C.graph.watched():
            _C.graph.interrupt("LBFGS calls a function that is in Python")
        with no_grad():
            return self._fl_iterate(closure)

    def _fl_iterate(self, closure: Callable[[], Any]) -> Any:
        group = self._fl_groups[0]
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        def evaluate() -> tuple[Any, Tensor]:
            with enable_grad():
                value = closure()
            state["func_evals"] += 1
            return value, self._fl_flat_grad()

        first, grad = evaluate()
        loss, calls, change = float(first), 1, group["tolerance_change"]
        small = _largest(grad) <= group["tolerance_grad"]
        for k in range(1, group["max_iter"] + 1):
            if small:
                break
            state["n_iter"] += 1
            direction = self._fl_direction(group, state, grad)
            fresh = state["n_iter"] == 1
            state["t"] = float(group["lr"]) * (1.0 / max(1.0, grad.abs().sum().item()) if fresh else 1.0)
            before = loss
            here = Point(0.0, loss, grad, grad.dot(direction).item())
            state["prev_flat_grad"], state["prev_loss"], state["d"] = grad, loss, direction
            if here.slope > -change:
                break
            if group["line_search_fn"] is not None:
                point, made = self._fl_search(evaluate, here, direction, state["t"], group["max_eval"] - calls)
                state["t"], loss, grad = point.t, point.loss, point.grad
                self._fl_go(point.t, direction)
            else:
                self._fl_go(state["t"], direction)
                made = int(k < group["max_iter"])  # after the last iteration nobody wants to know
                if made:
                    value, grad = evaluate()
                    loss = float(value)
            calls += made
            small = _largest(grad) <= group["tolerance_grad"]
            moved = _largest(direction) * abs(state["t"])
            if calls >= group["max_eval"] or moved <= change or abs(loss - before) < change:
                break
        return first

    def _fl_direction(self, group: Entries, state: Entries, grad: Tensor) -> Tensor:
        """-H grad, where the inverse Hessian H follows from the last changes y of gradients by the steps s."""
        if state["n_iter"] == 1:
            state.update(d=None, t=None, old_dirs=[], old_stps=[], ro=[], H_diag=1)  # in PyTorch's order; d and t follow from this
            return -grad
        ys, ss, rhos = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = grad - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = y.dot(s)
        if curvature.item() > 1e-10:
            if len(ys) == group["history_size"]:
                for kept in (ys, ss, rhos):
                    kept.pop(0)
            ys.append(y)
            ss.append(s)
            rhos.append(1.0 / curvature)
            state["H_diag"] = curvature / y.dot(y)
        q, alphas = -grad, state.setdefault("al", [None] * group["history_size"])
        for i in reversed(range(len(ys))):
            alphas[i] = ss[i].dot(q) * rhos[i]
            q.add_(ys[i], alpha=-alphas[i].item())
        q.mul_(state["H_diag"])
        for i, (y, s, rho) in enumerate(zip(ys, ss, rhos)):
            q.add_(s, alpha=(alphas[i] - y.dot(q) * rho).item())
        return q

    def _fl_search(self, evaluate: Callable[[], Any], start: Point, direction: Tensor, t: float, max_calls: int) -> tuple[Point, int]:
        """A point along the direction for the strong Wolfe conditions, and how often the closure was called."""
        kept = [p.clone() for p in self._fl_groups[0]["params"]]

        def at(t: float) -> Point:
            self._fl_go(t, direction)
            value, grad = evaluate()
            for p, old in zip(self._fl_groups[0]["params"], kept):
                p.copy_(old)
            return Point(t, float(value), grad, grad.dot(direction).item())

        return strong_wolfe(at, start, t, _largest(direction), _NARROW, max_calls)


def _parts(x: Tensor) -> Tensor:
    """x, or its real and imaginary parts, which are numbers of the vector each."""
    return ops.view_as_real(x) if x.is_complex() else x


def _largest(x: Tensor) -> float:
    return float(x.abs().max().item()) if x.numel() else 0.0


def cubic(a: Point, b: Point, low: float, high: float) -> float:
    """Where between two bounds the cubic through losses and slopes of two points is least (Nocedal and Wright, eq. 3.59)."""
    if a.t > b.t:
        a, b = b, a
    if a.t == b.t:  # between two points that became one there is nothing to choose
        return (low + high) / 2
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square: float = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    above, below = b.slope + d2 - d1, b.slope - a.slope + 2 * d2
    if below == 0:  # a line: its least is as far down as may be
        return (low + high) / 2 if above == 0 else low if above > 0 else high
    t = b.t - (b.t - a.t) * (above / below)
    return min(max(t, low), high)


_DECREASE, _CURVATURE = 1e-4, 0.9  # the two constants of the Wolfe conditions
_NARROW = 1e-9  # a search ends where parameters differ by less, whatever `tolerance_change` is: with 0 it would go on until `max_eval`


def strong_wolfe(
    at: Callable[[float], Point], start: Point, t: float, largest: float, change: float, max_calls: int,
    decrease: float = _DECREASE, curvature: float = _CURVATURE,
) -> tuple[Point, int]:  # fmt: skip
    """A point for the strong Wolfe conditions (Nocedal and Wright, algorithms 3.5 and 3.6), and how often `at` was called.

    Args:
        at: the point that far along the direction.
        largest: the largest element of the direction.
        change: two points are one where parameters differ by less.
    """

    def falls(point: Point) -> bool:
        return point.loss <= start.loss + decrease * point.t * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -curvature * start.slope

    # Further and further, until a point is right or lies behind one.
    last, point, calls = start, at(t), 1
    tries = 0
    while tries < max_calls:
        if not falls(point) or (tries > 1 and point.loss >= last.loss):
            break
        if is_flat(point):
            return point, calls
        if point.slope >= 0:
            break
        t = cubic(last, point, point.t + 0.01 * (point.t - last.t), point.t * 10)
        last, point = point, at(t)
        calls += 1
        tries += 1
    else:
        last = start
    return _zoom(at, [last, point], falls, is_flat, largest, change, max_calls - tries, calls)


def _zoom(
    at: Callable[[float], Point], ends: list[Point], falls: Callable[[Point], bool], is_flat: Callable[[Point], bool],
    largest: float, change: float, tries: int, calls: int,
) -> tuple[Point, int]:  # fmt: skip
    """Shrinks the interval between two points around one that is right. Of equal losses the first end's is the lower one."""
    slow = False
    lower = int(not ends[0].loss <= ends[1].loss)
    for _ in range(tries):
        low, high = ends[lower], ends[1 - lower]
        width = abs(high.t - low.t)
        if width * largest < change:
            break
        first, last = min(low.t, high.t), max(low.t, high.t)
        t = cubic(low, high, first, last)
        if min(last - t, t - first) < 0.1 * width:  # next to an end: once may be, twice is no progress
            if slow or t >= last or t <= first:
                t = last - 0.1 * width if abs(t - last) < abs(t - first) else first + 0.1 * width
                slow = False
            else:
                slow = True
        else:
            slow = False
        point = at(t)
        calls += 1
        if not falls(point) or point.loss >= low.loss:
            ends[1 - lower] = point
            lower = int(not ends[0].loss <= ends[1].loss)
            continue
        if is_flat(point):
            return point, calls
        if point.slope * (high.t - low.t) >= 0:
            ends[1 - lower] = low
        ends[lower] = point
    return ends[lower], calls
