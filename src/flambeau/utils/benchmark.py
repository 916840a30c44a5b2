"""How long statements take: measured alone, with a given number of threads, again and again.

>>> import flambeau as fl
>>> from flambeau.utils import benchmark
>>> timer = benchmark.Timer("x + 1", globals={"x": fl.ones(4)}, label="add", num_threads=1)
>>> measurement = timer.timeit(100)
>>> len(measurement.times), measurement.number_per_run, measurement.median > 0
(1, 100, True)
"""

from __future__ import annotations

import dataclasses
import enum
import math
import statistics
import timeit
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau._C import get_num_threads, set_num_threads
from flambeau.utils._fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias

__all__ = [
    "Compare", "FuzzedParameter", "FuzzedTensor", "Fuzzer", "Language", "Measurement", "ParameterAlias", "TaskSpec", "Timer", "select_unit",
    "trim_sigfig", "unit_to_english",
]  # fmt: skip

UNITS = {"ns": (1e-9, "nanosecond"), "us": (1e-6, "microsecond"), "ms": (1e-3, "millisecond"), "s": (1.0, "second")}


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which t seconds are between 1 and 1000, and its seconds.

    >>> select_unit(0.002)
    ('ms', 0.001)
    """
    name = next((name for name in reversed(UNITS) if t >= UNITS[name][0]), "ns")
    return name, UNITS[name][0]


def unit_to_english(u: str) -> str:
    """The unit's full name."""
    return UNITS[u][1]


def trim_sigfig(x: float, n: int) -> float:
    """x with n significant figures.

    >>> trim_sigfig(3.14159, 3)
    3.14
    """
    return float(f"{x:.{n - 1}e}")


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """What was measured. Measurements with equal ones are of the same thing."""

    stmt: str
    setup: str = "pass"
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement; and the sub-label."""
        first = self.label or self.stmt.strip().splitlines()[0]
        return f"{first}: {self.sub_label}" if self.sub_label else first


@dataclasses.dataclass
class Measurement:
    """What a `Timer` measured.

    Attributes:
        number_per_run: how often the statement ran in each of the runs.
        raw_times: seconds of each run, of all its repetitions together.
        task_spec: what was measured.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    @property
    def times(self) -> list[float]:
        """Seconds of the statement, run by run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """Their mean, in seconds."""
        return statistics.mean(self.times)

    @property
    def median(self) -> float:
        """Their median, in seconds."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance between their quartiles, in seconds."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many figures of the times can be trusted, by the spread of the half in the middle: 1 to 4."""
        low, high = statistics.quantiles(self.times, n=4, method="inclusive")[::2] if len(self.times) > 1 else self.times * 2
        middle = [t for t in self.times if low <= t <= high]
        error = 1.645 * statistics.pstdev(middle or self.times) / max(len(middle), 1) ** 0.5  # 9 of 10 means lie within it
        return max(1, min(4, math.floor(-math.log10(error / self.median)))) if error else 4

    @property
    def has_warnings(self) -> bool:
        """Whether the spread is too wide to trust: quartiles more than a tenth of the median apart."""
        return self.iqr > 0.1 * self.median

    @property
    def as_row_name(self) -> str:
        """What a table's row with it is called."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __getattr__(self, name: str) -> Any:
        if name in TaskSpec.__dataclass_fields__ or name == "title":
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    def __repr__(self) -> str:
        spec, n = self.task_spec, len(self.times)
        unit, seconds = select_unit(self.median)
        lines = [f"<{type(self).__module__}.Measurement object at {id(self):#x}>"]
        if spec.label or spec.sub_label:
            lines.append(spec.title)
        else:
            lines += _indented("stmt", spec.stmt, spec.stmt)
        if spec.description:
            lines.append(spec.description)
        if spec.setup.strip() not in ("", "pass"):
            lines += _indented("setup", spec.setup, f"setup: {spec.setup}")
        if n == 1:
            lines.append(f"  {self.median / seconds:.2f} {unit}")
        else:
            lines.append(f"  Median: {self.median / seconds:.2f} {unit}")
        if n >= 4:
            low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
            lines.append(f"  IQR:    {self.iqr / seconds:.2f} {unit} ({low / seconds:.2f} to {high / seconds:.2f})")
        count = f"{self.number_per_run} runs " if n == 1 else f"{self.number_per_run} runs per measurement"
        lines.append(f"  {n} measurement{'s' * (n > 1)}, {count}, {spec.num_threads} thread{'s' * (spec.num_threads > 1)}")
        if self.has_warnings:
            share = f"{100 * self.iqr / self.median:.1f}%"
            lines.append(f"  WARNING: the quartiles are {share} of the median apart; the machine may be busy")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, with the runs of all that measured it."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        return [
            m[0] if len(m) == 1 else Measurement(1, [t for one in m for t in one.times], spec) for spec, m in groups.items()
        ]


