"""Modules that each do a part of another module's forward: recorded ops, performed eagerly under autograd.

    segment 0        (tag, what crosses)        segment 1       ...       last segment: the module's output

A tensor that a later segment reads crosses every cut between, so a skip connection needs no name: segments that it passes hand it on,
and gradients add up on the way back as they do in the module. The tag says which recording it is and what random ops are seeded with.

Note [Random numbers of segments]
---------------------------------
The first segment makes a number of what its thread's generator is at, which in a pipeline depends on the call and the micro-batch alone.
Each random op draws from a generator of its own, seeded by that number and the index of the op. So cuts, schedules and recomputes do
not change what is drawn. The thread's generator makes one draw, so that the next call has another number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._from_data import as_tensor
from flambeau._info import finfo
from flambeau.amp.autocast_mode import autocast
from flambeau.autograd import enable_grad, grad, inference_mode
from flambeau.graph import refs_of
from flambeau.graph._structure import draws
from flambeau.nn import Module, Parameter
from flambeau.pipeline._executor import seed_here
from flambeau.pipeline._flags import is_recomputing
from flambeau.pipeline._homes import Home, Owners, Uses, homes_of
from flambeau.pipeline._microbatch import leaves, map_tensors, tensors_of
from flambeau.pipeline._probe import Probe, Step, Values, read
from flambeau.pipeline._stage import _mixed, annotate
from flambeau.pipeline._trace import Call, CutError, Derivative, Slot, Trace, begun, flows, trace
from flambeau.random import fork_rng


class Program:
    """A recorded forward that can be performed in parts."""

    def __init__(self, found: Trace, homes: Mapping[int, Home], derivatives: Sequence[Derivative | None]) -> None:
        self.found, self.graph, self.derivatives = found, found.graph, derivatives
        self.refs = [refs_of(node.args) for node in self.graph.nodes]
        self.homes = {buffer: homes.get(id(x)) for buffer, x in found.held.items()}
        self.random = {k for k, node in enumerate(self.graph.nodes) if draws(node)}
        self.changed = {b for node in self.graph.nodes for b in found.written(node)} & set(found.held)
        ends: dict[int, list[int]] = {}
        for buffer in found.born:
            ends.setdefault(found.last[buffer], []).append(buffer)
        self.ends = ends
        self.steps = [Step(node) for node in self.graph.nodes]
        self.reads = [[self._how(k, position, i) for position, i in enumerate(refs)] for k, refs in enumerate(self.refs)]
        self._crossing: dict[int, list[int]] = {}

    def _how(self, k: int, position: int, index: int) -> tuple[int, int | None, bool]:
        """How a node reads a value: the buffer, the value if it is a view of what is there, and whether without its history.

        What the history of the recording does not have went through detach() or no_grad().
        """
        found, node = self.found, self.graph.nodes[k]
        joined = k in found.recorded and ((k, position) in found.joined or index in node.writes)
        return self.graph.values[index].buffer, None if index in found.whole else index, not joined

    def crossing(self, position: int) -> list[int]:
        """The buffers that a cut before a node hands on, in order."""
        if position not in self._crossing:
            self._crossing[position] = self.found.crossing(position)
        return self._crossing[position]

    def buffers(self, start: int, stop: int) -> set[int]:
        """What the nodes of a part touch."""
        values = self.graph.values
        found = {values[i].buffer for k in range(start, stop) for i in self.refs[k]}
        if stop == len(self.graph.nodes):
            found |= {values[i].buffer for i in self.graph.outputs}
        return found

    def allowed(self, position: int) -> bool:
        """Whether a cut may lie before a node: nothing that crosses is overwritten behind it, and no state of the module is on both sides
        that either of them writes."""
        return position not in self._forbidden

    @cached_property
    def _forbidden(self) -> set[int]:
        values = self.graph.values
        touched: dict[int, list[int]] = {}
        written: dict[int, int] = {}
        for k, node in enumerate(self.graph.nodes):
            for i in self.refs[k]:
                touched.setdefault(values[i].buffer, []).append(k)
            written.update(dict.fromkeys(self.found.written(node), k))
        spans = [(self.found.born[b], k) for b, k in written.items() if b in self.found.born]
        spans += [(touched[b][0], touched[b][-1]) for b in self.changed]
        return {position for first, last in spans for position in range(first + 1, last + 1)}

    def held(self, start: int, stop: int) -> Values:
        """The module's tensors for a part. What it writes to them is written once: not again by a recompute."""
        tensors = {}
        for buffer in self.buffers(start, stop) & set(self.found.held):
            home = self.homes[buffer]
            x = self.found.held[buffer] if home is None else home[0][home[1]]
            tensors[buffer] = x.detach().clone() if buffer in self.changed and is_recomputing() else x
        return tensors

    def uses(self, cuts: Sequence[int]) -> Uses:
        """Segments, and the module's tensors that they use."""
        return [(s, x) for s, (start, stop) in enumerate(pairwise(cuts)) for x in self.held(start, stop).values()]

    def shed(self, cuts: Sequence[int], kept: Collection[int]) -> None:
        """Lets go of tensors that other segments alone need: constants, and those that are in no table of the module."""
        used = {b for s, (start, stop) in enumerate(pairwise(cuts)) if s in kept for b in self.buffers(start, stop)}
        for buffer in set(self.graph.constants) - used:
            del self.graph.constants[buffer]
        for buffer, x in self.found.held.items():
            home = self.homes[buffer]
            if home is not None:
                self.found.held[buffer] = home[0][home[1]]
            elif buffer not in used:
                self.found.held[buffer] = x.to("meta")

    def run(self, start: int, stop: int, values: Values, seed: int | None = None) -> None:
        """Performs the nodes from `start` to `stop`.

        Args:
            values: by buffer what crosses, and the module's tensors; changed to what crosses behind.
            seed: of random ops, see Note [Random numbers of segments]; None lets them draw from the thread's generator, in order.
        """
        values.update(self.graph.constants)
        with autocast("cpu", enabled=False):  # casts are ops of the recording
            for k in range(start, stop):
                try:
                    self._perform(k, values, seed)
                except BaseException as error:
                    annotate(error, f"in {self.found.at(k)}")
                    raise
                for buffer in self.ends.get(k, ()):
                    values.pop(buffer, None)

    def _perform(self, k: int, values: Values, seed: int | None) -> None:
        node = self.graph.nodes[k]
        generator = None
        if seed is not None and k in self.random:
            generator = _C.Generator()
            generator.manual_seed(_mixed(_mixed(seed) + k))
        tensors = []
        for buffer, view, apart in self.reads[k]:
            x = values[buffer] if view is None else read(self.found, values, view)
            tensors.append(x.detach() if apart and x.requires_grad else x)
        made = self.steps[k](tensors, generator)
        values.update((self.graph.values[i].buffer, y) for i, y in zip(node.outs, made))

    def output(self, values: Values) -> Any:
        """What the module returns."""
        n = len(self.graph.nodes)
        tensors = []
        for position, i in enumerate(self.graph.outputs):
            x = read(self.found, values, i)
            tensors.append(x if (n, position) in self.found.joined or not x.requires_grad else x.detach())
        return _with_slots(self.found.output, tensors)

    def inputs(self, tensors: Sequence[Tensor]) -> Values:
        """The tensors of a micro-batch, by buffer."""
        return {self.graph.values[i].buffer: x.contiguous() for i, x in zip(self.found.arguments, tensors)}


