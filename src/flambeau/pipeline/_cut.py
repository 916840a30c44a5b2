"""`split`: a module of any kind becomes a Sequential of segments, cut where its recorded forward is best cut."""

from __future__ import annotations

import math
import operator
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from flambeau._C import ops
from flambeau.nn import Module, Parameter, Sequential
from flambeau.nn._errors import kind_of
from flambeau.pipeline._choose import Bill, Limits, choose
from flambeau.pipeline._homes import Owners
from flambeau.pipeline._probe import Cost
from flambeau.pipeline._segments import Program, Recordings, Segment, check
from flambeau.pipeline._trace import Call, CutError
from flambeau.pipeline.balance import _integers


def bill_of(program: Program, costs: Sequence[Cost], by: str, param_scale: float, with_memory: bool) -> Bill:
    """What segments of a program would take."""
    n = len(program.graph.nodes)
    positions = [0, *(p for p in range(1, n) if program.allowed(p)), n]
    size = [buffer.nbytes for buffer in program.graph.buffers]
    ledger = _Ledger(program, costs)
    if by == "time":
        prices = _integers(cost.seconds for cost in costs)
    else:
        prices = [math.ceil(param_scale * new) + kept for new, kept in ledger.by_op()]
    memory = {}
    if with_memory:
        for a, start in enumerate(positions):
            memory.update({(a, b): taken for b, taken in zip(range(a + 1, len(positions)), ledger.segments(start, positions[a + 1 :]))})
    return Bill(positions, prices, [sum(size[b] for b in program.crossing(p)) for p in positions], memory)


class _Ledger:
    """Bytes of segments: parameters, and what a micro-batch leaves between its forward and its backward."""

    def __init__(self, program: Program, costs: Sequence[Cost]) -> None:
        self.program, self.costs = program, costs
        self.size = [buffer.nbytes for buffer in program.graph.buffers]
        held = program.found.held
        values = program.graph.values
        self.parameters = [{values[i].buffer for i in refs if isinstance(held.get(values[i].buffer), Parameter)} for refs in program.refs]
        self.saved = [cost.saved for cost in costs]

    def by_op(self) -> list[tuple[int, int]]:
        """Per op the bytes of parameters that are new with it, and those that it keeps; each buffer counts where it is met first."""
        seen: set[int] = set()
        rows = []
        for parameters, saved, cost in zip(self.parameters, self.saved, self.costs):
            rows.append((self._sum(parameters - seen), self._sum(saved - seen) + cost.extra))
            seen |= parameters | saved
        return rows

    def segments(self, start: int, stops: Sequence[int]) -> list[tuple[int, int, int, int]]:
        """Bytes of parameters, activations, input and output of the segments from a position to others that ascend."""
        parameters: set[int] = set()
        kept = set(self.program.crossing(start))  # a stage holds its inputs
        inputs = left = self._sum(kept)
        owned, at = 0, start
        rows = []
        for stop in stops:
            for k in range(at, stop):
                owned += self._sum(self.parameters[k] - parameters)
                left += self._sum(self.saved[k] - kept) + self.costs[k].extra
                parameters |= self.parameters[k]
                kept |= self.saved[k]
            at = stop
            handed_on = set(self.program.crossing(stop))
            rows.append((owned, left + self._sum(handed_on - kept), inputs, self._sum(handed_on)))
        return rows

    def _sum(self, buffers: set[int]) -> int:
        return sum(self.size[b] for b in buffers)


# --------------------------------------------------------------------------------------------------------------------------------- report


@dataclass(frozen=True)
class StageReport:
    """Of one segment: seconds forward and backward of a micro-batch, bytes of parameters, bytes that a micro-batch leaves, and in all."""

    ops: int
    seconds: float
    parameters: int
    activations: int
    total: int


@dataclass(frozen=True)
class CutReport:
    """One cut: the position, what is before and behind it, bytes and tensors that cross, and why it is not an op earlier or later."""

    position: int
    after: str
    before: str
    crossing: int
    tensors: int
    why: str


@dataclass(frozen=True)
class Report:
    """Where a module was cut and why, and what its stages take."""

    stages: list[StageReport]
    cuts: list[CutReport]
    held: tuple[int, ...]

    def __str__(self) -> str:
        lines = []
        for s, stage in enumerate(self.stages):
            lines.append(
                f"stage {s}: {stage.ops} ops, {_ms(stage.seconds)}, parameters {_size(stage.parameters)}, activations "
                f"{_size(stage.activations)} x {self.held[s]}, {_size(stage.total)} in all"
            )
            if s < len(self.cuts):
                cut = self.cuts[s]
                what = f"{cut.tensors} tensor{'' if cut.tensors == 1 else 's'}, {_size(cut.crossing)}"
                lines.append(f"  cut after {cut.after}, before {cut.before}: {what}\n    {cut.why}")
        return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"


