"""Events added up by name, by shape, by stack or by module, and the tables of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flambeau._units import bytes_text
from flambeau.profiler._events import (
    BACKWARD,
    KINDS,
    MODULE,
    UNITS,
    FunctionEvent,
    Recording,
    TimesAsText,
    time_text,
)

if TYPE_CHECKING:
    from flambeau.profiler._limits import MachineLimits


@dataclass
class FunctionEventAvg(TimesAsText):
    """The events of one key, added up. Times are in microseconds."""

    key: str
    kind: str
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    input_bytes: int = 0
    output_bytes: int = 0
    flops: float = 0.0
    self_flops: float = 0.0
    flops_of: dict[str, float] = field(default_factory=dict)  # by element type
    cpu_memory_usage: int = 0
    self_cpu_memory_usage: int = 0
    input_shapes: list[list[int]] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)

    @property
    def cpu_time(self) -> float:
        """Average time of a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.input_bytes + self.output_bytes

    @property
    def flops_per_s(self) -> float:
        """FLOPs per second of total time."""
        return self.flops / (self.cpu_time_total * 1e-6) if self.cpu_time_total > 0 else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Bytes read and written per second of total time."""
        return self.bytes / (self.cpu_time_total * 1e-6) if self.cpu_time_total > 0 else 0.0

    def share(self, limits: MachineLimits) -> float | None:
        """How near the machine's limit the calls come: by FLOPs or by bytes, whichever is nearer.

        FLOPs are compared with a matrix product of the element type that they were done in.
        """
        if self.kind not in ("op", "optimizer") or self.cpu_time_total <= 0:
            return None
        shares = []
        if self.flops_of and all(name in limits.matmuls for name in self.flops_of):
            shortest_s = sum(flops / limits.matmuls[name] for name, flops in self.flops_of.items())
            shares.append(shortest_s / (self.cpu_time_total * 1e-6))
        if self.bytes:
            shares.append(self.bytes_per_s / limits.bandwidth_at(self.bytes / self.count))
        return max(shares) if shares else None


SORT_KEYS = (
    "cpu_time_total",
    "self_cpu_time_total",
    "cpu_time",
    "count",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "device_time_total",
    "self_device_time_total",
    "device_time",
    "device_memory_usage",
    "self_device_memory_usage",
    "flops",
    "flops_per_s",
    "bytes",
    "bytes_per_s",
    "key",
)


def amount_text(value: float, unit: str) -> str:
    """1.5e9, 'FLOP' -> '1.50 GFLOP'."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.2f} {prefix}{unit}"
    return f"{value:.0f} {unit}"


def layout(head: Sequence[str], rows: Sequence[Sequence[str]], title: str | None, foot: Sequence[str]) -> str:
    """Columns as wide as they must be: the first to the left, the others to the right."""
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    rule = "  ".join("-" * w for w in widths)

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]
        return "  ".join(cells).rstrip()

    lines = [title] if title else []
    lines += [rule, line(head), rule, *(line(r) for r in rows), rule, *foot]
    return "\n".join(lines)


def _short(name: str, width: int | None) -> str:
    return name if width is None or len(name) <= width else name[: max(width - 3, 1)] + "..."


def single(events: Sequence[FunctionEvent], busy_us: float, dropped: int, memory: bool, shapes: bool) -> EventAverages:
    """A row for each event, in their order."""
    rows = [
        FunctionEventAvg(
            e.name, e.kind, 1, e.cpu_time_total, e.self_cpu_time_total, e.input_bytes, e.output_bytes, e.flops, e.flops, {},
            e.cpu_memory_usage, e.self_cpu_memory_usage, e.input_shapes,
        )
        for e in events
    ]  # fmt: skip
    made = EventAverages(rows, busy_us, dropped, memory, shapes)
    made._order = None
    return made


