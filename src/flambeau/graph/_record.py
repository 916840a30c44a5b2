"""`record`: what a function does to tensors, as a Graph.

The function runs once inside of `lazy`, behind a mark: a copy that nobody reads and that therefore never runs.

    clone(mark)            gone at the end: something ran in the middle, so a value was read
    what the function does
                           <- here it is looked at, and becomes a graph; then it runs, if anybody sees what it writes

Buffers are told apart by their storages. A tensor does not know that it is a module's, so living modules are asked what they hold.
"""

from __future__ import annotations

import gc
import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd.modes import no_grad
from flambeau.compiler import lazy
from flambeau.graph._graph import Graph
from flambeau.graph._replay import covered, keep_parameters
from flambeau.graph._structure import ITEM_BYTES, Arg, Buffer, Draw, DType, GraphError, Node, Ref, Value
from flambeau.nn.module import Module

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SOURCE = re.compile(r"(.*):(\d+), in ", re.DOTALL)


def record(function: Callable[..., Any], *inputs: Any) -> Graph:
    """Calls a function and returns what it did as a `Graph`.

    Args:
        function: takes the inputs and returns a tensor, or tuples, lists and dicts of tensors.
        inputs: tensors become the graph's arguments, in order. Anything else is passed on, and what Python computes with it is a
            constant of the graph.

    What modules hold, leaves that require gradients and other memory that is written are parameters: inputs too, behind the
    arguments. Other tensors are constants. A draw of random numbers is a `Draw`: it is another one at each run.

    The function is called as it would be otherwise: what it writes is written, draws are taken; only what it returns is not
    computed. A graph has one path: the branch of an `if` that was taken, a loop as often as it ran.

    Raises:
        GraphError: the function reads a value (`item`, `bool`, `numpy`), or uses memory that it shares with NumPy.

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
    with lazy():
        mark = _Mark()
        for position, x in enumerate(arguments):
            with no_grad():
                x.clone()
            if not mark.stands():
                raise GraphError(f"record: input {position} shares its memory with others (NumPy), who may write to it; pass a clone() of it")
        with _Watch(mark) as watch:
            outputs = list(_tensors(function(*inputs)))
        if not mark.stands():
            where = watch.line or "the function"
            raise GraphError(f"record: {where} reads a value, or uses memory that is shared with NumPy: a graph can not do that")
        maker = _Maker(_C.graph.recorded(), mark, [*zip(names, arguments)], outputs)
        graph = maker.graph()
        # What nobody holds any more is not computed.
        del maker, outputs
    for buffer, constant in graph.constants.items():
        graph.constants[buffer] = constant.clone()
    return graph.validate()


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


class _Mark:
    """What a recording begins with."""

    def __init__(self) -> None:
        self.tensor = _C.ops.empty((0,), dtype=_C.float32)
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
                while frame.f_code.co_filename.startswith(_HERE) and frame.f_back:
                    frame, line = frame.f_back, frame.f_back.f_lineno
                self.line = f"{os.path.basename(frame.f_code.co_filename)}:{line} (in {frame.f_code.co_name})"


Spot = tuple[int, str, tuple[int, ...], tuple[int, ...], int]  # storage, dtype, sizes, strides, offset


class _Maker:
    """A graph from a recording. Buffers are known by their storages until all are known."""

    def __init__(self, recorded: dict[str, list[Any]], mark: _Mark, arguments: list[tuple[str | None, Tensor]], outputs: list[Tensor]) -> None:
        self.arguments, self.outputs = arguments, outputs
        storages = [tensor._storage_ptr() for _, _, _, tensor in recorded["buffers"]]
        self.spots: list[Spot | None] = [v and (storages[v[0]], _name(v[1]), *v[2:]) for v in recorded["values"]]
        # The mark, and a copy of each argument.
        self.nodes = recorded["nodes"][1 + len(arguments) :]
        self.whole = {tensor._storage_ptr(): tensor for _, _, _, tensor in recorded["buffers"]}
        for tensor in (*outputs, *(x for _, x in arguments)):
            self.whole.setdefault(tensor._storage_ptr(), tensor)
        self.fresh = {storage for storage, (_, given, _, _) in zip(storages, recorded["buffers"]) if not given}
        self.inputs: list[tuple[Spot, str | None, Tensor]] = []
        self.kinds: dict[int, str] = {}
        self.values: dict[Spot, int] = {}

    def graph(self) -> Graph:
        self._find_kinds()
        numbers = {storage: number for number, storage in enumerate(self.kinds)}
        names: dict[int, str | None] = {}
        rows: list[Spot] = []
        for spot, name, _ in self.inputs:  # each has a value of its own
            self.values.setdefault(spot, len(rows))
            rows.append(spot)
            names.setdefault(spot[0], name)
        inputs = range(len(rows))
        nodes = [self._node(*node) for node in self.nodes]
        outputs = [self._value(_spot(y)) for y in self.outputs]
        rows += list(self.values)[len(set(rows)) :]
        constants = {numbers[s]: _flat(self.whole[s]) for s, kind in self.kinds.items() if kind == "constant"}
        graph = Graph(
            tuple(Buffer(kind, self.whole[s]._storage_bytes(), name=names.get(s)) for s, kind in self.kinds.items()),
            tuple(Value(numbers[storage], *rest) for storage, *rest in rows),
            tuple(nodes),
            tuple(inputs),
            tuple(outputs),
            constants,
        )
        keep_parameters(graph, [tensor for _, _, tensor in self.inputs[len(self.arguments) :]])
        return graph

    def _find_kinds(self) -> None:
        used: dict[int, list[Spot]] = {}
        written: set[int] = set()
        for _, args, outs, writes, _ in self.nodes:
            for spot in map(self.spots.__getitem__, (*_values_of(args), *outs)):
                assert spot is not None
                used.setdefault(spot[0], []).append(spot)
            written.update(self.spots[v][0] for v in writes)  # type: ignore[index]
        for y in self.outputs:
            used.setdefault(y._storage_ptr(), []).append(_spot(y))
        of_argument: dict[int, list[tuple[Spot, str | None, Tensor]]] = {}
        for name, x in self.arguments:
            self.kinds[x._storage_ptr()] = "argument"
            of_argument.setdefault(x._storage_ptr(), []).append((_spot(x), name, x))
            self.inputs.append((_spot(x), name, x))
        held = _held()
        leaves = {leaf._storage_ptr(): leaf for leaf in _leaves(self.outputs)}
        for storage, spots in used.items():
            if storage in self.fresh:
                continue
            found = [(_spot(tensor), name, tensor) for name, tensor in held.get(storage, ())]
            if storage not in of_argument:
                if not found and storage in leaves:
                    found = [(_spot(leaves[storage]), None, leaves[storage])]
                if not found and storage not in written:
                    continue
                self.kinds[storage] = "parameter"
            reachable = [_extent(spot) for spot, _, _ in of_argument.get(storage, found)]
            if not all(covered(_extent(spot), reachable) for spot in spots):
                # Through another tensor the function reaches more of the memory than what it was given.
                all_of_it = _flat(self.whole[storage])
                found = [(_spot(all_of_it), None, all_of_it)]
            elif storage in of_argument:
                found = []
            self.inputs += found
        for storage in used:
            if storage not in self.fresh:
                self.kinds.setdefault(storage, "constant")
        out = {y._storage_ptr() for y in self.outputs}
        for storage in used:
            if storage in self.fresh:
                self.kinds[storage] = "output" if storage in out else "intermediate"

    def _value(self, spot: Spot | None) -> int:
        assert spot is not None
        # Behind the inputs, of which two may be equal.
        return self.values.setdefault(spot, len(self.inputs) + len(self.values) - len({spot for spot, _, _ in self.inputs}))

    def _node(self, op: str, args: tuple[Any, ...], outs: tuple[int, ...], writes: tuple[int, ...], source: str) -> Node:
        match = _SOURCE.match(source)
        return Node(
            op,
            tuple(map(self._argument, args)),
            tuple(self._value(self.spots[v]) for v in outs),
            tuple(dict.fromkeys(self._value(self.spots[v]) for v in writes)),
            f"{os.path.basename(match[1])}:{match[2]}" if match else None,
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


def _values_of(args: Iterable[Any]) -> Iterator[int]:
    for arg in args:
        match arg:
            case ("value", v):
                yield v
            case ("values", vs):
                yield from (v for v in vs if v is not None)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("flambeau.")


def _spot(x: Tensor) -> Spot:
    return (x._storage_ptr(), _name(x.dtype), tuple(x.shape), tuple(x.stride()), x.storage_offset())


def _extent(spot: Spot) -> tuple[int, int]:
    value = Value(*spot)
    return value.offset * ITEM_BYTES[value.dtype], value.end_bytes


def _flat(x: Tensor) -> Tensor:
    """All of the memory in which a tensor lies."""
    return x.detach().as_strided((x._storage_bytes() // x.element_size(),), (1,), 0)


def _held() -> dict[int, list[tuple[str, Tensor]]]:
    """What modules hold, by storage."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), Module)]
    inner = {id(child) for module in modules for child in module.children()}
    held: dict[int, list[tuple[str, Tensor]]] = {}
    seen: set[int] = set()
    for module in modules:
        if id(module) in inner:
            continue
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                held.setdefault(tensor._storage_ptr(), []).append((name, tensor))
    return held


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
        if getattr(node, "variable", None) is not None:
            yield node.variable
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                pending.append(below)
