"""What the allocator holds, and who owns it: by module (`memory_summary`), by line (`memory_owners`), by graph (`graph_owners`).

The allocator remembers the line of the user's program for blocks of at least 1 MiB, which cost far more to fill; smaller
ones are remembered inside of `name_memory`. Every node of a graph knows the line of its forward call. Nothing else is kept
while a program runs: who holds a graph is found when somebody asks, by the garbage collector's lists.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor
from flambeau._no_tensor import wants_tensors
from flambeau._units import bytes_text

if TYPE_CHECKING:
    from flambeau.nn import Module


@wants_tensors
def memory_summary(model: Module | None = None, row_limit: int = 20) -> str:
    """Memory as a table: bytes in use and held, now and at most, and counts of the allocator.

    Below it the lines of the program that made most of what is in use (see `memory_owners`), and with a model its largest
    owners: bytes of the parameters, gradients and buffers that each module holds itself. What several modules share counts for
    the first.

    Example:
        >>> import flambeau as fl
        >>> print(fl.memory_summary(fl.nn.Linear(256, 256)))  # doctest: +SKIP

    Raises:
        TypeError: `model` is no Module.
    """
    from flambeau.profiler._averages import layout

    stats = _C.memory_stats()
    rows = [
        ["allocated", bytes_text(stats["allocated_bytes"]), bytes_text(stats["peak_allocated_bytes"])],
        ["reserved", bytes_text(stats["reserved_bytes"]), bytes_text(stats["peak_reserved_bytes"])],
    ]
    foot = [
        f"{stats['allocations']} allocations, {stats['frees']} frees, {stats['segments']} segments, "
        f"{stats['retries']} retries after giving back what was cached"
    ]
    text = layout(["Memory of the CPU", "Now", "Peak"], rows, None, foot)
    if lines := memory_owners(row_limit):
        text += "\n\n" + layout(["Made at", "Blocks", "Bytes"], [[o.line, str(o.blocks), bytes_text(o.bytes)] for o in lines], None, [])
    if model is None:
        return text
    from flambeau.nn import Module

    if not isinstance(model, Module):
        raise TypeError(f"memory_summary: model is a {type(model).__name__}; expected a Module or None")
    owners = []
    seen: set[int] = set()
    total = [0, 0, 0]
    for name, module in model.named_modules():
        held = [0, 0, 0]
        for param in module.parameters(recurse=False):
            if id(param) not in seen:
                seen.add(id(param))
                held[0] += param.numel() * param.itemsize
                held[1] += 0 if param.grad is None else param.grad.numel() * param.grad.itemsize
        for buffer in module.buffers(recurse=False):
            if id(buffer) not in seen:
                seen.add(id(buffer))
                held[2] += buffer.numel() * buffer.itemsize
        total = [a + b for a, b in zip(total, held)]
        if any(held):
            path = f"{type(model).__name__}.{name}" if name else type(model).__name__
            owners.append((sum(held), path, type(module).__name__, held))
    owners.sort(key=lambda o: -o[0])
    table = [
        [path, kind, *(bytes_text(b) if b else "--" for b in held), bytes_text(every)]
        for every, path, kind, held in owners[:row_limit]
    ]
    foot = [f"All {len(owners)} owners: {bytes_text(sum(total))}, {bytes_text(total[0])} of them parameters, "
            f"{bytes_text(total[1])} gradients, {bytes_text(total[2])} buffers"]  # fmt: skip
    return text + "\n\n" + layout(["Module", "Type", "Parameters", "Gradients", "Buffers", "Together"], table, None, foot)


class MemoryOwner(NamedTuple):
    """Live blocks of memory that one line made."""

    line: str
    blocks: int
    bytes: int


@wants_tensors
def memory_owners(limit: int = 10) -> list[MemoryOwner]:
    """The lines of the program that made the memory that is in use, those of most bytes first.

    Only blocks of at least 1 MiB are known, and smaller ones that were made inside of `name_memory`.

    Example:
        >>> import flambeau as fl
        >>> with fl.name_memory():
        ...     x = fl.zeros(100)
        >>> any(owner.bytes >= 400 for owner in fl.memory_owners())
        True
    """
    found: dict[str, MemoryOwner] = {}
    for line, size, blocks in _C.memory_owners():  # calls of one line are different places
        line = line or "an unknown line"
        before = found.get(line, MemoryOwner(line, 0, 0))
        found[line] = MemoryOwner(line, before.blocks + blocks, before.bytes + size)
    return sorted(found.values(), key=lambda owner: -owner.bytes)[:limit]


@contextlib.contextmanager
def name_memory() -> Iterator[None]:
    """Inside, the line that makes it is remembered for every block of memory, for `memory_owners` and errors; all threads' blocks."""
    with _C.held(_C.name_all_memory, True):
        yield


class GraphOwner(NamedTuple):
    """A tensor through which a graph is alive."""

    line: str  # that made the tensor
    shape: list[int]
    nodes: int
    bytes: int  # saved for backward; leaves, which live anyway, are not counted
    made_by: list[tuple[str, int]]  # the lines whose calls made the graph, and how many nodes each
    held_by: list[str]

    def __str__(self) -> str:
        text = f"{self.nodes} nodes and {self.bytes} bytes hang from a tensor {self.shape} made at {self.line or 'an unknown line'}"
        for line, nodes in self.made_by[:3]:
            text += f"\n  {nodes} of the nodes were made at {line or 'an unknown line'}"
        return text + "".join(f"\n  held by {holder}" for holder in self.held_by)


