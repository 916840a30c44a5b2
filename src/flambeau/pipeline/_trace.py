"""What a module does to a sample: the graph of its forward, where each op comes from, and along which arguments gradients flow.

A copy of the module is called inside of `flambeau.graph.record`; the module itself and its state stay as they are. The recording has
ops and bytes, but not `detach` and `no_grad`: those are found by walking the history of the outputs beside the graph (`flows`).

    graph    %5 = mul(%4, %3)          %6 = add(%2, %5)
    history  MulBackward(None, ...)    AddBackward(..., MulBackward)       %4 was detached: no gradient goes there
"""

from __future__ import annotations

import copy
import functools
import itertools
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.autograd import enable_grad, inference_mode, no_grad
from flambeau.graph import Graph, GraphError, Node, Value, record, refs_of
from flambeau.graph._replay import _ops
from flambeau.nn import Module, Parameter
from flambeau.nn._errors import kind_of
from flambeau.pipeline._microbatch import map_tensors, tensors_of
from flambeau.pipeline.batchnorm import DeferredBatchNorm
from flambeau.random import fork_rng

Call = Callable[[Module, Any], Any]

_LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_BUILT_IN = re.compile(r".*Backward\d+|CopySlices|AccumulateGrad")


class CutError(ValueError):
    """A module can not be cut, and why."""


class Place(NamedTuple):
    """Where an op comes from: the path of the module whose forward it is in, and the line of the user's code."""

    path: str
    line: str
    inside: bool = True  # whether that line is of the module's own code, not of who calls it

    def __str__(self) -> str:
        return f"{self.path}, {self.line}" if self.path else self.line