def _with_slots(output: Any, tensors: Sequence[Tensor]) -> Any:
    if isinstance(output, Slot):
        return tensors[output.number]
    if isinstance(output, dict):
        return {key: _with_slots(entry, tensors) for key, entry in output.items()}
    if isinstance(output, (tuple, list)):
        entries = [_with_slots(entry, tensors) for entry in output]
        return type(output)(*entries) if hasattr(output, "_fields") else type(output)(entries)
    return output


# ------------------------------------------------------------------------------------------------------------------------------ recordings


def form_of(value: Any) -> str:
    """What must be the same of micro-batches for a recording to serve."""
    return repr((type(value), [(path, (x.dtype, tuple(x.shape)) if isinstance(x, Tensor) else repr(x)) for path, x in leaves(value)]))


def _settings(module: Module) -> str:
    """Plain values that modules have as attributes: a recording has them as constants."""
    plain = (bool, int, float, str, type(None))
    return repr([[(k, v) for k, v in vars(part).items() if isinstance(v, plain)] for part in module.modules()])


class Recordings:
    """A module's forward by sizes of micro-batches, and where each recording is cut.

    Args:
        module: is copied to be recorded; its tensors are used as they are.
        call: how the module is called with a micro-batch.
    """

    def __init__(self, module: Module, call: Call) -> None:
        self.module, self.call = module, call
        self.programs: list[Program] = []
        self.cuts: list[list[int]] = []  # per program where segments begin, with the end
        self.modes: list[Any] = []
        self.owners: Owners | None = None  # where segments are in several processes
        self.numbers: dict[int, int] = {}  # by the number that the process of the first segment has for a recording, where it is another
        self._known: dict[str, int] = {}
        self._lock = threading.Lock()
        self._version, self._state = -1, ""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def key(self, form: str) -> str:
        """What a recording is found by: what `form_of` says of a micro-batch, and the module's mode."""
        return repr((form, self._mode()))

    def known(self, form: str) -> int | None:
        """The recording for micro-batches of a form, in this mode."""
        return self._known.get(self.key(form))

    def _mode(self) -> Any:
        """What, beside sizes, decides which ops there are."""
        version = _C.graph.objects_version()
        if version != self._version:
            self._version, self._state = version, _settings(self.module)
        return [part.training for part in self.module.modules()], _C.is_autocast_enabled(), str(_C.get_autocast_dtype()), self._state

    def record(self, value: Any) -> tuple[Program, Probe]:
        """A program of a forward, with the probe that knows its derivatives."""
        found = trace(self.module, self.call, value)
        derivatives = self._derivatives_of(found)
        if derivatives is None:
            for buffer, x in found.twins.items():
                if found.held[buffer].is_meta:  # in another process; zeros do, where ops have to be called
                    x.detach().zero_()
        probe = Probe(found, tensors_of(value))
        if derivatives is None:
            derivatives = probe.derivatives()
        flows(found, derivatives)
        return Program(found, {id(table[name]): (table, name) for _, (table, name) in homes_of(self.module)}, derivatives), probe

    def _derivatives_of(self, found: Trace) -> Sequence[Derivative | None] | None:
        """Those of a recording of the same ops, where this process does not have the tensors to call them."""
        mode = self._mode()
        if self.owners is not None:
            for program, other in zip(self.programs, self.modes):
                if other == mode and _same_calls(program.found, found):
                    return program.derivatives
        return None

    def begin(self, program: Program, value: Any, cuts: Sequence[int]) -> None:
        """Takes the first recording, whose cuts the others follow."""
        self._take(program, value, [0, *cuts, len(program.graph.nodes)])

    def _take(self, program: Program, value: Any, cuts: list[int]) -> int:
        program.found.release()
        if self.owners is not None:
            self.owners.check(program.uses(cuts))
            program.shed(cuts, self.owners.kept)
        self.programs.append(program)
        self.cuts.append(cuts)
        self.modes.append(self._mode())
        self._known[self.key(form_of(value))] = len(self.programs) - 1
        return len(self.programs) - 1

    def keep(self, segments: Collection[int]) -> Owners:
        """Keeps the bytes of these segments alone; those of others move to the meta device, now and in recordings to come.

        Raises:
            CutError: others were kept before, so that bytes of these may be gone.
        """
        if self.owners is not None and self.owners.kept != frozenset(segments):
            kept = sorted(self.owners.kept)
            raise CutError(f"split: segments {sorted(segments)} are to be kept in a process that has kept {kept} before")
        if self.owners is None:
            uses = [use for program, cuts in zip(self.programs, self.cuts) for use in program.uses(cuts)]
            self.owners = Owners(self.module, uses, segments)
        self.owners.release()
        for program, cuts in zip(self.programs, self.cuts):
            program.shed(cuts, self.owners.kept)
        return self.owners

    def parameters(self, segment: int) -> list[Parameter]:
        """Those that a segment of the first recording uses."""
        start, stop = self.cuts[0][segment : segment + 2]
        return [x for x in self.programs[0].held(start, stop).values() if isinstance(x, Parameter)]

    def index_of(self, value: Any) -> int:
        """The recording for a micro-batch; makes it if there is none.

        Raises:
            CutError: the ops of this one are others than those that were cut.
        """
        with self._lock:
            index = self.known(form_of(value))
            if index is None:
                program, _ = self.record(value)
                index = self._take(program, value, self._placed(program))
            return index

    def _placed(self, program: Program) -> list[int]:
        """Where a program is cut: at the same ops as the first one. In another mode (eval) some may be missing."""
        first, cuts = self.programs[0], self.cuts[0]
        old, new = _ops_of(first.found, program.found)
        if old == new:
            return cuts
        if self.modes[0] == self._mode():
            raise CutError(_difference(first, program, old, new))
        there = _aligned(old, new)
        places = [there[cut] for cut in cuts[1:-1]]
        places = [next((p for p in range(place, len(new)) if program.allowed(p)), len(new)) for place in places]
        result = [0, *places, len(new)]
        for s in range(len(places) + 1):
            own = {id(p) for p in self.parameters(s)}
            for x in program.held(*result[s : s + 2]).values():
                if isinstance(x, Parameter) and id(x) not in own:
                    raise CutError(f"split: in this mode segment {s} uses a parameter that another has; split the module in this mode")
        return result


