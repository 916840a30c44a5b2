"""What was recorded, as arrays (`Recording`) and as one object per event (`FunctionEvent`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from flambeau import _tensor
from flambeau._C import ops
from flambeau._C import profiler as _recorder

OP, BACKWARD, OPTIMIZER, RANGE, MODULE = range(5)
KINDS = ("op", "backward", "optimizer", "range", "module")

# The fields of fl::profile::Event in csrc/base/profile.h.
EVENT = np.dtype(
    [
        ("name", "u8"),
        ("start", "i8"),
        ("end", "i8"),
        ("in_bytes", "i8"),
        ("out_bytes", "i8"),
        ("flops", "f8"),
        ("node", "u8"),
        ("sequence", "u8"),
        ("allocated_before", "i8"),
        ("allocated", "i8"),
        ("parent", "i8"),
        ("shapes", "u4"),
        ("stack", "u4"),
        ("depth", "i4"),
        ("kind", "u1"),
        ("backward", "?"),
        ("failed", "?"),
        ("dtype", "u1"),
    ]
)
assert EVENT.itemsize == 104

Ints = np.ndarray[Any, np.dtype[Any]]

# What PyTorch's profiles call otherwise than by our name behind `aten::`.
_ATEN = {"cast": "_to_copy", "constant_pad": "constant_pad_nd", "contiguous_copy": "clone", "cross_entropy": "cross_entropy_loss"}


@dataclass(frozen=True)
class Interval:
    """Start and end in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """The length in microseconds."""
        return self.end - self.start


UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def time_text(us: float, unit: str | None = None) -> str:
    """1234.5 -> '1.234ms', or in a unit that is given."""
    if unit is None:
        unit = next((name for name, size in UNITS.items() if abs(us) >= size), "us")
    return f"{us / UNITS[unit]:.3f}{unit}"


