"""What a graph is made of, and the questions that everybody asks of it.

    Buffer   memory that will exist
    Value    a view of a buffer: dtype, sizes, strides, offset
    Node     one call of an op: what it reads, what it writes

Views are values and no nodes. The order of a program follows from one rule: two nodes conflict if they share a buffer
and one of them writes it; conflicting nodes run in the order in which they stand. There is no other notion of
dependency. A structure is not changed once it is made: a pass makes a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flambeau.serialization._container import DTYPES

KINDS = ("argument", "parameter", "constant", "intermediate", "output")
BROUGHT = ("argument", "parameter", "constant")  # these hold bytes before the first node runs

ITEM_BYTES: dict[str, int] = {name: item for name, _, item in DTYPES.values()}


EMPTY = "empty"  # the op that makes memory and writes nothing: (sizes, dtype)


class GraphError(ValueError):
    """A graph, a plan or what was passed to one is not what it should be."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor argument of a node: the index of a value."""

    value: int


@dataclass(frozen=True, slots=True)
class DType:
    """An element type among a node's arguments."""

    name: str


@dataclass(frozen=True, slots=True)
class Draw:
    """The generator among a node's arguments: each time that the node runs it takes the next draw of the default one."""


# A tensor, a number, or a tuple of these (a list of tensors, the sizes of a view).
Arg = Ref | DType | Draw | None | bool | int | float | str | tuple["Arg", ...]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that will exist. `kind` says whose it is: the caller's ("argument", "parameter"), the graph's ("constant"),
    the plan's ("intermediate"), or the caller's from now on ("output")."""

    kind: str
    nbytes: int
    device: str = "cpu"
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A view of a buffer; `offset` and `strides` count elements."""

    buffer: int
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def end_bytes(self) -> int:
        """Where the last element ends in the buffer, or 0 if there is no element."""
        if 0 in self.sizes:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides))
        return (self.offset + last + 1) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Node:
    """One call of an op: `outs` are values that it makes, `writes` those among its arguments that it overwrites."""

    op: str
    args: tuple[Arg, ...]
    outs: tuple[int, ...]
    writes: tuple[int, ...] = ()
    source: str | None = None


def refs_of(args: tuple[Arg, ...]) -> list[int]:
    """The values among arguments, in order; lists are flattened."""
    found: list[int] = []
    for arg in args:
        if type(arg) is Ref:
            found.append(arg.value)
        elif type(arg) is tuple:
            found += refs_of(arg)
    return found


def draws(node: Node) -> bool:
    """Whether a node draws random numbers."""
    return any(type(arg) is Draw for arg in node.args)


@dataclass(frozen=True, slots=True)
class Life:
    """When a buffer is in use, as indices of nodes: from its first write to the last node that touches it."""

    start: int  # -1: it is there before the first node
    end: int  # the number of nodes: it is still there afterwards; -1: nobody touches it
    touches: tuple[int, ...]  # the nodes that read or write it, in order


@dataclass(slots=True, eq=False)
class Structure:
    """Buffers, values and nodes, with what goes in and what comes out. `Graph` is this with its methods."""

    buffers: tuple[Buffer, ...]
    values: tuple[Value, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: dict[int, Any]
    _kept: dict[str, Any] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.buffers, self.values, self.nodes = tuple(self.buffers), tuple(self.values), tuple(self.nodes)
        self.inputs, self.outputs = tuple(self.inputs), tuple(self.outputs)
        self.constants = dict(self.constants)

    def reads(self, node: Node) -> list[int]:
        """The values among a node's arguments, in order; one that is overwritten counts, since it is read first."""
        return refs_of(node.args)

    def touched(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """For each node the buffers that it reads and those that it writes, each once and in order."""
        if "touched" not in self._kept:
            where = [value.buffer for value in self.values]
            self._kept["touched"] = [
                (
                    tuple(dict.fromkeys([where[value] for value in refs_of(node.args)])),
                    tuple(dict.fromkeys([where[value] for value in (*node.outs, *node.writes)])),
                )
                for node in self.nodes
            ]
        return self._kept["touched"]  # type: ignore[no-any-return]

    def lives(self) -> list[Life]:
        """When each buffer is in use."""
        if "lives" not in self._kept:
            touches: list[list[int]] = [[] for _ in self.buffers]
            for index, (reads, writes) in enumerate(self.touched()):
                for buffer in reads:
                    touches[buffer].append(index)
                for buffer in writes:
                    if buffer not in reads:
                        touches[buffer].append(index)
            stay = {self.values[value].buffer for value in self.outputs}
            n = len(self.nodes)
            self._kept["lives"] = [
                Life(
                    -1 if buffer.kind in BROUGHT else (touched[0] if touched else n),
                    n if index in stay or buffer.kind in ("argument", "parameter") else (touched[-1] if touched else -1),
                    tuple(touched),
                )
                for index, (buffer, touched) in enumerate(zip(self.buffers, touches))
            ]
        return self._kept["lives"]  # type: ignore[no-any-return]

    def uses(self, value: int) -> list[int]:
        """The nodes that have a value among their arguments."""
        return [index for index, node in enumerate(self.nodes) if value in refs_of(node.args)]

    def dependencies(self) -> list[list[int]]:
        """For each node the earlier ones that it conflicts with, but for those that these wait for themselves."""
        writer: dict[int, int] = {}
        readers: dict[int, list[int]] = {}
        result: list[list[int]] = []
        for index, (reads, writes) in enumerate(self.touched()):
            before: set[int] = set()
            for buffer in reads:
                if buffer in writer and buffer not in writes:
                    before.add(writer[buffer])
            for buffer in writes:
                since = readers.get(buffer, [])
                before.update(since)
                if not since and buffer in writer:
                    before.add(writer[buffer])
            for buffer in writes:
                writer[buffer] = index
                readers[buffer] = []
            for buffer in reads:
                if buffer not in writes:
                    readers.setdefault(buffer, []).append(index)
            result.append(sorted(before))
        return result

    def walk(self) -> Iterator[tuple[int, Node, tuple[int, ...], tuple[int, ...]]]:
        """Index, node, buffers read, buffers written."""
        for index, (node, (reads, writes)) in enumerate(zip(self.nodes, self.touched())):
            yield index, node, reads, writes
