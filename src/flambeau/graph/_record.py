"""`record`: what a function does to tensors, as a Graph.

The function runs once inside of `lazy`, behind a mark: a copy that nobody reads and that therefore never runs.

    clone(mark)            gone at the end: something ran in the middle, so a value was read
    what the function does
                           <- here it is looked at, and becomes a graph; then it runs, if anybody sees what it writes

Buffers are told apart by their storages. A tensor does not know that it is a module's, so living modules are asked what they hold.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import operator
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from flambeau import _C, _replay
from flambeau._C import Tensor
from flambeau._redraw import Redrawn
from flambeau.autograd.modes import no_grad
from flambeau.compiler import lazy
from flambeau.graph._graph import Graph
from flambeau.graph._replay import covered, keep_parameters
from flambeau.graph._structure import (
    EMPTY,
    ITEM_BYTES,
    Arg,
    Buffer,
    Draw,
    DType,
    GraphError,
    Node,
    Ref,
    Value,
)
from flambeau.library._graph import as_nodes
from flambeau.nn.module import Module
from flambeau.optim.optimizer import Optimizer

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SOURCE = re.compile(r"(.*):(\d+), in ", re.DOTALL)


def record(function: Callable[..., Any], *inputs: Any) -> Graph:
    """Calls a function and returns what it did as a `Graph`.

    Args:
        function: takes the inputs and returns a tensor, or tuples, lists and dicts of tensors.
        inputs: tensors become the graph's arguments, in order. Anything else is passed on, and what Python computes with it is a
            constant of the graph.

    What modules hold, and tensors of the function's that require gradients or are written, are parameters: inputs too, behind
    the arguments. Other tensors are constants. A draw of random numbers is a `Draw`: it is another one at each run.

    The function is called as it would be otherwise: what it writes is written, draws are taken; only what it returns is not
    computed. A graph has one path: the branch of an `if` that was taken, a loop as often as it ran.

    Raises:
        GraphError: the function reads a value (`item`, `bool`, `numpy`), also one of an input, uses memory that is shared with NumPy,
            writes to what it made with `zeros` or `tensor`, or draws from a generator of its own.

    >>> import flambeau as fl
    >>> from flambeau import graph
    >>> g = graph.record(lambda x, y: (x * 2 + y).relu(), fl.ones(3), fl.ones(3))
    >>> [node.op for node in g.nodes]
    ['mul', 'add', 'relu']
    >>> g.run(fl.tensor([-1.0, 0.0, 1.0]), fl.zeros(3))
    [tensor([0., 0., 2.])]
    """
    arguments = [x for x in inputs if isinstance(x, Tensor)]
    names = _names(function, inputs)
    _C.graph.settle()
    effects: Graph | None = None
    wanted: list[Tensor] = []
    noted = contextlib.nullcontext(_replay.noted()) if _replay.is_noting() else _replay.noting()
    with lazy(), _replay.checks_later(), as_nodes(), noted as again:
        before = _C.graph.latest_interruption()  # of a region around this one
        place = _replay.generator_place()
        mark = _Mark()
        _refuse_meta("input", arguments)
        for position, x in enumerate(arguments):
            with no_grad():
                x.clone()
            if not mark.stands():
                raise GraphError(f"record: input {position} shares its memory with others (NumPy), who may write to it; pass a clone()")
        with _Watch(mark) as watch:
            outputs = list(_tensors(function(*inputs)))
        after = _C.graph.latest_interruption()
        _refuse_reads(mark, watch.line, after[1:] if after and before and after[0] != before[0] else None)
        _refuse_meta("output", outputs)
        _refuse_draws(place, again)
        given, held = [Held(name, x, True) for name, x in zip(names, arguments)], list(_held(function))
        graph = _Maker(_C.graph.recorded(), given, outputs, held).graph()
        del outputs  # what nobody holds any more is not computed
        if any(node.op == "custom_call" for node in graph.nodes):
            # A custom op is not run where recordings are: the graph runs, and gives what somebody still sees its values.
            seen = [x for _, before, seen, x in _C.graph.recorded()["buffers"] if seen and not before]
            wanted = [_flat(x) for x in seen if x._storage_ptr() != mark.storage]
            effects = _Maker(_C.graph.recorded(), given, wanted, held).graph()
            _C.graph.discard()
        del given, held
    if effects is not None and (wanted or _writes_to_inputs(effects)):
        for x, made in zip(wanted, effects.run(*arguments)):
            _C.graph.adopt(x, made)
    for buffer, constant in graph.constants.items():
        graph.constants[buffer] = constant.clone()
    return graph.validate()


def _writes_to_inputs(graph: Graph) -> bool:
    return any(graph.buffers[graph.values[v].buffer].kind in ("argument", "parameter") for node in graph.nodes for v in node.writes)


def _names(function: Any, inputs: Sequence[Any]) -> list[str | None]:
    """Of the function's parameters to which tensors are passed."""
    try:
        signature = inspect.signature(function.forward if isinstance(function, Module) else function)
        bound = signature.bind(*inputs).arguments
    except (TypeError, ValueError):
        return [None] * len(inputs)
    names: list[str | None] = []
    for name, value in bound.items():
        many = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        names += [f"{name}.{i}" if many else name for i, x in enumerate(value if many else (value,)) if isinstance(x, Tensor)]
    return names


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for item in result:
            yield from _tensors(item)
    elif isinstance(result, Mapping):
        yield from _tensors(tuple(result.values()))
    elif result is not None:
        raise TypeError(f"record: the function returned a {type(result).__name__}; expected tensors, or tuples, lists and dicts of them")


