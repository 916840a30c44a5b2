"""Files of a recording: Chrome's trace format, which Perfetto reads, and the memory timeline."""

from __future__ import annotations

import gzip
import json
import os
from typing import Any

import numpy as np

from flambeau.profiler._events import KINDS, Recording, time_text
from flambeau.serialization._files import write_file, write_text

__all__ = ["chrome_trace", "memory_page", "memory_timeline", "stack_lines", "write_json", "write_text"]

KEYS = ("traceEvents", "displayTimeUnit", "flambeau")  # of a Chrome trace


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Writes JSON, compressed when the path ends in .gz."""
    data = json.dumps(value, separators=(",", ":")).encode()
    if os.fsdecode(path).endswith(".gz"):
        data = gzip.compress(data)
    write_file(os.fsdecode(path), lambda file: file.write(data))


def chrome_trace(recording: Recording, thread_names: dict[int, str], steps: list[tuple[int, int, int]]) -> dict[str, Any]:
    """The trace as an object: complete events ('X'), arrows from forward to backward, memory as a counter."""
    pid = os.getpid()
    out: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "flambeau"}}
    ]
    data = recording.data
    for tid in sorted(set(recording.thread.tolist())):
        name = thread_names.get(tid, f"thread {tid}")
        out.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})
    if steps:
        out.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": 0, "args": {"name": "steps"}})
    origin = min([*data["start"].tolist(), *(start for _, start, _ in steps)], default=0)
    module, threads, forward = recording.module.tolist(), recording.thread.tolist(), recording.forward.tolist()
    own = recording.self_time.tolist()
    rows = data.tolist()
    for i, row in enumerate(rows):
        args: dict[str, Any] = {"id": i, "self_us": own[i] / 1e3}
        if row[3] or row[4]:
            args["input_bytes"], args["output_bytes"] = row[3], row[4]
        if row[5]:
            args["flops"] = row[5]
        if row[6] and row[7] < 1 << 63:
            args["sequence"] = row[7]
        if forward[i] >= 0:
            args["forward"] = recording.names[rows[forward[i]][0]]
        if row[9] >= 0:
            args["allocated_bytes"] = row[9]
        if row[11]:
            args["input_shapes"], args["input_dtypes"] = recording.shapes_of(i)
        if row[12]:
            args["stack"] = recording.stack_of(i)
        if module[i] >= 0:
            args["module"] = recording.names[rows[module[i]][0]]
        if row[16]:
            args["failed"] = True
        kind = KINDS[row[14]]
        out.append(
            {
                "ph": "X",
                "cat": "backward" if row[15] else kind,
                "name": recording.names[row[0]],
                "pid": pid,
                "tid": threads[i],
                "ts": (row[1] - origin) / 1e3,
                "dur": (row[2] - row[1]) / 1e3,
                "args": args,
            }
        )
    for number, i in enumerate(np.flatnonzero(recording.forward >= 0).tolist()):
        f = forward[i]
        flow = {"cat": "forward_backward", "name": "backward of", "id": number, "pid": pid}
        out.append({"ph": "s", **flow, "tid": threads[f], "ts": (rows[f][1] - origin) / 1e3})
        out.append({"ph": "f", "bp": "e", **flow, "tid": threads[i], "ts": (rows[i][1] - origin) / 1e3})
    for number, start, end in steps:
        out.append(
            {"ph": "X", "cat": "step", "name": f"ProfilerStep#{number}", "pid": pid, "tid": 0,
             "ts": (start - origin) / 1e3, "dur": (end - start) / 1e3, "args": {}}  # fmt: skip
        )
    for time, used in memory_points(recording):
        out.append(
            {"ph": "C", "name": "allocated", "pid": pid, "tid": 0, "ts": (time - origin) / 1e3, "args": {"bytes": used}}
        )
    return {
        "traceEvents": out,
        "displayTimeUnit": "ms",
        "flambeau": {"dropped_events": recording.dropped, "start_ns": origin},
    }


def stack_lines(recording: Recording, times_ns: Any) -> list[str]:
    """A line per stack: its calls, the outermost first, and the microseconds of its events."""
    stacks = recording.data["stack"]
    sums = np.bincount(stacks, weights=times_ns) if len(stacks) else np.zeros(0)
    plain = str.maketrans(" ;\t\n", "____")
    return [
        ";".join(line.translate(plain) for line in reversed(recording.stacks[number])) + f" {int(sums[number] / 1e3)}\n"
        for number in np.unique(stacks).tolist()
        if number
    ]


def memory_points(recording: Recording) -> list[tuple[int, int]]:
    """(nanoseconds, allocated bytes) at the starts and ends of events, in the order of time."""
    data = recording.data
    known = data["allocated"] >= 0
    before = data["allocated_before"] >= 0
    times = np.concatenate([data["start"][before], data["end"][known]])
    used = np.concatenate([data["allocated_before"][before], data["allocated"][known]])
    order = np.argsort(times, kind="stable")
    return list(zip(times[order].tolist(), used[order].tolist()))


def memory_timeline(recording: Recording) -> dict[str, Any]:
    """Times in microseconds since the first event, allocated bytes at them, and where the peak is."""
    points = memory_points(recording)
    origin = points[0][0] if points else 0
    timeline: dict[str, Any] = {
        "times_us": [(t - origin) / 1e3 for t, _ in points],
        "allocated_bytes": [b for _, b in points],
        "peak": None,
    }
    if points:
        data = recording.data
        at = int(np.argmax(np.maximum(data["allocated"], data["allocated_before"])))
        owner = int(recording.module[at])
        timeline["peak"] = {
            "bytes": int(max(data["allocated"][at], data["allocated_before"][at])),
            "op": recording.names[int(data["name"][at])],
            "module": recording.names[int(data["name"][owner])] if owner >= 0 else "",
        }
    return timeline


_PAGE = """<!doctype html><meta charset="utf-8"><title>Allocated memory</title>
<body style="font-family:sans-serif"><h3>Allocated memory: {low} to {high} over {span}</h3>
<svg viewBox="0 0 1000 400" style="width:95vw;border:1px solid #888"><polyline fill="none" stroke="#26c"
 stroke-width="1" points="{points}"/></svg><p>{peak}</p></body>
"""


def memory_page(timeline: dict[str, Any]) -> str:
    """The timeline as a page with a curve."""
    from flambeau._units import bytes_text

    times, used = timeline["times_us"], timeline["allocated_bytes"]
    high, span = max(used, default=0) or 1, (times[-1] if times else 0.0) or 1.0
    points: list[str] = []
    last = 400.0
    for t, b in zip(times, used):
        x, y = 1000 * t / span, 400 - 395 * b / high
        points += [f"{x:.2f},{last:.1f}", f"{x:.2f},{y:.1f}"]
        last = y
    at = timeline["peak"]
    peak = f"Peak: {bytes_text(at['bytes'])} in {at['op']} {at['module']}" if at else "Nothing was recorded."
    low = bytes_text(min(used, default=0))
    return _PAGE.format(low=low, high=bytes_text(high), span=time_text(span), points=" ".join(points), peak=peak)