def check(program: Program, call: Call, value: Any) -> None:
    """Compares outputs and gradients of a program with those of the copy that was recorded.

    Raises:
        CutError: they differ, so something of the forward is not in the recording, such as a hook that changes a gradient.
    """
    found, twin = program.found, program.found.twin
    assert twin is not None
    held = {b: x.detach().clone() if b in program.changed else x for b, x in found.twins.items()}

    def performed(nest: Any) -> Any:
        values = {**program.inputs(tensors_of(nest)), **held}
        program.run(0, len(program.graph.nodes), values)
        return program.output(values)

    trained = [x for x in found.twins.values() if isinstance(x, Parameter)]
    ours, theirs = _results(performed, value, trained), _results(lambda nest: call(twin, nest), value, trained)
    for what, a, b in zip(("outputs", "gradients"), ours, theirs):
        scale = max((float(x.abs().max()) for x in b if x is not None and x.numel()), default=0.0)
        for x, y in zip(a, b, strict=True):
            if (x is None) != (y is None) or (x is not None and y is not None and not _is_close(x, y, scale)):
                raise CutError(
                    f"split: the recorded ops give other {what} than the module (shape {list((x if y is None else y).shape)}); "  # type: ignore[union-attr]
                    "expected a forward of ops alone, which does the same at each call: no hooks that change gradients, no counters"
                )