def _indented(name: str, text: str, one_line: str) -> list[str]:
    """A statement of several lines under its name, one of a single line as it is given."""
    return [f"{name}:", *(f"  {line}" for line in text.strip().splitlines()), ""] if "\n" in text.strip() else [one_line]


class Language(enum.Enum):
    """Of a statement. `Timer` takes the first."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Measures a statement.

    Args:
        stmt: the statement, as text.
        setup: what comes before each run and is not measured.
        global_setup: what comes once before everything.
        timer: seconds, of some moment.
        globals: the names that the statement sees.
        label, sub_label, description: what `Compare` makes tables, rows and columns of.
        num_threads: the threads that the library uses meanwhile; 1 unless given.
        language: of the statement, which is Python.

    Raises:
        TypeError: `stmt` is no text.
        ValueError: fewer than one thread, or another language.
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timeit.default_timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1, language: Language | str = Language.PYTHON,
    ) -> None:  # fmt: skip
        import textwrap

        if not isinstance(stmt, str):
            raise TypeError(f"Timer: stmt is a {type(stmt).__name__}; expected the statement as text")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Timer: language = {language!r}; expected 'python': statements are not compiled")
        if num_threads < 1:
            raise ValueError(f"Timer: num_threads = {num_threads}; expected at least 1")
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)
        names = dict(globals or {})
        if "flambeau" not in names:
            import flambeau

            names |= {"flambeau": flambeau, "torch": flambeau}
        if global_setup:
            exec(compile(textwrap.dedent(global_setup), "<global setup>", "exec", dont_inherit=True), names)
        self._timer = timeit.Timer(stmt, setup, timer, names)

    def _run(self, number: int) -> float:
        before = get_num_threads()
        set_num_threads(self._task_spec.num_threads)
        try:
            return self._timer.timeit(number)
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One run of `number` repetitions, after a hundredth of it that does not count."""
        self._run(max(number // 100, 2))
        return Measurement(number, [self._run(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not here: `blocked_autorange` repeats, and says how often.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Timer.repeat: use blocked_autorange(), which chooses the repetitions, or timeit(number)")

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> None:
        """Not here: instructions are not counted.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Timer.collect_callgrind: instructions are not counted here; use timeit(number) or blocked_autorange()")

    def _block(self) -> int:
        """Repetitions of a run that takes a thousand times what reading the clock does, and a millisecond at least."""
        overhead = max(statistics.median(timeit.Timer("pass").repeat(5, 1)), 1e-7)
        number = 1
        while True:
            took = self._run(number)
            if took > max(1000 * overhead, 1e-3) or number >= 10**9:
                return number
            number *= 10

    def _until(self, number: int, enough: Callable[[list[float]], bool]) -> Measurement:
        times: list[float] = []
        while not times or not enough(times):
            times.append(self._run(number))
        return Measurement(number, times, self._task_spec)

    def blocked_autorange(self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2) -> Measurement:
        """Runs until `min_run_time` seconds were measured, each with so many repetitions that the clock does not matter.

        `callback(number, seconds)` is told of each run.
        """
        number = self._block()

        def enough(times: list[float]) -> bool:
            if callback is not None:
                callback(number, times[-1])
            return sum(times) >= min_run_time

        return self._until(number, enough)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """Runs until the quartiles are closer than `threshold` of the median, for `max_run_time` seconds at most."""
        number = self._block()

        def enough(times: list[float]) -> bool:
            if callback is not None:
                callback(number, times[-1])
            measured = Measurement(number, times, self._task_spec)
            steady = len(times) > 3 and measured.iqr <= threshold * measured.median
            return sum(times) >= max_run_time or (steady and sum(times) >= min_run_time)

        return self._until(number, enough)


class Compare:
    """A table of measurements: one for each label, rows by sub-label and threads, columns by description.

    >>> spec = TaskSpec("x + y", label="add", sub_label="small", description="ours")
    >>> Compare([Measurement(1, [2e-6, 2e-6], spec)]).print()
    [--- add ----]
           |  ours
    1 threads: ----
     small |   2.0
    <BLANKLINE>
    Times are in microseconds (us).
    """

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results = list(results)
        self._figures: int | None = None
        self._marked = self._warned = False

    def extend_results(self, results: Sequence[Measurement]) -> None:
        """Adds measurements.

        Raises:
            ValueError: one of them is something else.
        """
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Compare: got a {type(result).__name__}; expected measurements")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Prints as many figures as the spread allows: two."""
        self._figures = 2

    def colorize(self, rowwise: bool = False) -> None:
        """Marks the best of each row with `*`: the tables are text without colours."""
        self._marked = True

    def highlight_warnings(self) -> None:
        """Marks what spreads too widely with (!)."""
        self._warned = True

    def print(self) -> None:
        """Prints the tables."""
        print(self)

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = list(dict.fromkeys(m.task_spec.label or m.task_spec.stmt for m in merged))
        return "\n\n".join(self._table(label, [m for m in merged if (m.task_spec.label or m.task_spec.stmt) == label]) for label in labels)

    def _table(self, label: str, results: list[Measurement]) -> str:
        unit, seconds = select_unit(min(m.median for m in results))

        def column_of(m: Measurement) -> str:
            return m.task_spec.description or m.task_spec.env or m.task_spec.stmt

        def row_of(m: Measurement) -> str:
            name = m.as_row_name
            return f"({m.task_spec.env}) {name}" if m.task_spec.env and m.task_spec.description else name

        columns = list(dict.fromkeys(map(column_of, results)))
        threads = sorted({m.task_spec.num_threads for m in results})
        cells: dict[tuple[int, str], dict[str, str]] = {}
        for count in threads:
            for name in dict.fromkeys(row_of(m) for m in results if m.task_spec.num_threads == count):
                found = {column_of(m): m for m in results if (m.task_spec.num_threads, row_of(m)) == (count, name)}
                best = min(m.median for m in found.values())
                cells[count, name] = {
                    key: self._cell(m, seconds) + ("*" if self._marked and m.median == best and len(found) > 1 else "")
                    for key, m in found.items()
                }
        first = max(len(name) for _, name in cells) + 2
        widths = {c: max(len(c), *(len(row.get(c, "")) for row in cells.values())) for c in columns}
        head = " " * first + "".join(f"|  {c:>{widths[c]}}" + "  " * (c != columns[-1]) for c in columns)
        width = len(head)
        lines = [f"[{f' {label} ':-^{max(width - 2, len(label) + 4)}}]", head]
        for count in threads:
            lines.append(f"{f'{count} threads: ':-<{max(width, 15)}}")
            for (of, name), row in cells.items():
                if of == count:
                    shown = "".join(f"|  {row.get(c, ''):>{widths[c]}}" + "  " * (c != columns[-1]) for c in columns)
                    lines.append(f" {name:<{first - 1}}{shown}".rstrip())
        return "\n".join(line.rstrip() for line in lines) + f"\n\nTimes are in {unit_to_english(unit)}s ({unit})."

    def _cell(self, m: Measurement, seconds: float) -> str:
        value = m.median / seconds
        text = f"{trim_sigfig(value, self._figures):g}" if self._figures else f"{value:.1f}"
        return text + (" (!)" if self._warned and m.has_warnings else "")