class EventAverages(list[FunctionEventAvg]):
    """The rows of `key_averages()`: a list that prints as a table."""

    _order: str | None = "self_cpu_time_total"  # by which a table is sorted where it is not said

    def __init__(
        self, rows: Sequence[FunctionEventAvg], busy_us: float, dropped: int, memory: bool, shapes: bool, stacks: bool = False
    ) -> None:
        super().__init__(rows)
        self._busy_us, self._dropped = busy_us, dropped
        self._memory, self._shapes, self._stacks = memory, shapes, stacks

    @property
    def self_cpu_time_total(self) -> float:
        """All time in events, in microseconds."""
        return self._busy_us

    def total_average(self) -> FunctionEventAvg:
        """All rows in one; totals are of outermost time."""
        total = FunctionEventAvg("Total", "range", sum(r.count for r in self), self._busy_us, self._busy_us)
        total.self_flops = total.flops = sum(r.self_flops for r in self)
        total.self_cpu_memory_usage = total.cpu_memory_usage = sum(r.self_cpu_memory_usage for r in self)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
        *,
        limits: bool = True,
    ) -> str:
        """The table as text.

        `sort_by` is one of 'self_cpu_time_total' (the default), 'cpu_time_total', 'cpu_time', 'count',
        'cpu_memory_usage', 'self_cpu_memory_usage', 'flops', 'flops_per_s', 'bytes', 'bytes_per_s' and
        'key', or one of a device, 'device_time_total' or 'cuda_time_total', which is 0 in all rows.
        'Of limit' compares with `machine_limits()`, which are measured by the first table
        (`limits=False` leaves it out): the larger of the FLOP rate's share of a matrix product's of that
        element type and the byte rate's share of a copy's of that size. Rows that were grouped by stack
        show it in lines below their first. All times are in `time_unit` ('s', 'ms' or 'us'), or each in one that suits it.

        Raises:
            ValueError: another `sort_by` or `time_unit`.
            NotImplementedError: `top_level_events_only`: averages are of all calls alike.
        """
        if top_level_events_only:
            raise NotImplementedError("table: top_level_events_only = True; averages are of calls at all levels (events() has parents)")
        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        head, cells, foot = self._cells(sort_by, row_limit, *widths, limits, time_unit)
        return layout(head, cells, header, foot)

    def _cells(
        self,
        sort_by: str | None,
        row_limit: int,
        name_width: int | None,
        shapes_width: int | None,
        source_width: int | None,
        limits: bool,
        unit: str | None = None,
    ) -> tuple[list[str], list[list[str]], list[str]]:
        """Heads, rows and last lines of the table."""
        sort_by = self._order if sort_by is None else sort_by.replace("cuda_", "device_")
        if sort_by not in (None, *SORT_KEYS):
            raise ValueError(f"table: sort_by = {sort_by!r}; expected one of {', '.join(SORT_KEYS)}")
        if unit not in (None, *UNITS):
            raise ValueError(f"table: time_unit = {unit!r}; expected 's', 'ms', 'us' or None")
        rows = list(self) if sort_by is None else sorted(self, key=lambda r: getattr(r, sort_by), reverse=sort_by != "key")
        left_out = max(len(rows) - row_limit, 0) if row_limit >= 0 else 0
        rows = rows[:row_limit] if row_limit >= 0 else rows
        from flambeau._C import profiler as recorder
        from flambeau.profiler._limits import machine_limits

        machine = machine_limits() if limits and not recorder.recording() else None
        busy = self._busy_us or 1.0
        head = ["Name", "Self %", "Self", "Total %", "Total", "Average", "Calls", "Bytes", "GB/s", "FLOP", "GFLOP/s"]
        if machine:
            head.append("Of limit")
        if self._memory:
            head += ["Memory", "Self memory"]
        if self._shapes:
            head.append("Input shapes")
        if self._stacks:
            head.append("Source location")
        cells = []
        for r in rows:
            row = [
                _short(r.key, name_width),
                f"{100 * r.self_cpu_time_total / busy:.2f}%",
                time_text(r.self_cpu_time_total, unit),
                f"{100 * r.cpu_time_total / busy:.2f}%",
                time_text(r.cpu_time_total, unit),
                time_text(r.cpu_time, unit),
                str(r.count),
                bytes_text(r.bytes) if r.bytes else "--",
                f"{r.bytes_per_s / 1e9:.2f}" if r.bytes else "--",
                amount_text(r.flops, "FLOP") if r.flops else "--",
                f"{r.flops_per_s / 1e9:.2f}" if r.flops else "--",
            ]
            if machine:
                share = r.share(machine)
                row.append("--" if share is None else f"{100 * share:.1f}%")
            if self._memory:
                row += [bytes_text(r.cpu_memory_usage), bytes_text(r.self_cpu_memory_usage)]
            if self._shapes:
                row.append(_short(str(r.input_shapes), shapes_width))
            if self._stacks:
                lines = [_short(line, source_width) for line in r.stack] or ["--"]
                row.append(lines[0])
                cells += [row, *([""] * (len(row) - 1) + [line] for line in lines[1:])]
                continue
            cells.append(row)
        foot = [f"Self CPU time total: {time_text(self._busy_us, unit)}"]
        if machine:
            foot.append(
                f"Limits of this machine ({machine.threads} threads): copy {machine.bandwidth / 1e9:.1f} GB/s, "
                + "matrix product " + ", ".join(f"{name} {rate / 1e9:.1f}" for name, rate in machine.matmuls.items()) + " GFLOP/s"
            )  # fmt: skip
        if left_out:
            foot.append(f"{left_out} more rows; pass row_limit=-1 for all")
        if self._dropped:
            foot.append(f"{self._dropped} events were dropped at the limit; pass max_events= for a higher one")
        return head, cells, foot

    def __str__(self) -> str:
        return self.table()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows without HTML: the table."""
        printer.text(self.table(row_limit=30))

    def _repr_html_(self) -> str:
        """What a notebook shows: the table's first 30 rows."""
        from flambeau._rich import table_html

        head, cells, foot = self._cells(None, 30, 55, 80, 75, True)
        return table_html(head, cells, "", foot)