def _results(forward: Callable[[Any], Any], value: Any, trained: Sequence[Tensor]) -> list[list[Tensor | None]]:
    """Outputs, and gradients of some function of them."""
    with inference_mode(False), enable_grad(), fork_rng():
        _C.current_generator().manual_seed(0)
        nest = map_tensors(value, begun)
        outputs = tensors_of(forward(nest))
        roots = [y for y in outputs if y.requires_grad]
        wanted = [*trained, *(x for x in tensors_of(nest) if x.requires_grad)]
        found: Sequence[Tensor | None] = [None] * len(wanted)
        if roots:
            seeds = [ops.arange(y.numel(), dtype=y.dtype).cos().reshape(y.shape) for y in roots]
            found = grad(roots, wanted, seeds, allow_unused=True)
    return [[y.detach() for y in outputs], list(found)]


def _is_close(x: Tensor, y: Tensor, scale: float) -> bool:
    if not y.is_floating_point() or not y.numel():
        return bool((x == y).all())
    tolerance = finfo(y.dtype).eps ** 0.5
    apart = (x - y).abs() > tolerance * (y.abs() + 1e-3 * scale)
    return not bool((apart & (x == x)).any()) and bool(((x == x) == (y == y)).all())


def _ops_of(*traces: Trace) -> list[list[tuple[str, str, str | None]]]:
    """What tells the ops of each apart. Lines count where all have some: with another profiler on the thread there are none."""
    lines = all(any(place.inside for place in found.places) for found in traces)
    return [
        [(node.op, place.path, node.source if lines and place.inside else None) for node, place in zip(found.graph.nodes, found.places)]
        for found in traces
    ]