class GraphOwners(list[GraphOwner]):
    """What `graph_owners` found; as text, a paragraph for each, and one for those of which the same is to be said."""

    def __str__(self) -> str:
        paragraphs: dict[str, int] = {}
        for owner in self:
            paragraphs[str(owner)] = paragraphs.get(str(owner), 0) + 1
        told = [text if count == 1 else f"{count} times: {text}" for text, count in paragraphs.items()]
        return "\n".join(told) or "no tensor holds a graph"


@wants_tensors
def graph_owners(limit: int = 10) -> GraphOwners:
    """The tensors that hold graphs, and who holds them, those with most bytes and nodes first.

    A loop whose memory grows has losses somewhere that were kept with their history: in a sum, a list, an attribute. `detach()` or
    `item()` of what is kept lets the graphs go. A graph that hangs from another listed tensor, too, counts for both.

    Example:
        >>> import flambeau as fl
        >>> losses = [(fl.ones(3, requires_grad=True) * 2).sum() for _ in range(3)]
        >>> [owner.nodes for owner in fl.graph_owners() if "losses" in owner.held_by[0]]
        [2, 2, 2]
    """
    gc.collect()
    found = _Holders(lambda value: _is(value, Tensor) and value.requires_grad and not value.is_leaf)
    sized = sorted(((*_C.graph_size(t), key) for key, t in found.values.items()), key=lambda graph: (-graph[1], -graph[0], graph[2]))
    sized = sized[:limit]
    holders = [held.by for *_, key in sized for held in found.holders[key]]
    containers = {id(by) for by in holders if _is(by, list, tuple, set, dict)}
    around = _Holders(lambda value: id(value) in containers, hidden={id(holders)})
    out = GraphOwners()
    for nodes, size, line, lines, key in sized:
        made_by: dict[str, int] = {}
        for made_at, count in lines:  # calls of one line are different places
            made_by[made_at] = made_by.get(made_at, 0) + count
        ranked = sorted(made_by.items(), key=lambda made: -made[1])
        told = sorted({_told(held, around) for held in found.holders[key]})
        out.append(GraphOwner(line, list(found.values[key].shape), nodes, size, ranked, told))
    return out


class _Held:
    """That `by` (a container, an object, a frame) refers to something under a name."""

    __slots__ = ("by", "name")

    def __init__(self, by: Any, name: str) -> None:
        self.by, self.name = by, name


class _Holders:
    """All objects that `wanted` says yes to, and what refers to each.

    A tensor is mostly unknown to the garbage collector, but what can hold one is not, save the variables of running functions.
    """

    def __init__(self, wanted: Callable[[Any], bool], hidden: Iterable[int] = ()) -> None:
        self.values: dict[int, Any] = {}
        self.holders: dict[int, list[_Held]] = {}
        frames = [frame for top in sys._current_frames().values() for frame in _stack(top)]
        frames = [frame for frame in frames if frame.f_code.co_filename != __file__]
        known = gc.get_objects()
        own = {id(known), id(frames), id(self.__dict__), *hidden}
        own |= {id(frame.f_locals) for frame in frames if frame.f_code.co_name != "<module>"}
        for holder in known:
            if id(holder) in own or _is(holder, types.FrameType, _Held, _Holders):
                continue
            for value in gc.get_referents(holder):
                if wanted(value):
                    self._add(value, holder, _key_of(holder, value))
        for frame in frames:
            if frame.f_code.co_name != "<module>":  # their variables are a dict's entries
                for name, value in frame.f_locals.items():
                    if wanted(value):
                        self._add(value, frame, name)

    def _add(self, value: Any, holder: Any, name: str) -> None:
        self.values[id(value)] = value
        self.holders.setdefault(id(value), []).append(_Held(holder, name))


def _is(value: Any, *classes: type) -> bool:
    """By the type itself: `isinstance` asks an object for its `__class__`, which may run anything."""
    return issubclass(type(value), classes)


def _stack(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _key_of(holder: Any, value: Any) -> str:
    entries = holder if _is(holder, dict) else {} if _is(holder, type) else _attributes(holder)
    return next((str(key) for key, entry in list(entries.items()) if entry is value), "")


def _attributes(value: Any) -> dict[str, Any]:
    try:
        return object.__getattribute__(value, "__dict__")  # type: ignore[no-any-return]
    except AttributeError:
        return {}


def _told(held: _Held, around: _Holders | None = None) -> str:
    """What holds something, as its user would say it, and what holds that."""
    by, name = held.by, held.name
    if _is(by, types.FrameType):
        return f"the variable '{name}' of {by.f_code.co_name}()"
    if _is(by, dict) and "__builtins__" in by and "__name__" in by:
        return f"the global variable '{name}' of {by['__name__']}"
    if not _is(by, list, tuple, set, dict):
        return f"the attribute '{name}' of a {type(by).__qualname__}" if name else f"a {type(by).__qualname__}"
    if _is(by, dict):
        for owner in gc.get_referrers(by):
            if not _is(owner, type) and _attributes(owner) is by:
                return f"the attribute '{name}' of a {type(owner).__qualname__}"
    outer = around.holders.get(id(by), []) if around else []
    what = f"the entry '{name}' of a dict" if _is(by, dict) else f"a {type(by).__name__} of {len(by)}"
    return ", ".join([what, *sorted(_told(holder) for holder in outer)[:1]])
