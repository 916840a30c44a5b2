"""Timelines as text and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from flambeau.pipeline._actions import Action, Ranks

Times = Sequence[Sequence[float]]

_COLOURS = {"F": "#7aa6d8", "R": "#c9b3e0", "B": "#8fc28a", "I": "#8fc28a", "W": "#e3c66b"}
_WIDEST = 4000.0


def _label(schedule: Ranks, rank: int, a: Action) -> str:
    """Op and micro-batch, in lower case for the rank's stages beyond its first."""
    first = min(s for s, r in schedule.rank_of.items() if r == rank)
    text = f"{a.op}{a.micro}"
    return text if a.stage == first else text.lower()


def grid(schedule: Ranks, begins: Times, ends: Times, unit: float | None) -> str:
    """See `Timeline.grid`."""
    spans = [
        (rank, begin, end, _label(schedule, rank, a))
        for rank, actions in enumerate(schedule.ranks)
        for a, begin, end in zip(actions, begins[rank], ends[rank]) if end > begin
    ]  # fmt: skip
    makespan = max(end[-1] for end in ends)
    if unit is None:
        unit = min((end - begin for _, begin, end, _ in spans), default=1.0)
    if not unit > 0 or makespan / unit > 10_000:
        raise ValueError(f"grid: unit = {unit} for a timeline of {makespan}; expected a unit > 0 and at most 10,000 columns")
    columns = round(makespan / unit)
    rows = [[""] * columns for _ in schedule.ranks]
    for rank, begin, end, label in spans:
        for k in range(round(begin / unit), max(round(begin / unit) + 1, round(end / unit))):
            if k < columns:
                rows[rank][k] = label
    wide = max([len(cell) for row in rows for cell in row], default=1)
    head = len(str(len(rows) - 1)) + 1
    lines = [" ".join((cell or ".").ljust(wide) for cell in row) for row in rows]
    return "\n".join(f"{f'r{rank}':<{head}} {line}".rstrip(" .") for rank, line in enumerate(lines))


def svg(schedule: Ranks, begins: Times, ends: Times, title: str) -> str:
    """See `Timeline.draw`."""
    makespan = max(end[-1] for end in ends)
    shortest = min((e - b for begin, end in zip(begins, ends) for b, e in zip(begin, end) if e > b), default=1.0)
    scale = min(26.0 / shortest, _WIDEST / makespan) if makespan else 1.0
    left, row, top = 64.0, 30.0, 34.0
    width, height = left + makespan * scale + 20, top + row * len(schedule.ranks) + 14
    title = f"{schedule.name}: {schedule.stages} stages, {schedule.micro_batches} micro-batches, {title}"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/><text x="8" y="20" font-size="13">{escape(title)}</text>',
    ]
    for rank, actions in enumerate(schedule.ranks):
        y = top + row * rank
        out.append(f'<text x="8" y="{y + 17:.1f}">rank {rank}</text>')
        out.append(f'<rect x="{left}" y="{y:.1f}" width="{makespan * scale:.1f}" height="{row - 6}" fill="#f0f0f0"/>')
        first = min(stage for stage, r in schedule.rank_of.items() if r == rank)
        for a, begin, end in zip(actions, begins[rank], ends[rank]):
            if end <= begin:
                continue
            x, wide = left + begin * scale, (end - begin) * scale
            shade = 1.0 if a.stage == first else 0.65
            out.append(f'<g><title>{escape(str(a))}: {begin:.4g} to {end:.4g}</title><rect x="{x:.2f}" y="{y:.1f}" width="{wide:.2f}" '
                       f'height="{row - 6}" fill="{_COLOURS[a.op]}" fill-opacity="{shade}" stroke="white"/>')
            if wide >= 14:
                out.append(f'<text x="{x + wide / 2:.2f}" y="{y + 16:.1f}" text-anchor="middle">{a.micro}</text>')
            out.append("</g>")
    return "\n".join([*out, "</svg>", ""])
