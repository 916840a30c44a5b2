"""What an optimizer has made ready for its steps over one group: a `Plan`.

A plan is the parameters that have gradients and their state dicts, so that a step is a gather of gradients and
state tensors and one fused call. Groups and state belong to the user, who may change them between steps: a plan
is made anew when the parameters, the state dicts or the set of gradients are not those it was made for.

Nothing here keeps an optimizer alive: a plan lies in the optimizer that it is for.
"""

from __future__ import annotations

import operator
import weakref
from collections import defaultdict
from typing import Any, Protocol

from flambeau import _C, _replay
from flambeau._C import Tensor
from flambeau.autograd import no_grad
from flambeau.optim._numbers import Column, Numbers, number_of, option_of

Entries = dict[str, Any]  # the options of a group, or the state of a parameter


class Owner(Protocol):
    """What a plan asks of its optimizer."""

    state: dict[Any, Entries]
    _fl_groups: list[Entries]
    _fl_stepped: Stepped | None
    _fl_plans: dict[tuple[int, int], Plan]
    _fl_numbers: dict[tuple[tuple[int, int], str], Numbers]
    _fl_n_steps: int

    def _fl_init_state(self, group: Entries, param: Tensor, state: Entries) -> None: ...

    def _fl_update(self, group: Entries, plan: Plan, grads: list[Tensor]) -> None: ...

    def _fl_has_step_hooks(self) -> bool: ...


class Plan:
    """What a step over one group needs, for one set of parameters with gradients."""

    def __init__(self, optimizer: Owner, group: Entries, every: list[Tensor], mask: list[bool]) -> None:
        self.every = every  # all parameters of the group
        self.mask = mask  # which of them have gradients
        self.where = [i for i, has_grad in enumerate(mask) if has_grad]
        self.params = [every[i] for i in self.where]
        self.states = [{} if (entries := optimizer.state.get(param)) is None else entries for param in self.params]
        self._known: list[Entries | None] = []  # what the optimizer's state has of them: nothing for a rule that keeps nothing
        self._optimizer = weakref.ref(optimizer)
        self._group = group
        self._columns: dict[str, Column] = {}
        self.cells: list[Any] = []  # for the steps over it in one call
        self.key = (0, 0)  # of the optimizer's plans
        self.plain = not _C.has_override(*self.params)  # else there are tensors of subclasses, whose memory the rules write
        self.fill()

    def step(self, rule: str, grads: list[Tensor], states: list[list[Tensor]], counts: list[int], options: tuple[Any, ...]) -> None:
        """Does a fused step; while one is replayed, tells it the numbers that it is to go on with."""
        optimizer = self._optimizer()
        stepped = optimizer._fl_stepped if optimizer is not None else None
        if stepped is not None:
            options = tuple(option_of(option) if isinstance(option, Tensor) else option for option in options)
        if not self.plain:
            if stepped is not None:
                _C.graph.interrupt("an optimizer steps over tensors of subclasses")
            _C.no_torch_function(getattr(_C.optim, rule), (), (self.params, grads, states, counts, options))
        elif stepped is None:
            getattr(_C.optim, rule)(self.params, grads, states, counts, options)
        elif stepped.again:
            stepped.refill(self, rule, states, counts, options)
        else:
            cell = stepped.part(self, rule, states)
            getattr(_C.optim, rule)(self.params, grads, states, counts, options, cell)

    def fits(self, params: Any, mask: list[bool], state: Any) -> bool:
        """True if the group and the optimizer's state still hold the objects of the plan."""
        return (
            self.mask == mask
            and all(map(operator.is_, params, self.every))
            and all(map(operator.is_, map(state.get, self.params), self._known))
        )

    def fill(self) -> None:
        """Puts the entries that are missing into the states."""
        optimizer = self._optimizer()
        assert optimizer is not None  # it is what steps
        with no_grad():
            for param, state in zip(self.params, self.states):
                optimizer._fl_init_state(self._group, param, state)
        self.share()

    def share(self) -> None:
        """Puts states into the optimizer's where they have entries."""
        optimizer = self._optimizer()
        assert optimizer is not None  # it is what steps
        for param, entries in zip(self.params, self.states):
            if entries:
                optimizer.state[param] = entries
        self._known = [optimizer.state.get(param) for param in self.params]

    def tensors(self, name: str) -> list[Any]:
        """The state tensors `name` of all parameters, as one list."""
        try:
            return [state[name] for state in self.states]
        except KeyError:
            self.fill()
            return [state[name] for state in self.states]

    def column(self, name: str) -> Column:
        """The numbers `name` of all parameters. Users may have put others into the states, tensors or not."""
        column = self._columns.get(name)
        try:
            if column is not None and all(map(operator.is_, map(column.of, self.states), column.tensors)):
                return column
        except KeyError:
            pass
        column = self._columns[name] = self._adopt(name, self.tensors(name))
        return column

    def _adopt(self, name: str, now: list[Any]) -> Column:
        optimizer = self._optimizer()
        assert optimizer is not None  # it is what steps
        numbers = optimizer._fl_numbers.get((self.key, name))
        if numbers is None or not _same(numbers.params, self.every):
            numbers = Numbers(name, self.every, now)
        tensors = [numbers.tensors[i] for i in self.where]
        if not _same(tensors, now):
            if any(tensor is not None and tensor is not other for tensor, other in zip(tensors, now)):
                numbers = Numbers(name, self.every, now)
                tensors = [None] * len(now)
            # All are read before one is written.
            for i, state, tensor, value in zip(self.where, self.states, tensors, [number_of(number) for number in now]):
                if tensor is None:
                    state[name] = numbers.give(i, value)
        optimizer._fl_numbers[self.key, name] = numbers
        return Column(numbers, self.where)

    def count(self) -> list[int]:
        """Adds one to every 'step' and returns them."""
        return self.column("step").count()

    def drop_newer(self, optimizer: Owner, sizes: list[int]) -> None:
        """Takes out of the states what has come to the entries that they had."""
        for param, entries, size in zip(self.params, self.states, sizes):
            while len(entries) > size:
                entries.popitem()
            if not entries and optimizer.state.get(param) is entries:
                del optimizer.state[param]
        self.share()

    def kept(self) -> list[tuple[Column, list[float]]]:
        """All its numbers as they are, to be written again."""
        columns = [self.column(name) for name in list(self._columns)]
        return [(column, column.read()) for column in columns]