def _refuse_meta(what: str, tensors: Sequence[Tensor]) -> None:
    for position, x in enumerate(tensors):
        if x.device.type == "meta":
            raise GraphError(f"record: {what} {position} is on meta, where nothing is computed and so nothing is recorded; expected cpu")


_AT = re.compile(r"(.*?):(\d+), in (\S+)", re.DOTALL)


def _refuse_reads(mark: _Mark, line: str | None, interruption: tuple[str, str] | None) -> None:
    """Refuses a recording in which Python got to know a value: of something recorded, so that this had to run, or of an input."""
    if mark.stands() and interruption is None:
        return
    what, at = interruption or ("", "")
    if line is None and (match := _AT.match(at)):
        line = f"{os.path.basename(match[1])}:{match[2]} (in {match[3]})"
    if mark.stands() and what != "a value was read":
        raise GraphError(f"record: {line or 'the function'}: {what}: a graph can not do that")
    raise GraphError(f"record: {line or 'the function'} reads a value, or uses memory that is shared with NumPy: a graph can not do that")


def _refuse_draws(place: tuple[int, int], again: _replay.Noted) -> None:
    """Refuses draws that would not be the function's when all of a graph's come from the default generator, in order."""
    if any(isinstance(what, Redrawn) for what in again):
        raise GraphError("record: a checkpointed part draws random numbers; its second run draws them again, and a graph can not do that")
    drawn = sum(("draw",) in node[1] for node in _C.graph.recorded()["nodes"])
    if drawn != _replay.generator_place()[1] - place[1]:
        raise GraphError("record: the function draws from a generator of its own, a graph from the default one; pass what it draws")


class _Mark:
    """What a recording begins with."""

    def __init__(self) -> None:
        self.tensor = _C.ops.empty((0,), dtype=_C.float32, device="cpu")
        self.storage = self.tensor._storage_ptr()
        self.tensor.clone()

    def stands(self) -> bool:
        """False: it was run, and all that followed."""
        return any(tensor._storage_ptr() == self.storage for _, _, _, tensor in _C.graph.recorded()["buffers"][:1])


