"""What a graph needs of memory, before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.graph._plan import Plan
from flambeau.graph._structure import KINDS, Structure

_PLURAL = {kind: kind + "s" for kind in KINDS}


def size_text(nbytes: int) -> str:
    """Bytes as people read them.

    >>> size_text(1536), size_text(700)
    ('1.5 KiB', '700 B')
    """
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.1f} {unit}" if unit != "B" else f"{nbytes} B"


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes by kind, and what planning makes of the intermediate ones. `str` of it is a table."""

    mode: str
    kinds: dict[str, int]  # bytes of all buffers of a kind
    planned: int  # what the plan takes for the intermediate buffers
    lower_bound: int  # of them in use at once
    total: int  # what is brought, what is returned, and what the plan takes
    biggest: tuple[tuple[str, str, int], ...]  # name, kind, bytes

    def __str__(self) -> str:
        rows = [(_PLURAL[kind], size_text(self.kinds[kind])) for kind in KINDS]
        rows += [
            (f"  planned ({self.mode})", size_text(self.planned)),
            ("  in use at once", size_text(self.lower_bound)),
            ("total", size_text(self.total)),
        ]
        if self.biggest:
            rows.append(("biggest", ""))
            rows += [(f"  {name} ({kind})", size_text(nbytes)) for name, kind, nbytes in self.biggest]
        wide = max(len(left) for left, _ in rows)
        high = max(len(right) for _, right in rows)
        return "\n".join(f"{left:<{wide}}  {right:>{high}}".rstrip() for left, right in rows)


def report(graph: Structure, plan: Plan, biggest: int) -> Memory:
    kinds = dict.fromkeys(KINDS, 0)
    maker: dict[int, str] = {}
    for index, node in enumerate(graph.nodes):
        for value in node.outs:
            maker.setdefault(graph.values[value].buffer, f"{node.op}, node {index}")
    for buffer in graph.buffers:
        kinds[buffer.kind] += buffer.nbytes
    order = sorted(range(len(graph.buffers)), key=lambda index: -graph.buffers[index].nbytes)[:biggest]
    named = tuple(
        (graph.buffers[i].name or maker.get(i, f"buffer {i}"), graph.buffers[i].kind, graph.buffers[i].nbytes) for i in order
    )
    alone = sum(buffer.nbytes for index, buffer in enumerate(graph.buffers) if index not in plan.places)
    return Memory(plan.mode, kinds, plan.total, plan.lower_bound, alone + plan.total, named)