class Stepped:
    """A step in a call that may be replayed: a recorded step reads its numbers from cells, which are filled anew each time."""

    def __init__(self, optimizer: Owner) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._groups = [*optimizer._fl_groups]
        self._step = vars(optimizer).get("step")  # where one of its own was put there
        self._sizes: list[list[int]] = []
        self._parts: list[tuple[Plan, str, list[Tensor], Any]] = []
        self._kept: list[tuple[Column, list[float]]] = []
        self._same = True
        self.again = False

    def part(self, plan: Plan, rule: str, states: list[list[Tensor]]) -> Any:
        """The cell for the step over one plan: the same in each call."""
        k = sum(p is plan for again in _replay.noted() if isinstance(again, Stepped) for p, *_ in again._parts)
        if k == len(plan.cells):
            plan.cells.append(_C.optim.Cell())
        cell = plan.cells[k]
        self._parts.append((plan, rule, [s for each in states for s in each], cell))
        return cell

    def has(self, plan: Plan) -> bool:
        return any(p is plan for p, *_ in self._parts)

    def refill(self, plan: Plan, rule: str, states: list[list[Tensor]], counts: list[int], options: tuple[Any, ...]) -> None:
        for own, name, before, cell in self._parts:
            if own is plan:
                now = [s for each in states for s in each]
                self._same = self._same and name == rule and len(now) == len(before) and all(map(operator.is_, now, before))
                if self._same:
                    getattr(_C.optim, "fill_" + rule)(cell, counts, options)
                return
        self._same = False

    def ready(self) -> bool:
        optimizer = self._optimizer()
        if optimizer is None or optimizer._fl_has_step_hooks() or vars(optimizer).get("step") is not self._step:
            return False
        if not _same(optimizer._fl_groups, self._groups):
            return False
        return sum(bool(p.params) for p in optimizer._fl_plans.values()) == len(self._parts) and all(
            optimizer._fl_plans.get(plan.key) is plan
            and len(params := plan._group["params"]) == len(plan.every)
            and plan.fits(params, plan.mask, optimizer.state)
            for plan, *_ in self._parts
        )

    def begin(self) -> bool:
        optimizer = self._optimizer()
        if optimizer is None:
            return False
        self._kept = [kept for plan, *_ in self._parts for kept in plan.kept()]
        self._sizes = [[*map(len, plan.states)] for plan, *_ in self._parts]
        self._same = self.again = True
        optimizer._fl_stepped = self
        try:
            for plan, *_ in self._parts:
                optimizer._fl_update(plan._group, plan, [])
        finally:
            optimizer._fl_stepped = None
        return self._same

    def undo(self) -> None:
        for column, values in self._kept:
            column.write(values)
        if (optimizer := self._optimizer()) is not None:
            for (plan, *_), sizes in zip(self._parts, self._sizes):
                plan.drop_newer(optimizer, sizes)

    def end(self) -> None:
        if (optimizer := self._optimizer()) is not None:
            optimizer._fl_n_steps += 1


def _same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(operator.is_, a, b))


def rounds(params: list[Tensor]) -> list[list[Tensor]]:
    """The parameters; those that stand there twice once more, in a round of their own.

    A fused step takes all parameters at once, so that none may be there twice.
    """
    if len(set(map(id, params))) == len(params):
        return [params]
    found: list[list[Tensor]] = []
    seen: dict[int, int] = defaultdict(int)
    for param in params:
        k = seen[id(param)]
        seen[id(param)] += 1
        if k == len(found):
            found.append([])
        found[k].append(param)
    return found