def averages(recording: Recording, by: str, with_shapes: bool, memory: bool, stack_n: int = 0) -> EventAverages:
    """The events added up by 'name' (and shapes, and the innermost `stack_n` calls), or by 'module'."""
    data = recording.data
    busy = float(recording.total[data["parent"] < 0].sum()) / 1e3
    if by == "module":
        return EventAverages(list(_by_module(recording)), busy, recording.dropped, memory, False)
    names = [recording.names[n] for n in data["name"].tolist()]
    kinds = data["kind"].tolist()
    keys: list[Any] = list(zip(names, kinds))
    if with_shapes:
        keys = [(*key, repr(recording.shapes_of(i)[0])) for i, key in enumerate(keys)]
    if stack_n:
        tops = {stack: tuple(lines[:stack_n]) for stack, lines in recording.stacks.items()}
        keys = [(*key, tops.get(stack, ())) for key, stack in zip(keys, data["stack"].tolist())]
    numbers: dict[Any, int] = {}
    first: list[int] = []
    group = np.empty(len(keys), "i8")
    for i, key in enumerate(keys):
        n = numbers.setdefault(key, len(numbers))
        if n == len(first):
            first.append(i)
        group[i] = n
    size = len(first)

    def add(values: Any) -> list[float]:
        return np.bincount(group, weights=values, minlength=size).tolist() if size else []

    counts = np.bincount(group, minlength=size).tolist() if size else []
    columns = [
        add(v)
        for v in (
            recording.total / 1e3,
            recording.self_time / 1e3,
            data["in_bytes"],
            data["out_bytes"],
            data["flops"],
            recording.self_flops,
            recording.memory,
            recording.self_memory,
        )
    ]
    flops_of: list[dict[str, float]] = [{} for _ in range(size)]
    for i in np.flatnonzero(data["flops"]).tolist():
        name = recording.dtype_of(i)
        of = flops_of[group[i]]
        of[name] = of.get(name, 0.0) + float(data["flops"][i])
    rows = []
    for n, i in enumerate(first):
        total, own, read, written, flops, own_flops, used, own_used = (c[n] for c in columns)
        stack = recording.stack_of(i)
        rows.append(
            FunctionEventAvg(
                names[i], KINDS[kinds[i]], counts[n], total, own, int(read), int(written), flops, own_flops, flops_of[n],
                int(used), int(own_used), recording.shapes_of(i)[0] if with_shapes else [], stack[:stack_n] if stack_n else stack,
            )  # fmt: skip
        )
    return EventAverages(rows, busy, recording.dropped, memory, with_shapes, stack_n > 0)