class _Scribe:
    """Notes modules and lines while a module is recorded: each op belongs to what is on top of both stacks when it is recorded.

    Where that changes, a copy of `mark` is recorded, too. So the ops between two copies have one place.
    """

    def __init__(self) -> None:
        self.mark = ops.zeros((1,))
        self.paths = [""]
        self.lines: list[str | None] = [None]
        self.noted: list[tuple[str, str | None, bool]] = []  # in front of each copy
        self.settled = _C.graph.stats()["settled"]
        self.reader: tuple[str, str | None] | None = None  # where values were read

    def flush(self) -> None:
        if self.reader is None and _C.graph.stats()["settled"] != self.settled:
            self.reader = (self.paths[-1], self.lines[-1])
        with no_grad():
            self.mark.clone()
        self.noted.append((self.paths[-1], self.lines[-1], len(self.lines) > 1))

    @contextmanager
    def watching(self, module: Module) -> Iterator[None]:
        handles = []
        for path, part in module.named_modules():
            handles.append(part.register_forward_pre_hook(self._enters(path), prepend=True))
            handles.append(part.register_forward_hook(self._leaves))
        free = sys.getprofile() is None  # a profiler that runs goes before; lines are the library's then
        if free:
            sys.setprofile(self._profile)
        try:
            yield
        finally:
            if free:
                sys.setprofile(None)
            self.flush()
            for handle in handles:
                handle.remove()

    def _enters(self, path: str) -> Callable[..., None]:
        def enter(module: Module, args: Any) -> None:
            self.flush()
            self.paths.append(path)

        return enter

    def _leaves(self, module: Module, args: Any, output: Any) -> None:
        self.flush()
        self.paths.pop()

    def _profile(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if event not in ("call", "return") or frame.f_back is None:
            return
        here, caller = _owner(frame), _owner(frame.f_back)
        if {here, caller} == {"library", "user"}:  # from the user's code into the library, or from that into the user's
            self.flush()
            if event == "call":
                self.lines.append(_line_of(frame.f_back) if here == "library" else None)
            elif len(self.lines) > 1:
                self.lines.pop()


@functools.lru_cache(maxsize=4096)
def _owner_of(path: str) -> str:
    if path.startswith(_LIBRARY):
        return "library"
    return "python" if path.startswith((_PYTHON, "<frozen")) and "site-packages" not in path else "user"


def _owner(frame: types.FrameType) -> str:
    return _owner_of(frame.f_code.co_filename)


def _line_of(frame: types.FrameType) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


class Past(NamedTuple):
    """A node of the history of the outputs, as plain data: tensors that it keeps would have to be computed."""

    name: str
    edges: tuple[int, ...]  # indices of others, -1 for none
    leaf: int | None = None  # the storage of the leaf or input in which it ends


def _history(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> tuple[list[Past], list[int]]:
    """The history of the outputs, and for each of them the index of its node."""
    ends = {x.grad_fn: x._storage_ptr() for x in inputs if x.grad_fn is not None}
    found: dict[Any, int] = {}
    order: list[Any] = []

    def index(fn: Any) -> int:
        if fn is None:
            return -1
        if fn not in found:
            found[fn] = len(order)
            order.append(fn)
        return found[fn]

    leaves: list[Past] = []
    roots = []
    for y in outputs:
        if y.grad_fn is None and y.requires_grad:
            leaves.append(Past("AccumulateGrad", (), y._storage_ptr()))
            roots.append(-1 - len(leaves))  # -2, -3, ...: behind the others, whose number is not known yet
        else:
            roots.append(index(y.grad_fn))
    past: list[Past] = []
    for fn in order:  # grows meanwhile
        variable = getattr(fn, "variable", None)
        if variable is not None or fn in ends:
            past.append(Past(fn.name(), (), ends[fn] if variable is None else variable._storage_ptr()))
        else:
            past.append(Past(fn.name(), tuple(index(below) for below, _ in fn.next_functions)))
    return past + leaves, [len(past) - 2 - r if r < -1 else r for r in roots]


@dataclass
class Trace:
    """A recorded forward.

    Attributes:
        graph, places: the ops, and where each comes from.
        output: the nest that the forward returns, with a `Slot` for each tensor.
        arguments: the values that the tensors of the sample are.
        twin, past, roots: the copy, the history of the outputs, and for each output its node there.
        held: by buffer the module's tensor in it; `twins`: that of the copy.
        storages: by storage of the copy's tensors the buffer.
        bases: by buffer the value that is the tensor in it; `whole` are the values that are it, too, all others are views of it.
        born, last: by buffer the node that makes it (-1: there before) and the last one that touches it (the number of nodes: an output).
        joined: (node, position among its tensors) along which gradients flow; the outputs count as one more node.
        recorded: the nodes that have a part in that.
    """

    graph: Graph
    places: list[Place]
    output: Any
    arguments: list[int]
    twin: Module | None
    past: list[Past]
    roots: list[int]
    held: dict[int, Tensor] = field(default_factory=dict)
    twins: dict[int, Tensor] = field(default_factory=dict)
    storages: dict[int, int] = field(default_factory=dict)
    bases: dict[int, Value] = field(default_factory=dict)
    born: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    joined: set[tuple[int, int]] = field(default_factory=set)
    recorded: set[int] = field(default_factory=set)

    def release(self) -> None:
        """Lets go of the copy; what is needed to perform the ops stays."""
        self.graph._kept.pop("parameters", None)
        self.twins, self.twin, self.past, self.roots, self.storages = {}, None, [], [], {}

    def at(self, node: int) -> str:
        """A node, as an error names it."""
        return f"op {node} ({self.graph.nodes[node].op}, {self.places[node]})"

    def written(self, node: Node) -> set[int]:
        """The buffers that a node overwrites."""
        return {self.graph.values[v].buffer for v in node.writes}

    def crossing(self, position: int) -> list[int]:
        """The buffers that are made before a position between nodes and used behind it, but for the module's own and constants."""
        return [b for b, born in self.born.items() if born < position <= self.last[b]]


@dataclass(frozen=True)
class Slot:
    """In an output: the place of a tensor."""

    number: int


def _copied(module: Module) -> tuple[Module, dict[int, Any]]:
    """A copy whose parameters all require gradients, so that the recording shows where gradients could go; and copies' ids to originals."""
    memo: dict[int, Any] = {}
    twin = copy.deepcopy(module, memo)
    _materialize(twin)
    for p in twin.parameters():
        if p.is_floating_point():
            p.requires_grad_(True)
    originals: dict[int, Any] = {}
    for m, t in zip(module.modules(), twin.modules()):
        for mine, its in ((m._parameters, t._parameters), (m._buffers, t._buffers)):
            originals.update((id(its[name]), x) for name, x in mine.items() if x is not None)
    return twin, originals


def _materialize(twin: Module) -> None:
    """Gives zeros to tensors whose bytes are in other processes: ops are recorded of sizes, but checks of probabilities look at values."""
    for part in twin.modules():
        for table in (part._parameters, part._buffers):
            for name, x in table.items():
                if x is not None and x.is_meta:
                    there = ops.empty_strided(x.shape, x.stride(), dtype=x.dtype)
                    there.zero_()
                    if isinstance(x, Parameter):
                        x.data = there
                    else:
                        table[name] = there


def trace(module: Module, call: Call, sample: Any) -> Trace:
    """Records what a copy of the module does to a sample.

    Raises:
        CutError: what it does can not be recorded, or has a backward of its own in Python.
    """
    if any(isinstance(part, DeferredBatchNorm) for part in module.modules()):
        raise CutError("split: the module has a deferred batch norm, which keeps accounts in Python; split it before conversion")
    if not tensors_of(sample):
        raise CutError(f"split: sample is {kind_of(sample)} with no Tensor in it; expected an input as large as a micro-batch")
    with inference_mode(False), enable_grad(), fork_rng():
        twin, originals = _copied(module)
        forward = _Forward(twin, call, map_tensors(sample, begun))
        try:
            graph = record(forward, *forward.tensors, forward.scribe.mark)
        except GraphError as error:
            path = forward.scribe.reader[0] if forward.scribe.reader else ""
            where = f", in submodule '{path}'" if path else ""
            raise CutError(f"split: the forward can not be recorded, so it can not be cut{where}: {error}") from None
    _check_buffers(twin, originals)
    if not graph.outputs:
        raise CutError(f"split: the module returned {kind_of(forward.output)} with no Tensor in it; expected a tensor, or a nest of them")
    n, parameters = len(forward.tensors), graph._kept.get("parameters", ())
    graph, places = _placed(graph, graph.inputs[n], forward.scribe.noted)
    if not graph.nodes:
        raise CutError("split: the forward performs no op on a tensor, so there is nothing to cut")
    found = Trace(graph, places, forward.output, list(graph.inputs[:n]), twin, forward.past, forward.roots)
    _hold(found, [*forward.tensors, *parameters], n, originals)
    _find_lives(found)
    return found


class _Forward:
    """The call that is recorded. Of its output it keeps the structure and the history, not the tensors, which would be computed then."""

    def __init__(self, twin: Module, call: Call, nest: Any) -> None:
        self.twin, self.call, self.nest = twin, call, nest
        self.tensors, self.scribe = tensors_of(nest), _Scribe()

    def __call__(self, *_: Tensor) -> list[Tensor]:
        with self.scribe.watching(self.twin):
            output = self.call(self.twin, self.nest)
        found = tensors_of(output)
        slots = map(Slot, itertools.count())
        self.output = map_tensors(output, lambda _: next(slots))
        self.past, self.roots = _history(found, self.tensors)
        return found


def _check_buffers(twin: Module, originals: dict[int, Any]) -> None:
    """What the forward puts in the place of a buffer would be lost."""
    for path, part in twin.named_modules():
        for name, x in part._buffers.items():
            if x is not None and id(x) not in originals:
                raise CutError(
                    f"split: the forward puts another tensor in the place of buffer '{path + '.' if path else ''}{name}'; expected that it "
                    "writes into it: self.name.copy_(...)"
                )


def begun(x: Tensor) -> Tensor:
    """An input as a forward is recorded with: no leaf, so that it may be written, but with a gradient."""
    return x.detach().contiguous().requires_grad_(x.is_floating_point()).clone()


def _placed(graph: Graph, mark: int, noted: Sequence[tuple[str, str | None, bool]]) -> tuple[Graph, list[Place]]:
    """The graph without copies of the mark, and where each of its ops comes from."""
    nodes, places = [], []
    at = iter([*noted, ("", None, False)])
    path, line, inside = next(at)
    for node in graph.nodes:
        if mark in refs_of(node.args):
            path, line, inside = next(at)
        else:
            nodes.append(node)
            places.append(Place(path, line or node.source or "?", inside))
    inputs = [index for index in graph.inputs if index != mark]
    return Graph(graph.buffers, graph.values, tuple(nodes), tuple(inputs), graph.outputs, graph.constants), places


def _hold(found: Trace, tensors: Sequence[Tensor], arguments: int, originals: dict[int, Any]) -> None:
    """Whose memory the graph's inputs are."""
    graph = found.graph
    for k, (tensor, index) in enumerate(zip(tensors, graph.inputs, strict=True)):
        value = graph.values[index]
        found.storages[tensor._storage_ptr()] = value.buffer
        if value.buffer in found.bases:
            continue
        found.bases[value.buffer] = value
        if k >= arguments:
            original = originals.get(id(tensor), tensor)
            if original is tensor and tensor.requires_grad:
                raise CutError(
                    f"split: the forward uses a tensor of shape {list(tensor.shape)} that requires grad and is no parameter of the module; "
                    "make it an nn.Parameter of it, or pass it as an input"
                )
            found.held[value.buffer], found.twins[value.buffer] = original, tensor
    for buffer, constant in graph.constants.items():
        dtype = constant.dtype.name
        found.bases[buffer] = Value(buffer, dtype, (constant.numel(),), (1,), 0)


def _find_lives(found: Trace) -> None:
    graph, values = found.graph, found.graph.values
    for index in found.arguments:
        found.born.setdefault(values[index].buffer, -1)
    for k, node in enumerate(graph.nodes):
        for position, index in enumerate(node.outs):
            buffer = values[index].buffer
            found.bases.setdefault(buffer, values[index])
            if position < _ops()[node.op].results:
                found.born.setdefault(buffer, k)
        for index in refs_of(node.args):
            buffer, base = values[index].buffer, found.bases[values[index].buffer]
            if buffer not in found.born and buffer not in found.held and buffer not in graph.constants:
                raise CutError(f"split: {found.at(k)} reads what an op kept for its backward: gradients inside of a forward can not be cut")
            if values[index].dtype != base.dtype:
                raise CutError(f"split: {found.at(k)} reads {base.dtype} as {values[index].dtype}; a view as another type can not be cut")
            found.last[buffer] = k
    for buffer, born in found.born.items():
        found.last.setdefault(buffer, born)
    for index in graph.outputs:
        found.last[values[index].buffer] = len(graph.nodes)
    for index, value in enumerate(values):
        base = found.bases.get(value.buffer, value)
        if (value.sizes, value.offset, steps(value.sizes, value.strides)) == (base.sizes, base.offset, steps(base.sizes, base.strides)):
            found.whole.add(index)


def steps(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """How memory is gone through, without axes of one element."""
    return [] if 0 in sizes else [(size, stride) for size, stride in zip(sizes, strides) if size > 1]


# ------------------------------------------------------------------------------------------------------------------------------- flows


class Derivative(NamedTuple):
    """How autograd sees an op: the name of its node, and for each edge the position among its tensors."""

    name: str
    edges: tuple[int, ...]


def flows(found: Trace, derivatives: Sequence[Derivative | None]) -> None:
    """Fills `joined` and `recorded`.

    Raises:
        CutError: the history of the outputs is not that of the graph: something in the forward has a backward of its own.
    """
    _Flow(found, derivatives).run()


class _Flow:
    def __init__(self, found: Trace, derivatives: Sequence[Derivative | None]) -> None:
        self.found, self.derivatives, self.past = found, derivatives, found.past
        self.values = found.graph.values
        self.refs = [refs_of(node.args) for node in found.graph.nodes]
        self.changes: dict[int, list[int]] = {}  # by buffer the nodes that make or change it
        for k, node in enumerate(found.graph.nodes):
            for index in (*node.outs, *node.writes):
                self.changes.setdefault(self.values[index].buffer, []).append(k)
        self.node_of: dict[int, int] = {}
        self.pending: list[tuple[int, int, int]] = []  # reader, buffer, node of the history

    def run(self) -> None:
        n = len(self.found.graph.nodes)
        for position, (index, root) in enumerate(zip(self.found.graph.outputs, self.found.roots)):
            if root >= 0:
                self._join(n, position, self.values[index].buffer, root)
        while self.pending:
            self._find(*self.pending.pop())
        self.found.recorded = set(self.node_of.values())

    def _join(self, node: int, position: int, buffer: int, at: int) -> None:
        self.found.joined.add((node, position))
        self.pending.append((node, buffer, at))

    def _find(self, reader: int, buffer: int, at: int) -> None:
        """Who made what a reader reads, by its history: over views, which are no nodes of the graph."""
        makers = [k for k in self.changes.get(buffer, ()) if k < reader][::-1]
        first = at
        while at >= 0:
            past = self.past[at]
            if not _BUILT_IN.fullmatch(past.name):
                self._refuse(reader, f"goes through {past.name}, a backward in Python, which the recorded ops do not have")
            if past.leaf is not None:
                if self.found.storages.get(past.leaf) == buffer:
                    return
                break
            if at in self.node_of:
                if self.node_of[at] in makers:
                    return
            elif any(self._matches(at, maker, buffer) for maker in makers):
                return
            if len(past.edges) != 1:
                break
            at = past.edges[0]
        self._refuse(reader, f"has a history of {self.past[first].name}, which the recorded ops do not have")

    def _matches(self, at: int, maker: int, buffer: int) -> bool:
        past, own = self.past[at], self.derivatives[maker]
        if own is None or maker in self.node_of.values():
            return False
        refs = self.refs[maker]
        buffers = [self.values[index].buffer for index in refs]
        edges = list(own.edges)
        if past.name == "CopySlices" and buffer in self.found.written(self.found.graph.nodes[maker]):
            itself = buffers.index(buffer)
            edges = [itself, *(e for e in edges if e != itself)]
        elif past.name != own.name:
            return False
        if len(edges) != len(past.edges) or any(below >= 0 > position for position, below in zip(edges, past.edges)):
            return False
        self.node_of[at] = maker
        for position, below in zip(edges, past.edges):
            if below >= 0:
                self._join(maker, position, buffers[position], below)
        return True

    def _refuse(self, reader: int, what: str) -> None:
        where = "an output" if reader == len(self.found.graph.nodes) else f"what {self.found.at(reader)} reads"
        raise CutError(
            f"split: {where} {what}; expected built-in ops alone: no autograd.Function, no utils.checkpoint, no gradients in the forward"
        )
