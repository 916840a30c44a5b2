"""A report as text: one row per case."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from harness import Report, Result

HEAD = ["", "flambeau", "PyTorch", "ratio", "target"]
MARKER = "<!-- speed table: from benchmarks/RESULTS.md -->"
LEGEND = "Medians (lowest..highest round):"


def rows(results: Sequence[Result]) -> list[list[str]]:
    """Median (lowest..highest) of both, the ratio of the medians and its target."""
    return [
        [
            r.case.name,
            _value(r.ours, r.case.unit),
            _value(r.theirs, r.case.unit),
            "-" if r.ratio is None else f"{r.ratio:.2f}",
            _target(r),
        ]
        for r in results
    ]


def as_text(report: Report) -> str:
    """For a terminal."""
    lines = [HEAD, *rows(report.results)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    table = "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines
    )
    return f"{describe(report)}\n\n{table}\n\n{geometric_mean(report)}"


def as_markdown(report: Report, command: str) -> str:
    """A page of its own."""
    return (
        "# Results of the benchmarks\n\n"
        f"{describe(report)}\n\n"
        f"    {command}\n\n"
        "Medians over the rounds, with the lowest and the highest round; each round has its own processes, "
        "flambeau's\nand PyTorch's in turn. The ratio is of the medians, flambeau over PyTorch: below 1 "
        "flambeau is faster or smaller.\n\n"
        f"{_markdown(report.results)}\n\n{geometric_mean(report)}\n"
    )


def geometric_mean(report: Report) -> str:
    """Of the ratios, as a sentence."""
    ratios = [r.ratio for r in report.results if r.ratio is not None]
    if not ratios:
        return "PyTorch was not there."
    slower = sum(ratio > 1 for ratio in ratios)
    return f"Geometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}; above 1: {slower} of {len(ratios)}."


def in_readme(readme: str, report: Report) -> str:
    """The text of the README with its table of speed made anew: the table and the line after MARKER.

    Raises:
        ValueError: the marker does not stand there exactly once.
    """
    if readme.count(MARKER) != 1:
        raise ValueError(f"expected exactly one line '{MARKER}'")
    old = re.compile(re.escape(MARKER) + r"\n(?:\n(?:\|.*\n)+\n" + re.escape(LEGEND) + r".*\n)?")
    table = _markdown([r for r in report.results if r.case.headline])
    new = f"{MARKER}\n\n{table}\n\n{LEGEND} {describe(report)}.\n"
    return old.sub(lambda _: new, readme)


def _markdown(results: Sequence[Result]) -> str:
    lines = [HEAD, ["---"] * len(HEAD), *rows(results)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def describe(report: Report) -> str:
    """The machine, the versions and how it was run."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return (
        f"{report.machine}; {versions}; {report.threads} threads, {report.rounds} rounds, "
        f"load {report.load[0]:.1f} before and {report.load[1]:.1f} after"
    )


def _value(values: Sequence[float], unit: str) -> str:
    if not values:
        return "-"
    middle, low, high = statistics.median(values), min(values), max(values)
    digits = 0 if middle >= 100 else 1 if middle >= 10 else 2 if middle >= 1 else 3
    return f"{middle:.{digits}f} {unit} ({low:.{digits}f}..{high:.{digits}f})"


def _target(r: Result) -> str:
    if r.case.min_share is not None and r.share_of is not None:
        text = f"{r.share:.2f} of {r.share_of.case.name}; >= {r.case.min_share:g}"
    elif r.case.max_value is not None:
        text = f"<= {r.case.max_value:g} {r.case.unit}"
    elif r.case.max_ratio is not None:
        text = f"<= {r.case.max_ratio:g}"
    else:
        return ""
    return text if r.met is None else f"{text}, {'met' if r.met else 'missed'}"