@dataclass
class ModuleRow(FunctionEventAvg):
    """One module: forward time with and without its children's, and the backward time of its own ops."""

    type: str = ""
    backward_time_total: float = 0.0

    def _rate(self, amount: float) -> float:
        return amount / (self.self_cpu_time_total * 1e-6) if self.self_cpu_time_total > 0 else 0.0

    @property
    def flops_per_s(self) -> float:
        """FLOPs of its own ops per second of its own time."""
        return self._rate(self.flops)

    @property
    def bytes_per_s(self) -> float:
        """Bytes of its own ops per second of its own time."""
        return self._rate(self.bytes)


def _by_module(recording: Recording) -> Iterator[ModuleRow]:
    data = recording.data
    owner = recording.module
    paths = [recording.names[n] for n in data["name"].tolist()]
    kinds = data["kind"].tolist()
    rows: dict[str, ModuleRow] = {}
    # An op inside of another counts once: bytes of the innermost, FLOPs and memory without children's.
    has_child = np.zeros(len(data), bool)
    inner = (data["parent"] >= 0) & (data["kind"] == 0)
    has_child[data["parent"][inner]] = True
    leaf = (~has_child).tolist()
    parents = data["parent"].tolist()
    total, own_flops, memory = recording.total.tolist(), recording.self_flops.tolist(), recording.memory.tolist()
    read, written = data["in_bytes"].tolist(), data["out_bytes"].tolist()
    backward = data["backward"].tolist()
    nearest = _outer_modules(parents, kinds)
    for i, at in enumerate(owner.tolist()):
        if at < 0:
            continue
        path = paths[at]
        row = rows.get(path)
        if row is None:
            row = rows[path] = ModuleRow(path, "module")
        if kinds[i] == MODULE:
            row.count += 1
            row.cpu_time_total += total[i] / 1e3
            row.self_cpu_time_total += total[i] / 1e3
            row.cpu_memory_usage += memory[i]
            row.self_cpu_memory_usage += memory[i]
            if nearest[i] >= 0:
                outer = rows[paths[nearest[i]]]
                outer.self_cpu_time_total -= total[i] / 1e3
                outer.self_cpu_memory_usage -= memory[i]
            continue
        if kinds[i] == BACKWARD:
            row.backward_time_total += total[i] / 1e3
            continue
        if not backward[i]:
            row.flops += own_flops[i]
            row.self_flops += own_flops[i]
            if leaf[i]:
                row.input_bytes += read[i]
                row.output_bytes += written[i]
    yield from rows.values()


def _outer_modules(parents: list[int], kinds: list[int]) -> list[int]:
    """For every event the module call around it, itself not counted; -1: none."""
    nearest = [-1] * len(parents)
    for i, p in enumerate(parents):
        if p >= 0:
            nearest[i] = p if kinds[p] == MODULE else nearest[p]
    return nearest


def modules_table(rows: Sequence[ModuleRow], row_limit: int = -1, dropped: int = 0) -> str:
    """The table of `profile.modules()`, in the order of the calls."""
    head = ["Module", "Type", "Calls", "Forward", "Self", "Backward", "FLOP", "GFLOP/s", "Bytes", "Memory"]
    cells = []
    for r in rows[:row_limit] if row_limit >= 0 else rows:
        cells.append(
            [
                r.key, r.type, str(r.count), time_text(r.cpu_time_total), time_text(r.self_cpu_time_total),
                time_text(r.backward_time_total), amount_text(r.flops, "FLOP") if r.flops else "--",
                f"{r.flops_per_s / 1e9:.2f}" if r.flops else "--", bytes_text(r.bytes) if r.bytes else "--",
                bytes_text(r.cpu_memory_usage) if r.cpu_memory_usage else "--",
            ]  # fmt: skip
        )
    foot = ["Self, FLOP and bytes: a module's own ops, without its children's; Backward: of its own ops"]
    if dropped:
        foot.append(f"{dropped} events were dropped at the limit")
    return layout(head, cells, None, foot)
