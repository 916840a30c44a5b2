"""Passes one after the other, in an order that keeps constraints."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from flambeau.fx.graph_module import GraphModule
from flambeau.fx.passes.infra.pass_base import PassResult
from flambeau.nn.module import Module

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def pass_result_wrapper(fn: Pass) -> Callable[..., PassResult | None]:
    """A pass of a function that returns a module, or nothing because it changes the one that it is given: taken to have changed it."""
    if fn is None:
        return None  # type: ignore[unreachable]

    @functools.wraps(fn)
    def wrapped(gm: Module) -> PassResult | None:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        return PassResult(result, True) if isinstance(result, Module) else result if isinstance(result, PassResult) else None

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that one pass comes before another.

    >>> constraint = this_before_that_pass_constraint(min, max)
    >>> constraint(min, max), constraint(max, min)
    (True, False)
    """
    return lambda a, b: a != that or b != this


def _name(fn: Pass) -> str:
    return fn.__name__ if inspect.isfunction(fn) else type(fn).__name__


def _ordered(passes: list[Pass], constraints: list[Constraint]) -> list[Pass]:
    """The passes such that a stands before b only where all constraints take (a, b); those that are free stay in order."""
    if not constraints:
        return passes
    later = {p: [q for q in passes if p != q and not all(constraint(q, p) for constraint in constraints)] for p in passes}
    missing = {p: sum(p in later[q] for q in passes) for p in passes}
    order = [p for p in passes if not missing[p]]
    for p in order:  # which grows
        for q in later[p]:
            missing[q] -= 1
            if not missing[q]:
                order.append(q)
    if len(order) != len(passes):
        raise RuntimeError(f"PassManager: circular dependency of {', '.join(_name(p) for p in passes if p not in order)}")
    return order


class PassManager:
    """Runs passes: functions from a module to a `PassResult`, in an order that keeps the constraints.

    Args:
        passes, constraints: may be added later. A constraint says whether a may come before b.
        steps: the passes run so often, or until none changes anything.
        run_checks_after_each_pass: `check` (`add_checks`) is called after each pass, and not only before the first.
        suppress_check_failures: for PyTorch's sake; nothing looks at it there either.

    >>> import flambeau as fl
    >>> from flambeau.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper
    >>> def clean(gm):
    ...     gm.graph.eliminate_dead_code()
    >>> PassManager([pass_result_wrapper(clean)])(fl.fx.symbolic_trace(lambda x: x + 1)).modified
    True
    """

    _validated = False

    def __init__(
        self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None, steps: int | None = None,
        run_checks_after_each_pass: bool = False, suppress_check_failures: bool = False,
    ) -> None:  # fmt: skip
        self.passes, self.constraints = passes or [], constraints or []
        self.steps = steps or 1
        self.run_checks_after_each_pass, self.suppress_check_failures = run_checks_after_each_pass, suppress_check_failures

    def add_pass(self, _pass: Pass) -> None:
        """Adds a pass behind the others."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Checks the order of the passes as it is.

        Raises:
            RuntimeError: a pass stands before one that it may not stand before.
        """
        if self._validated:
            return
        for i, a in enumerate(self.passes):
            for b in self.passes[i + 1 :]:
                if not all(constraint(a, b) for constraint in self.constraints):
                    raise RuntimeError(f"PassManager: pass schedule constraint violated: {_name(a)} stands before {_name(b)}")
        self._validated = True

    def solve_constraints(self) -> None:
        """Brings the passes into an order that keeps all constraints.

        Raises:
            RuntimeError: there is none.
        """
        self.passes = _ordered(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Module], None]) -> None:
        """Sets the function of a module that is called before the first pass, and after each."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager.add_checks: expected a function of one argument, the module")
        self.check = check  # type: ignore[method-assign, assignment]

    def check(self, module: Module) -> None:
        """What `add_checks` has set."""

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            changed_now = False
            for i, fn in enumerate(self.passes):
                try:
                    module, modified = self._run(fn, module)
                except Exception as error:
                    done = [_name(p) for p in self.passes[:i]]
                    raise Exception(f"PassManager: the pass {_name(fn)} raised {type(error).__name__}, after {done}: {error}") from error  # noqa: TRY002
                changed_now = changed_now or modified
            changed = changed or changed_now
            if not changed_now:
                break
        return PassResult(module, changed)

    def _run(self, fn: Pass, module: Module) -> tuple[Any, bool]:
        result = fn(module)
        if not hasattr(result, "graph_module"):
            raise TypeError(f"it returned a {type(result).__name__}; expected a PassResult (pass_result_wrapper makes one)")
        if isinstance(result.graph_module, GraphModule):
            result.graph_module.recompile()
        if self.run_checks_after_each_pass:
            self.check(result.graph_module)
        return result.graph_module, bool(result.modified)