def _size(n: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} GiB"


class _Reporter:
    def __init__(self, program: Program, costs: Sequence[Cost], limits: Limits, cuts: Sequence[int], by: str) -> None:
        self.program, self.costs, self.limits, self.cuts, self.by = program, costs, limits, list(cuts), by
        self.ledger = _Ledger(program, costs)
        n = len(program.graph.nodes)
        self.positions = [p for p in range(1, n) if program.allowed(p)]
        self.prices = [c.seconds for c in costs] if by == "time" else [p * limits.param_scale + a for p, a in self.ledger.by_op()]
        self.most = max(self._price(a, b) for a, b in self._spans(self.cuts))

    def _spans(self, cuts: Sequence[int]) -> list[tuple[int, int]]:
        ends = [0, *cuts, len(self.program.graph.nodes)]
        return list(zip(ends, ends[1:]))

    def _price(self, start: int, stop: int) -> float:
        return sum(self.prices[start:stop])

    def _shown(self, price: float) -> str:
        return _ms(price) if self.by == "time" else _size(price)

    def _stage(self, s: int, start: int, stop: int) -> StageReport:
        (taken,) = self.ledger.segments(start, [stop])
        seconds = sum(cost.seconds for cost in self.costs[start:stop])
        return StageReport(stop - start, seconds, *taken[:2], self.limits.bytes_of(s, *taken))

    def report(self) -> Report:
        stages = [self._stage(s, a, b) for s, (a, b) in enumerate(self._spans(self.cuts))]
        return Report(stages, [self._cut(s, p) for s, p in enumerate(self.cuts)], self.limits.held)

    def _cut(self, s: int, position: int) -> CutReport:
        buffers = self.program.crossing(position)
        ends = [0, *self.cuts, len(self.program.graph.nodes)]
        later = next((p for p in self.positions if position < p < ends[s + 2]), None)
        earlier = next((p for p in reversed(self.positions) if ends[s] < p < position), None)
        why = f"later: {self._moved(s, later, s)}; earlier: {self._moved(s, earlier, s + 1)}"
        return CutReport(position, self._op(position - 1), self._op(position), self._crossing(position), len(buffers), why)

    def _op(self, k: int) -> str:
        return f"{self.program.graph.nodes[k].op} ({self.program.found.places[k]})"

    def _crossing(self, position: int) -> int:
        return sum(self.program.graph.buffers[b].nbytes for b in self.program.crossing(position))

    def _moved(self, cut: int, to: int | None, grows: int) -> str:
        """What would be, were a cut elsewhere and a stage larger by that."""
        if to is None:
            return "there is no other place in this stage"
        moved = [*self.cuts[:cut], to, *self.cuts[cut + 1 :]]
        start, stop = self._spans(moved)[grows]
        price, crossing, now = self._price(start, stop), self._crossing(to), self._crossing(self.cuts[cut])
        taken = self._stage(grows, start, stop).total
        where = f"before {self._op(to)}"
        if self.limits.memory is not None and taken > self.limits.memory:
            return f"{where} stage {grows} would take {_size(taken)}, over the limit of {_size(self.limits.memory)}"
        if price > self.most:
            return f"{where} stage {grows} would take {self._shown(price)}, more than the {self._shown(self.most)} of the dearest now"
        if crossing > now:
            return f"{where} {_size(crossing)} would cross instead of {_size(now)}"
        return f"{where} nothing would be better: stage {grows} {self._shown(price)}, {_size(crossing)} crossing"


# ---------------------------------------------------------------------------------------------------------------------------------- split