class _Watch:
    """Finds the line at which something is run, unless somebody else (a debugger) is tracing the thread."""

    def __init__(self, mark: _Mark) -> None:
        self.mark, self.settled = mark, _C.graph.stats()["settled"]
        self.line: str | None = None
        self.at: tuple[types.FrameType, int] | None = None

    def __enter__(self) -> _Watch:
        self.traced = sys.gettrace() is not None
        if not self.traced:
            sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        if not self.traced:
            sys.settrace(None)
        self._look()
        self.at = None

    def _trace(self, frame: types.FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        self._look()
        if self.line is not None:
            return None
        if event == "return":  # the rest of the caller's line comes next
            self.at = (frame.f_back, frame.f_back.f_lineno) if frame.f_back else None
        else:
            self.at = (frame, frame.f_lineno)
        return self._trace

    def _look(self) -> None:
        settled = _C.graph.stats()["settled"]  # of all threads
        if self.line is None and settled != self.settled:
            self.settled = settled
            if self.at and not self.mark.stands():
                frame, line = self.at
                while frame.f_code.co_filename.startswith(_HERE) and (back := frame.f_back):
                    frame, line = back, back.f_lineno
                self.line = f"{os.path.basename(frame.f_code.co_filename)}:{line} (in {frame.f_code.co_name})"


class Held(NamedTuple):
    """A tensor that was there before."""

    name: str | None
    tensor: Tensor
    lasts: bool  # a parameter even if it is only read


Spot = tuple[int, str, tuple[int, ...], tuple[int, ...], int]  # storage, dtype, sizes, strides, offset


class _Maker:
    """A graph from a recording. Buffers are known by their storages until all are known."""

    def __init__(self, recorded: dict[str, list[Any]], arguments: list[Held], outputs: Sequence[Tensor], held: Iterable[Held]) -> None:
        self.arguments, self.outputs = arguments, [_spot(y) for y in outputs]
        self.held: dict[int, list[Held]] = {}
        for one in held:
            self.held.setdefault(one.tensor._storage_ptr(), []).append(one)
        for leaf in _leaves(outputs):
            self.held.setdefault(leaf._storage_ptr(), [Held(None, leaf, True)])
        storages = [tensor._storage_ptr() for _, _, _, tensor in recorded["buffers"]]
        self.spots: list[Spot | None] = [v and (storages[v[0]], _name(v[1]), *v[2:]) for v in recorded["values"]]
        # The mark, and a copy of each argument.
        self.nodes = recorded["nodes"][1 + len(arguments) :]
        self.whole = {x._storage_ptr(): x for x in (*outputs, *(one.tensor for one in arguments))}
        self.whole.update(zip(storages, (tensor for _, _, _, tensor in recorded["buffers"])))
        self.fresh = {storage for storage, (_, given, _, _) in zip(storages, recorded["buffers"]) if not given}
        self.inputs: list[Held] = []
        self.kinds: dict[int, str] = {}
        self.values: dict[Spot, int] = {}

    def graph(self) -> Graph:
        self._find_kinds()
        numbers = {storage: number for number, storage in enumerate(self.kinds)}
        names: dict[int, str | None] = {}
        rows: list[Spot] = []
        for one in self.inputs:  # each has a value of its own
            spot = _spot(one.tensor)
            self.values.setdefault(spot, len(rows))
            rows.append(spot)
            names.setdefault(spot[0], one.name)
        inputs, self.surplus = range(len(rows)), len(rows) - len(self.values)
        nodes: list[Node] = []
        begun: set[int] = set()
        for recorded in self.nodes:
            node = self._node(*recorded)
            made = {self.spots[v][0] for v in recorded[2]}  # type: ignore[index]
            for storage in dict.fromkeys(self.spots[v][0] for v in _values_of(recorded[1])):  # type: ignore[index]
                if storage in self.fresh and storage not in begun | made:
                    flat = _spot(_flat(self.whole[storage]))
                    nodes.append(Node(EMPTY, (flat[2], DType(flat[1])), (self._value(flat),), (), node.source))
                begun.add(storage)
            begun |= made
            nodes.append(node)
        outputs = [self._value(spot) for spot in self.outputs]
        rows += list(self.values)[len(rows) - self.surplus :]
        constants = {numbers[s]: _flat(self.whole[s]) for s, kind in self.kinds.items() if kind == "constant"}
        graph = Graph(
            tuple(Buffer(kind, self.whole[s]._storage_bytes(), name=names.get(s)) for s, kind in self.kinds.items()),
            tuple(Value(numbers[spot[0]], *spot[1:]) for spot in rows),
            tuple(nodes),
            tuple(inputs),
            tuple(outputs),
            constants,
        )
        keep_parameters(graph, [one.tensor for one in self.inputs[len(self.arguments) :]])
        return graph

    def _find_kinds(self) -> None:
        used: dict[int, list[Spot]] = {}
        written: set[int] = set()
        for _, args, outs, writes, _ in self.nodes:
            for spot in map(self.spots.__getitem__, (*_values_of(args), *outs)):
                assert spot is not None
                used.setdefault(spot[0], []).append(spot)
            written.update(self.spots[v][0] for v in writes)  # type: ignore[index]
        for spot in self.outputs:
            used.setdefault(spot[0], []).append(spot)
        of_argument: dict[int, list[Spot]] = {}
        for argument in self.arguments:
            spot = _spot(argument.tensor)
            self.kinds[spot[0]] = "argument"
            of_argument.setdefault(spot[0], []).append(spot)
            self.inputs.append(argument)
        for storage, spots in used.items():
            found = [] if storage in of_argument else self.held.get(storage, [])
            # What is only read is a parameter if it is a module's or can be trained.
            if storage in self.fresh or not (storage in of_argument or storage in written or any(one.lasts for one in found)):
                continue
            if storage not in of_argument:
                if not found:
                    self._refuse(storage)
                self.kinds[storage] = "parameter"
            reachable = [_extent(spot) for spot in of_argument.get(storage, [_spot(one.tensor) for one in found])]
            if not all(covered(_extent(spot), reachable) for spot in spots):
                # Through another tensor the function reaches more of the memory than what it was given.
                all_of_it = _flat(self.whole[storage])
                found = [Held(found[0].name if found else None, all_of_it, True)]
            self.inputs += found
        for storage in used:
            if storage not in self.fresh:
                self.kinds.setdefault(storage, "constant")
        out = {spot[0] for spot in self.outputs}
        for storage in used:
            if storage in self.fresh:
                self.kinds[storage] = "output" if storage in out else "intermediate"

    def _refuse(self, storage: int) -> NoReturn:
        op, source = next((op, source) for op, _, _, writes, source in self.nodes if storage in {self.spots[v][0] for v in writes})  # type: ignore[index]
        raise GraphError(
            f"record: {op} ({_line(source)}) writes to memory that is neither an input nor held by a module or the function: made by "
            "zeros() or tensor() in the function, it would not have their values at the next run; write to a clone() of it"
        )

    def _value(self, spot: Spot | None) -> int:
        assert spot is not None
        return self.values.setdefault(spot, self.surplus + len(self.values))

    def _node(self, op: str, args: tuple[Any, ...], outs: tuple[int, ...], writes: tuple[int, ...], source: str) -> Node:
        return Node(
            op,
            tuple(map(self._argument, args)),
            tuple(self._value(self.spots[v]) for v in outs),
            tuple(dict.fromkeys(self._value(self.spots[v]) for v in writes)),
            _line(source),
        )

    def _argument(self, arg: Any) -> Arg:
        match arg:
            case ("value", v):
                return Ref(self._value(self.spots[v]))
            case ("values", vs):
                return tuple(None if v is None else Ref(self._value(self.spots[v])) for v in vs)
            case ("dtype", dtype):
                return DType(_name(dtype))
            case ("device", name):
                return str(name)
            case ("draw",):
                return Draw()
        return arg  # type: ignore[no-any-return]


def _line(source: str) -> str | None:
    match = _SOURCE.match(source)
    return f"{os.path.basename(match[1])}:{match[2]}" if match else None


def _values_of(args: Iterable[Any]) -> Iterator[int]:
    for arg in args:
        match arg:
            case ("value", v):
                yield v
            case ("values", vs):
                yield from (v for v in vs if v is not None)


def _name(dtype: Any) -> str:
    return str(dtype.name)


def _spot(x: Tensor) -> Spot:
    return (x._storage_ptr(), _name(x.dtype), tuple(x.shape), tuple(x.stride()), x.storage_offset())


def _extent(spot: Spot) -> tuple[int, int]:
    value = Value(*spot)
    return value.offset * ITEM_BYTES[value.dtype], value.end_bytes


def _flat(x: Tensor) -> Tensor:
    """All of the memory in which a tensor lies."""
    return x.detach().as_strided((x._storage_bytes() // x.element_size(),), (1,), 0)


def _held(function: Any) -> Iterator[Held]:
    """What modules and optimizers hold, and what the function refers to by name."""
    modules, optimizers = _living(Module), _living(Optimizer)
    inner = {id(child) for module in modules for child in module.children()}
    seen: set[int] = set()
    for module in modules:
        for name, tensor in () if id(module) in inner else (*module.named_parameters(), *module.named_buffers()):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield Held(name, tensor, True)
    for optimizer in optimizers:
        for i, state in enumerate(optimizer.state.values()):
            for name, tensor in state.items():
                if isinstance(tensor, Tensor) and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield Held(f"{name}.{i}", tensor, True)
    try:
        named = inspect.getclosurevars(inspect.unwrap(function))
    except (TypeError, ValueError):
        return
    for name, thing in (*named.nonlocals.items(), *named.globals.items()):
        for tensor in thing if isinstance(thing, (list, tuple)) else (thing,):
            if isinstance(tensor, Tensor) and id(tensor) not in seen:
                seen.add(id(tensor))
                yield Held(name, tensor, tensor.requires_grad)


def _living(base: type) -> list[Any]:
    """The objects of a class and its subclasses.

    Whoever holds a tuple that another thread is making breaks that thread, and the collector's list has such ones. So the list is
    made and gone within one call of C, in which no other thread gets its turn.
    """
    kinds, found = {base}, [base]
    while found:
        fresh: set[type] = set(type.__subclasses__(found.pop())) - kinds
        kinds |= fresh
        found += fresh
    whole = slice(None)
    twice = itertools.chain.from_iterable(map(operator.itemgetter(whole, whole), map(gc.get_objects, (None,))))  # two lists, when asked for
    things = itertools.chain.from_iterable(itertools.islice(twice, 1))
    chosen = map(kinds.__contains__, map(type, itertools.chain.from_iterable(twice)))
    # To the end of both, so that no iterator has a list any more: these have the iterators.
    return list(itertools.chain(itertools.compress(things, chosen), chosen))


def _leaves(outputs: Iterable[Tensor]) -> Iterator[Tensor]:
    """The tensors that require gradients and that the outputs come from."""
    pending = []
    for y in outputs:
        if y.grad_fn is not None:
            pending.append(y.grad_fn)
        elif y.requires_grad:
            yield y
    seen = set(pending)
    while pending:
        node = pending.pop()
        leaf: Tensor | None = getattr(node, "variable", None)
        if leaf is not None:
            yield leaf
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                pending.append(below)