def _same_calls(*traces: Trace) -> bool:
    """Whether they have the same ops, which read the same types."""
    read = [[[found.graph.values[i].dtype for i in refs_of(node.args)] for node in found.graph.nodes] for found in traces]
    ops = _ops_of(*traces)
    return ops[0] == ops[1] and read[0] == read[1]


def _aligned(old: Sequence[Any], new: Sequence[Any]) -> list[int]:
    """For each position in `old` that in `new`: behind the op that it is behind, or behind the last before that which both have.

    Both have those of a longest common subsequence.
    """
    common = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]  # of what is behind two positions
    for a in range(len(old) - 1, -1, -1):
        row, below = common[a], common[a + 1]
        for b in range(len(new) - 1, -1, -1):
            row[b] = below[b + 1] + 1 if old[a] == new[b] else max(below[b], row[b + 1])
    there, b = [0], 0
    for a, op in enumerate(old):
        ahead = next((k for k in range(b, len(new)) if new[k] == op), None)
        if ahead is not None and common[a + 1][ahead + 1] + 1 == common[a][b]:
            b = ahead + 1
        there.append(b)
    return there


def _difference(first: Program, program: Program, old: Sequence[Any], new: Sequence[Any]) -> str:
    k = next((k for k, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
    here = program.found.at(k) if k < len(new) else f"the end, after {len(new)} ops"
    there = first.found.at(k) if k < len(old) else f"the end, after {len(old)} ops"
    return (
        f"split: for this micro-batch the forward does something else than for the one that was cut: {here} where there was {there}; "
        "expected the same ops for all sizes. Split the module with a sample of this kind, or pad the batch"
    )


# -------------------------------------------------------------------------------------------------------------------------------- segments


class Segment(Module):
    """A part of a split module. Its parameters are those of the module that it uses."""

    def __init__(self, recordings: Recordings, index: int) -> None:
        super().__init__()
        self.recordings, self.index = recordings, index
        self.take_parameters()

    def take_parameters(self, others: Sequence[tuple[str, Parameter]] = ()) -> None:
        """Has the parameters of the first recording, and others, under their names with dots replaced."""
        names = {id(p): name for name, p in self.recordings.module.named_parameters()}
        self._parameters.clear()
        for p in self.recordings.parameters(self.index):
            self._parameters[names[id(p)].replace(".", "__")] = p
        for name, p in others:
            self._parameters[name.replace(".", "__")] = p

    def forward(self, value: Any) -> Any:
        output, drew = self.run(value)
        if drew:
            ops.rand((1,))  # see Note [Random numbers of segments]
        return output

    def run(self, value: Any) -> tuple[Any, bool]:
        """The output for what comes from the segment before, and whether random numbers were drawn."""
        recordings, s = self.recordings, self.index
        if s == 0:
            seed, which = seed_here(), recordings.index_of(value)
        else:
            which, seed = (int(n) for n in value[0].tolist())
            which = recordings.numbers.get(which, which)
        if which >= len(recordings.programs):
            raise CutError(f"segment {s} has no recording {which} that segment 0 has; expected prepare(sample) in each process")
        program, cuts = recordings.programs[which], recordings.cuts[which]
        start, stop = cuts[s], cuts[s + 1]
        values = program.inputs(tensors_of(value)) if s == 0 else dict(zip(program.crossing(start), value[1:]))
        values.update(program.held(start, stop))
        program.run(start, stop, values, seed)
        drew = any(start <= k < stop for k in program.random)
        if s + 2 == len(cuts):
            return program.output(values), drew
        tag = value[0] if s else as_tensor([which, seed])
        return (tag, *(values[buffer] for buffer in program.crossing(stop))), drew

    def train(self, mode: bool = True) -> Segment:
        """As any module's, and that of the module which was split: it says which ops there are."""
        self.recordings.module.train(mode)
        return super().train(mode)

    def extra_repr(self) -> str:
        start, stop = self.recordings.cuts[0][self.index : self.index + 2]
        places = self.recordings.programs[0].found.places[start:stop]
        return f"ops {start} to {stop - 1}: {places[0]} ... {places[-1]}"

    def _load_from_state_dict(self, *args: Any) -> None:
        """Nothing: the split module loads what it was made of."""