class Split(Sequential):
    """What `split` makes: segments in a row, with the state of the module that they were cut from.

    Attributes:
        report: where the cuts are and why.
        original: the module. Its parameters are the segments', and its buffers are written by them.
    """

    report: Report
    original: Module

    def __init__(self, recordings: Recordings, report: Report) -> None:
        segments = [Segment(recordings, s) for s in range(len(report.stages))]
        super().__init__(OrderedDict((str(s), segment) for s, segment in enumerate(segments)))
        vars(self).update(original=recordings.module, report=report)  # not as a child: its parameters would be there twice
        self.training = recordings.module.training
        self._take_parameters()

    def _take_parameters(self) -> None:
        """Those that no segment uses are the first one's: they are state, and an optimizer's business."""
        segments: list[Segment] = list(self)  # type: ignore[arg-type]
        for segment in segments:
            segment.take_parameters()
        used = {id(p) for segment in segments for p in segment.parameters()}
        segments[0].take_parameters([(name, p) for name, p in self.original.named_parameters() if id(p) not in used])

    def forward(self, input: Any) -> Any:
        any_drew = False
        for segment in self._modules.values():
            input, drew = segment.run(input)  # type: ignore[union-attr]
            any_drew = any_drew or drew
        if any_drew:
            ops.rand((1,))  # see Note [Random numbers of segments]
        return input

    @property
    def recordings(self) -> Recordings:
        """What all segments perform parts of."""
        segments: list[Segment] = list(self)  # type: ignore[arg-type]
        return segments[0].recordings

    def prepare(self, *samples: Any) -> None:
        """Records the forward for further sizes of micro-batches, in the mode that the module is in.

        Otherwise the first segment does when it meets one. Copies of segments that are in several processes each have to do it before; a
        `DistributedPipeline` sees to it.
        """
        for sample in samples:
            self.recordings.index_of(sample)

    def prepare_modes(self, sample: Any) -> None:
        """Records the forward in training and in eval mode, if it works there."""
        parts = list(self.original.modules())
        modes = [part.training for part in parts]
        try:
            for mode in (True, False):
                self.original.train(mode)
                with suppress(Exception):  # raised where the mode is used
                    self.prepare(sample)
        finally:
            for part, mode in zip(parts, modes):
                part.training = mode

    def keep(self, segments: Collection[int]) -> Owners:
        """Keeps the bytes of these segments alone, as a process does; says which tensors are whose."""
        return self.recordings.keep(segments)

    def _apply(self, fn: Any, recurse: bool = True) -> Split:
        self.original._apply(fn, recurse)
        self._take_parameters()
        return self

    # ---- state: the original's

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state of the module that was split, under its names."""
        return self.original.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Loads a state of the module that was split."""
        result = self.original.load_state_dict(state_dict, strict, assign)
        self._take_parameters()
        return result

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing: list[str], unexpected: list[str], errors: list[str]
    ) -> None:
        # As a part of a larger model, whose loading does not come through load_state_dict.
        own = OrderedDict((key[len(prefix) :], value) for key, value in state_dict.items() if key.startswith(prefix))
        try:
            result = self.load_state_dict(own, False, local_metadata.get("assign_to_params_buffers", False))
        except RuntimeError as error:
            errors.append(str(error))
            return
        missing += [prefix + key for key in result.missing_keys]
        unexpected += [prefix + key for key in result.unexpected_keys]


def split(
    module: Module,
    sample: Any,
    stages: int | None = None,
    *,
    at: Sequence[int | str] | None = None,
    call: Call | None = None,
    by: str = "time",
    memory: int | None = None,
    param_scale: float = 2.0,
    held: Sequence[int] | None = None,
    tolerance: float = 0.05,
    seconds: float = 1.0,
) -> Split:
    """Cuts a module of any kind into segments, a Sequential that a `Pipeline` takes.

    The forward is recorded, on a copy, and cut between ops; what a later segment needs is handed on. A segment performs its ops eagerly,
    with the module's own parameters and buffers. What Python does beside ops happens when a forward is recorded, once for each size of
    micro-batch, mode (train, eval) and plain values of attributes.

    Args:
        module: it has to do the same ops for all micro-batches of a size: without reading values, and without backwards in Python.
        sample: an input as large as a micro-batch: a tensor, or a nest of tuples, lists and dicts.
        stages: how many segments there shall be.
        at: where to cut instead: indices of ops, or names of submodules, before whose first op a cut is.
        call: `call(module, sample)` calls the module; by default with the sample as its one argument.
        by: "time", forward and backward measured op by op, or "size", bytes of parameters and activations.
        memory: bytes that a stage may take. Parameters count `param_scale` times, what a micro-batch leaves as often as `held` says, and
            inputs and a gradient that wait there.
        param_scale: bytes that training takes per byte of parameters, gradients and the optimizer's state included.
        held: per stage the micro-batches that it holds at once; by default those of schedule "1f1b", stages, ..., 2, 1.
        tolerance: how much slower than possible the slowest stage may be if fewer bytes cross then.
        seconds: how long to measure; the first calls of kernels are slow, so a sweep should fit in several times.

    Returns:
        The segments. `report` says where they were cut and why; `state_dict` is the module's.

    Raises:
        CutError: (a ValueError) the forward can not be recorded, or not be cut like that; the module is as it was.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline._cut import split
        >>> class Block(fl.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.up, self.down = fl.nn.Linear(4, 16), fl.nn.Linear(16, 4)
        ...     def forward(self, x):
        ...         return x + self.down(self.up(x).relu())
        >>> model = fl.nn.Sequential(Block(), Block())
        >>> parts = split(model, fl.ones(2, 4), at=["1"])
        >>> len(parts), parts.report.cuts[0].tensors, list(parts.state_dict()) == list(model.state_dict())
        (2, 1, True)
        >>> bool((parts(fl.ones(3, 4)) == model(fl.ones(3, 4))).all())
        True
    """
    _check(module, stages, at, by, held)
    recordings = Recordings(module, call or _called)
    program, probe = recordings.record(sample)
    check(program, recordings.call, sample)
    costs = probe.costs(seconds if by == "time" and at is None else 0.0)
    n = len(at) + 1 if at is not None else operator.index(stages)  # type: ignore[arg-type]
    limits = Limits(tuple(held) if held is not None else tuple(range(n, 0, -1)), memory, param_scale)
    if at is not None:
        cuts = _given(program, at)
    else:
        cuts = choose(bill_of(program, costs, by, param_scale, memory is not None), limits, tolerance)
    recordings.begin(program, sample, cuts)
    return Split(recordings, _Reporter(program, costs, limits, cuts, by).report())