class TimesAsText:
    """Times with their units, as tables have them."""

    cpu_time: Any
    cpu_time_total: Any
    self_cpu_time_total: Any
    # There is a CPU only.
    device_time = device_time_total = self_device_time_total = 0.0
    device_memory_usage = self_device_memory_usage = 0
    use_device = None
    is_async = is_legacy = is_remote = False
    node_id = -1

    @property
    def cpu_time_str(self) -> str:
        """The average time of a call."""
        return time_text(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """The time from start to end."""
        return time_text(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """The time without children."""
        return time_text(self.self_cpu_time_total)


@dataclass(eq=False)
class FunctionEvent(TimesAsText):
    """One event. Times are in microseconds, as PyTorch's are."""

    id: int
    name: str
    kind: str  # op, backward, optimizer, range or module
    thread: int
    time_range: Interval
    self_cpu_time_total: float
    depth: int
    sequence_nr: int  # -1: made or ran no node
    is_backward: bool  # a backward node, or what ran in one
    failed: bool
    input_bytes: int
    output_bytes: int
    flops: float
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    input_shapes: list[list[int]]
    input_dtypes: list[str]
    dtype: str  # the element type that was computed in, or ''
    stack: list[str]  # Python calls, the innermost first
    module: str  # path of the module that it belongs to, or ''
    cpu_parent: FunctionEvent | None = None
    forward: FunctionEvent | None = None  # of a backward node: the op that made it
    cpu_children: list[FunctionEvent] = field(default_factory=list)

    count = 1

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Time from start to end, children included."""
        return self.time_range.elapsed_us()

    cpu_time = cpu_time_total

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent {self.name} ({self.kind}) thread={self.thread} "
            f"cpu_time={self.cpu_time_total:.3f}us self={self.self_cpu_time_total:.3f}us>"
        )


class Recording:
    """All events of one recording, thread after thread, parents before children."""

    def __init__(self, stop_ns: int | None = None) -> None:
        self.names: dict[int, str]
        self.stacks: dict[int, list[str]]
        threads, self.names, self.stacks, self.dtypes = _recorder.collect()
        self.dropped: int = _recorder.dropped()
        stop = _recorder.now_ns() if stop_ns is None else stop_ns
        parts, ids, shapes = [], [], []
        base = shape_base = 0
        for thread, data, dims in threads:
            part = np.frombuffer(data, EVENT).copy()
            part["parent"][part["parent"] >= 0] += base
            sizes = np.frombuffer(dims, "i8")
            part["shapes"][part["shapes"] > 0] += shape_base
            parts.append(part)
            shapes.append(sizes)
            ids.append(np.full(len(part), thread, "i8"))
            base += len(part)
            shape_base += len(sizes)
        self.data: Ints = np.concatenate(parts) if parts else np.empty(0, EVENT)
        self.thread: Ints = np.concatenate(ids) if ids else np.empty(0, "i8")
        self.shapes: Ints = np.concatenate(shapes) if shapes else np.empty(0, "i8")
        running = self.data["end"] < 0
        self.data["end"][running] = np.maximum(stop, self.data["start"][running])
        self._give_stacks_to_backward()
        if _tensor.library == "torch":
            self._say_aten()

    def __len__(self) -> int:
        return len(self.data)

    def _give_stacks_to_backward(self) -> None:
        """Backward runs without Python calls of its own: a node, and what runs in it, has its forward op's."""
        stack, parent, forward = self.data["stack"], self.data["parent"].tolist(), self.forward.tolist()
        is_node = (self.data["kind"] == BACKWARD).tolist()
        for i in np.flatnonzero(self.data["backward"]).tolist():
            made_by = forward[i] if is_node[i] else parent[i]
            stack[i] = stack[made_by] if made_by >= 0 else 0

    def _say_aten(self) -> None:
        """Programs of PyTorch look for `aten::mm` and `torch::autograd::AccumulateGrad`. Ranges and functions of theirs keep names."""
        for kind in (OP, BACKWARD):
            of_kind = self.data["kind"] == kind
            for number in np.unique(self.data["name"][of_kind]).tolist():
                name = self.names[number]
                if not (hasattr(ops, name) if kind == OP else name == "AccumulateGrad"):
                    continue
                another = max(self.names) + 1  # a range may have the name as it was
                self.names[another] = f"aten::{_ATEN.get(name, name)}" if kind == OP else f"torch::autograd::{name}"
                self.data["name"][of_kind & (self.data["name"] == number)] = another

    def stack_of(self, i: int) -> list[str]:
        """The Python calls around event i, the innermost first."""
        return self.stacks.get(int(self.data["stack"][i]), [])

    @cached_property
    def total(self) -> Ints:
        """Nanoseconds from start to end."""
        return np.asarray(self.data["end"] - self.data["start"])

    def _without_children(self, values: Ints) -> Ints:
        own = values.astype("f8")
        parent = self.data["parent"]
        inner = parent >= 0
        own -= np.bincount(parent[inner], weights=values[inner], minlength=len(own))[: len(own)]
        return own

    @cached_property
    def self_time(self) -> Ints:
        """Nanoseconds that are not a child's."""
        return np.maximum(self._without_children(self.total), 0)

    @cached_property
    def memory(self) -> Ints:
        """Bytes that an event left allocated (negative: gave back); 0 where memory is not profiled."""
        known = (self.data["allocated"] >= 0) & (self.data["allocated_before"] >= 0)
        return np.where(known, self.data["allocated"] - self.data["allocated_before"], 0)

    @cached_property
    def self_memory(self) -> Ints:
        """The same without children."""
        return self._without_children(self.memory).astype("i8")

    @cached_property
    def self_flops(self) -> Ints:
        """FLOPs that no child counts."""
        return np.maximum(self._without_children(self.data["flops"]), 0)

    @cached_property
    def forward(self) -> Ints:
        """For every backward node the index of the op that made it; -1 elsewhere."""
        found = np.full(len(self), -1, "i8")
        made: dict[tuple[int, int], int] = {}
        has_node = np.flatnonzero(self.data["node"])
        nodes, numbers = self.data["node"].tolist(), self.data["sequence"].tolist()
        is_node = (self.data["kind"] == BACKWARD).tolist()
        starts = self.data["start"]
        for i in has_node[np.argsort(starts[has_node], kind="stable")].tolist():
            key = (nodes[i], numbers[i])
            if is_node[i]:
                found[i] = made.get(key, -1)
            else:
                made[key] = i  # of nested ops the innermost
        return found

    @cached_property
    def module(self) -> Ints:
        """The index of the module call that an event belongs to, through its forward op in backward; -1: none."""
        parent = self.data["parent"].tolist()
        kind = self.data["kind"].tolist()
        forward = self.forward.tolist()
        owner = [-1] * len(parent)
        late = []
        for i, p in enumerate(parent):
            if kind[i] == MODULE:
                owner[i] = i
            elif kind[i] == BACKWARD:
                late.append(i)
            elif p >= 0:
                owner[i] = owner[p]
        for i in late:
            owner[i] = owner[forward[i]] if forward[i] >= 0 else -1
        if late:  # what ran inside of backward nodes
            backward = self.data["backward"].tolist()
            for i, p in enumerate(parent):
                if backward[i] and kind[i] not in (BACKWARD, MODULE) and p >= 0:
                    owner[i] = owner[p]
        return np.asarray(owner, "i8")

    def shapes_of(self, i: int) -> tuple[list[list[int]], list[str]]:
        """Shapes and element types of the inputs of event i."""
        at = int(self.data["shapes"][i])
        shapes: list[list[int]] = []
        types: list[str] = []
        if at == 0:
            return shapes, types
        count = int(self.shapes[at - 1])
        for _ in range(count):
            dtype, ndim = int(self.shapes[at]), int(self.shapes[at + 1])
            shapes.append(self.shapes[at + 2 : at + 2 + ndim].tolist())
            types.append({-1: "", -2: "Scalar"}.get(dtype) if dtype < 0 else self.dtypes[dtype])  # type: ignore[arg-type]
            at += 2 + ndim
        return shapes, types

    def dtype_of(self, i: int) -> str:
        """The element type that event i was computed in, or ''."""
        number = int(self.data["dtype"][i])
        return self.dtypes[number - 1] if number else ""

    @cached_property
    def events(self) -> list[FunctionEvent]:
        """One object per event."""
        out: list[FunctionEvent] = []
        names = self.names
        own, own_memory, memory = self.self_time.tolist(), self.self_memory.tolist(), self.memory.tolist()
        module, threads = self.module.tolist(), self.thread.tolist()
        forward = self.forward.tolist()
        for i, row in enumerate(self.data.tolist()):
            shapes, types = self.shapes_of(i) if row[11] else ([], [])
            parent = out[row[10]] if row[10] >= 0 else None
            owner = module[i]
            event = FunctionEvent(
                id=i,
                name=names[row[0]],
                kind=KINDS[row[14]],
                thread=threads[i],
                time_range=Interval(row[1] / 1e3, row[2] / 1e3),
                self_cpu_time_total=own[i] / 1e3,
                depth=row[13],
                sequence_nr=row[7] if row[6] and row[7] < 1 << 63 else -1,
                is_backward=row[15],
                failed=row[16],
                input_bytes=row[3],
                output_bytes=row[4],
                flops=row[5],
                cpu_memory_usage=memory[i],
                self_cpu_memory_usage=own_memory[i],
                input_shapes=shapes,
                input_dtypes=types,
                dtype=self.dtype_of(i),
                stack=self.stack_of(i),
                module=names[int(self.data["name"][owner])] if owner >= 0 else "",
                cpu_parent=parent,
            )
            if parent is not None:
                parent.cpu_children.append(event)
            out.append(event)
        for i, f in enumerate(forward):
            if f >= 0:
                out[i].forward = out[f]
        return out