def split_for(module: Module, sample: Any, counts: Iterable[int], seconds: float = 1.0) -> tuple[Split, dict[int, list[int]]]:
    """Segments of which any of several numbers of stages can be made, measured once.

    Args:
        module, sample, seconds: as of `split`.
        counts: numbers of stages.

    Returns:
        The segments, and for each number of stages how many segments each stage has: with that as its `balance` a `Pipeline` has the stages
        that `split` would have made. Numbers for which there are too few places to cut are left out.

    Raises:
        CutError: the forward can not be recorded.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline._cut import split_for
        >>> model = fl.nn.Sequential(*(fl.nn.Linear(4, 4) for _ in range(4)))
        >>> parts, balances = split_for(model, fl.ones(2, 4), [1, 4, 9], seconds=0.0)
        >>> len(parts), balances
        (4, {1: [4], 4: [1, 1, 1, 1]})
    """
    recordings = Recordings(module, _called)
    program, probe = recordings.record(sample)
    check(program, recordings.call, sample)
    costs = probe.costs(seconds)
    bill = bill_of(program, costs, "time", 2.0, False)
    found: dict[int, list[int]] = {}
    for n in counts:
        with suppress(CutError):
            found[n] = choose(bill, _limits(n), 0.05)
    every = sorted({cut for cuts in found.values() for cut in cuts})
    recordings.begin(program, sample, every)
    report = _Reporter(program, costs, _limits(len(every) + 1), every, "time").report()
    at = {position: k for k, position in enumerate([0, *every, len(program.graph.nodes)])}
    ends = {n: [0, *(at[cut] for cut in cuts), len(every) + 1] for n, cuts in found.items()}
    return Split(recordings, report), {n: [b - a for a, b in pairwise(row)] for n, row in ends.items()}


def _limits(stages: int) -> Limits:
    return Limits(tuple(range(stages, 0, -1)), None, 2.0)


def _called(module: Module, value: Any) -> Any:
    return module(value)


def _check(module: Any, stages: Any, at: Any, by: str, held: Any) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"split: module is a {kind_of(module)}; expected an nn.Module")
    if (stages is None) == (at is None):
        raise CutError("split: expected either stages, how many there shall be, or at, where to cut")
    if by not in ("time", "size"):
        raise CutError(f"split: by = {by!r}; expected 'time' or 'size'")
    n = operator.index(stages) if at is None else len(at) + 1
    if n < 1:
        raise CutError(f"split: stages = {stages}; expected at least 1")
    if held is not None and len(held) != n:
        raise CutError(f"split: held has {len(held)} numbers for {n} stages; expected one for each")


def _given(program: Program, at: Sequence[int | str]) -> list[int]:
    cuts = [_position(program, where) for where in at]
    n = len(program.graph.nodes)
    if sorted(set(cuts)) != cuts or (cuts and not 0 < cuts[0] <= cuts[-1] < n):
        raise CutError(f"split: at = {list(at)} is before ops {cuts} of {n}; expected places that ascend between the first and the last")
    for cut in cuts:
        if not program.allowed(cut):
            raise CutError(f"split: there can be no cut before {program.found.at(cut)}: what crosses is overwritten behind it")
    return cuts


def _position(program: Program, where: int | str) -> int:
    if not isinstance(where, str):
        return operator.index(where)
    for k, place in enumerate(program.found.places):
        if place.path == where or place.path.startswith(where + "."):
            return k
    raise CutError(f"split: no op of the forward is in a submodule '{where}'; expected a name of named_modules() that the forward calls")
