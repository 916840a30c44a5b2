"""`profile`, its schedule, and ranges of the user's."""

from __future__ import annotations

import contextlib
import enum
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from flambeau._C import profiler as _recorder
from flambeau._errors import AssertedValueError
from flambeau._warn import warn
from flambeau.profiler import _trace
from flambeau.profiler._averages import EventAverages, ModuleRow, averages, modules_table, single
from flambeau.profiler._events import RANGE, FunctionEvent, Recording
from flambeau.profiler._modules import ModuleCalls

DEFAULT_MAX_EVENTS = 1_000_000


class ProfilerActivity(enum.Enum):
    """What is profiled. There is a CPU only; other names are taken so that programs run."""

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a step of the schedule does."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A schedule for `profile`: after `skip_first` steps, cycles of `wait` steps without, `warmup` steps
    that are recorded and thrown away, and `active` steps that are kept; `repeat` cycles (0: for ever).
    Unless `skip_first_wait` is 0, the first cycle begins with its `warmup` steps.

    Example:
        >>> from flambeau.profiler import schedule
        >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
        >>> [plan(i).name for i in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']

    Raises:
        ValueError: a negative number, or no active step.
    """
    for name, value, least in (
        ("wait", wait, 0), ("warmup", warmup, 0), ("active", active, 1), ("repeat", repeat, 0), ("skip_first", skip_first, 0),
    ):  # fmt: skip
        if value < least:
            raise AssertedValueError(f"schedule: {name} = {value}; expected at least {least}")

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"schedule: step = {step}; expected at least 0")
        if step < skip_first:
            return ProfilerAction.NONE
        cycle, at = divmod(step - skip_first + (wait if skip_first_wait else 0), wait + warmup + active)
        if repeat and cycle >= repeat:
            return ProfilerAction.NONE
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < wait + warmup + active - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


class record_function(contextlib.ContextDecorator):
    """A named range in the profile: a context manager, or a decorator. Without a profile it costs next to nothing. `args` is no part of
    the name.

    Example:
        >>> import flambeau as fl
        >>> with fl.profiler.profile() as prof:
        ...     with fl.profiler.record_function("twice"):
        ...         y = fl.ones(3) * 2
        >>> [e.name for e in prof.events()]
        ['twice', 'ones', 'mul']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function: name is a {type(name).__name__}; expected a string")
        self.name, self.args = name, args
        self._open: list[Any] = []

    def _recreate_cm(self) -> record_function:
        return type(self)(self.name, self.args)  # a decorated function may call itself, and from several threads

    def __enter__(self) -> record_function:
        self._open.append(_recorder.begin(self.name, RANGE) if _recorder.recording() else None)
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        token = self._open.pop()
        if token is not None:
            _recorder.end(token, kind is not None)


_running: profile | None = None
_lock = threading.Lock()


class Events(list[FunctionEvent]):
    """The events of a profile, which adds them up, shows and writes them as the profile itself does."""

    def __init__(self, events: Iterable[FunctionEvent], made_by: profile) -> None:
        super().__init__(events)
        self._profile = made_by

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventAverages:
        """`profile.key_averages`."""
        return self._profile.key_averages(group_by_input_shapes, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> Any:
        """All events in one row."""
        return self._profile.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """All time in events, in microseconds."""
        return self.key_averages().self_cpu_time_total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75, max_name_column_width: int = 55,
        max_shapes_column_width: int = 80, header: str | None = None, top_level_events_only: bool = False,
    ) -> str:  # fmt: skip
        """A table with a row for each event, in their order where `sort_by` is None; otherwise as `key_averages().table()`.

        `top_level_events_only` leaves out what was called by another event.
        """
        of, shown = self._profile, [e for e in self if not top_level_events_only or e.cpu_parent is None]
        rows = single(shown, self.self_cpu_time_total, of.dropped_events, of.profile_memory, of.record_shapes)
        return rows.table(sort_by, row_limit, max_src_column_width, max_name_column_width, max_shapes_column_width, header, limits=False)

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """`profile.export_chrome_trace`."""
        self._profile.export_chrome_trace(path)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """`profile.export_stacks`."""
        self._profile.export_stacks(path, metric)


class profile:
    """Records what runs inside of it: ops, backward, optimizers, modules and ranges, of all threads.

    `activities` and `experimental_config` are taken for PyTorch's sake, as there is a CPU only, and so is `post_processing_timeout_s`, as
    little is done afterwards. `use_cuda` is deprecated and has no effect.
    `schedule` maps a step's number to what is done in it (see `schedule()`), with `step()` called after
    every step; `on_trace_ready(prof)` is called whenever something to be kept is complete.
    `record_shapes` keeps the shapes of inputs, `profile_memory` the allocated bytes at the start and end
    of every event, `with_stack` the Python calls around it, `with_modules` calls of modules, which
    `modules()` and `key_averages(group_by="module")` need. FLOPs are always counted.
    Beyond `max_events` events are dropped, which tables and traces say.

    Example:
        >>> import flambeau as fl
        >>> a = fl.rand(64, 64)
        >>> with fl.profiler.profile() as prof:
        ...     for _ in range(3):
        ...         b = a @ a + 1
        >>> [(row.key, row.count) for row in prof.key_averages()]
        [('matmul', 3), ('add', 3)]
        >>> print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=5))  # doctest: +SKIP

    Raises:
        RuntimeError: another profile is running.
        ValueError: `execution_trace_observer` or `custom_trace_id_callback` is given, or `acc_events` with a schedule: results are those
            of the latest cycle, and are read in `on_trace_ready`.
    """

    def __init__(
        self,
        activities: Iterable[ProfilerActivity] | None = None,
        *,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        max_events: int = DEFAULT_MAX_EVENTS,
    ) -> None:
        if use_cuda is not None:
            warn(f"profile: use_cuda = {use_cuda} is deprecated and has no effect; pass activities", FutureWarning)
        if execution_trace_observer is not None:
            raise ValueError(
                f"profile: execution_trace_observer = {execution_trace_observer!r}; expected None: there are no execution traces, "
                "export_chrome_trace() writes what ran"
            )
        if custom_trace_id_callback is not None:
            raise ValueError(
                f"profile: custom_trace_id_callback = {custom_trace_id_callback!r}; expected None: traces have no numbers, name their "
                "files in on_trace_ready"
            )
        if acc_events and schedule is not None:
            raise ValueError(
                f"profile: acc_events = {acc_events} with a schedule; expected False: results are those of the latest cycle, "
                "read each cycle's in on_trace_ready"
            )
        for activity in activities or ():
            if not isinstance(activity, ProfilerActivity):
                raise TypeError(f"profile: activities holds a {type(activity).__name__}; expected members of ProfilerActivity")
        if max_events < 1:
            raise ValueError(f"profile: max_events = {max_events}; expected at least 1")
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.max_events = max_events
        self.step_num = 0
        self._schedule = schedule
        self._action = ProfilerAction.NONE
        self._modules = ModuleCalls()
        self._recording: Recording | None = None
        self._steps: list[tuple[int, int, int]] = []
        self._step_start = 0
        self._threads: dict[int, str] = {}
        self._metadata: dict[str, Any] = {}
        self._started = False

    # ---- running

    def __enter__(self) -> profile:
        was_running = _running is self
        try:
            self.start()
            return self
        except BaseException:  # Ctrl-C after the start: nobody will call __exit__()
            if not was_running:
                self.stop()
            raise

    def __exit__(self, *_: Any) -> None:
        try:
            self.stop()
        finally:  # Ctrl-C before the end
            if _running is self:
                self._end()

    def start(self) -> None:
        """Begins, with step 0 of the schedule.

        Raises:
            RuntimeError: a profile is running, this one or another.
        """
        global _running
        begun = False
        try:
            with _lock:
                if _running is not None:
                    which = "this profile" if _running is self else "another profile"
                    raise RuntimeError(f"profile: {which} is running; profiles can not be nested, stop it first")
                begun = True
                _running = self
            self._started = True
            self.step_num = 0
            self._recording = None
            self._steps = []
            self._action = ProfilerAction.NONE
            self._go_to(self._schedule(0) if self._schedule else ProfilerAction.RECORD)
        except BaseException:  # an error of the schedule, or Ctrl-C: nobody will call stop()
            if begun:
                self._end()
            raise

    def step(self) -> None:
        """Says that a step of the program ends and the next one begins.

        Raises:
            RuntimeError: the profile is not running.
        """
        if _running is not self:
            raise RuntimeError("profile.step: the profile is not running; call it between start() and stop()")
        before = self._action
        if before in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._steps.append((self.step_num, self._step_start, _recorder.now_ns()))
        self.step_num += 1
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._finish()
        self._go_to(self._schedule(self.step_num) if self._schedule else ProfilerAction.RECORD)

    def stop(self) -> None:
        """Ends, and keeps what the schedule was recording."""
        if _running is not self:
            return
        try:
            if self._action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
                self._steps.append((self.step_num, self._step_start, _recorder.now_ns()))
                self._finish()
            else:
                self._switch_off()
        finally:
            self._end()

    def _end(self) -> None:
        global _running
        self._switch_off()
        self._action = ProfilerAction.NONE
        with _lock:
            _running = None

    def _go_to(self, action: ProfilerAction) -> None:
        keeps = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if action is ProfilerAction.NONE:
            self._switch_off()
        elif action is ProfilerAction.WARMUP:
            if self._action is not ProfilerAction.WARMUP:
                self._switch_on()
        elif self._action not in keeps or not _recorder.recording():
            self._steps = []
            self._switch_on()
        self._action = action
        self._step_start = _recorder.now_ns()

    def _switch_on(self) -> None:
        if self.with_modules:
            self._modules.install()
        _recorder.start(self.max_events, self.record_shapes, self.profile_memory, self.with_stack)

    def _switch_off(self) -> None:
        _recorder.stop()
        self._modules.remove()

    def _finish(self) -> None:
        self._switch_off()
        self._threads = {t.native_id: t.name for t in threading.enumerate() if t.native_id is not None}
        self._recording = Recording()
        self._action = ProfilerAction.NONE
        _recorder.clear()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # ---- results

    def _recorded(self, what: str) -> Recording:
        if self._recording is None:
            if not self._started:
                raise RuntimeError(f"profile.{what}: the profile has not run")
            if _running is self:
                raise RuntimeError(f"profile.{what}: the profile is still running; stop it first")
            raise RuntimeError(f"profile.{what}: nothing was recorded: no active step of the schedule was reached")
        return self._recording

    @property
    def dropped_events(self) -> int:
        """How many events went beyond `max_events`."""
        return self._recorded("dropped_events").dropped

    def events(self) -> Events:
        """All events, thread after thread, in the order in which they began."""
        return Events(self._recorded("events").events, self)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        *,
        group_by: str = "name",
    ) -> EventAverages:
        """The events added up by name, or with `group_by="module"` by module.

        `group_by_input_shape` tells events of one name apart by the shapes of their inputs, `group_by_stack_n`
        by the innermost n Python calls around them. Ops have no overloads, so that `group_by_overload_name` changes nothing.

        Raises:
            TypeError: `group_by_overload_name` is not a bool.
            ValueError: shapes, stacks or modules were not recorded, or `group_by_stack_n` is negative.
        """
        recording = self._recorded("key_averages")
        if not isinstance(group_by_overload_name, bool):
            raise TypeError(
                f"key_averages: group_by_overload_name = {group_by_overload_name!r}; expected a bool (group_by= is passed by its name)"
            )
        if group_by not in ("name", "module"):
            raise ValueError(f"key_averages: group_by = {group_by!r}; expected 'name' or 'module'")
        if group_by_input_shape and not self.record_shapes:
            raise ValueError("key_averages: shapes were not recorded; pass record_shapes=True to profile")
        if group_by_stack_n < 0:
            raise ValueError(f"key_averages: group_by_stack_n = {group_by_stack_n}; expected at least 0")
        if group_by_stack_n and not self.with_stack:
            raise ValueError("key_averages: stacks were not recorded; pass with_stack=True to profile")
        if group_by == "module" and not self.with_modules:
            raise ValueError("key_averages: modules were not recorded; pass with_modules=True to profile")
        rows = averages(recording, group_by, group_by_input_shape, self.profile_memory, group_by_stack_n)
        for row in rows:
            if isinstance(row, ModuleRow):
                row.type = self._modules.types.get(row.key, "")
        return rows

    def _repr_html_(self) -> str | None:
        """What a notebook shows: `key_averages()`; before there are any, what `repr` says."""
        return None if self._recording is None else self.key_averages()._repr_html_()

    def modules(self, row_limit: int = -1) -> str:
        """A table of modules in the order of their first calls: forward and backward time, FLOPs, bytes.

        Raises:
            ValueError: modules were not recorded.
        """
        rows = [r for r in self.key_averages(group_by="module") if isinstance(r, ModuleRow)]
        return modules_table(rows, row_limit, self.dropped_events)

    def total_average(self) -> Any:
        """All events in one row."""
        return self.key_averages().total_average()

    def export_chrome_trace(self, path: str | os.PathLike[str], use_python_export: bool = False) -> None:
        """Writes a trace for Perfetto (ui.perfetto.dev) or chrome://tracing; compressed if `path` ends in .gz.

        Python writes it in any case, so that `use_python_export` changes nothing.
        """
        recording = self._recorded("export_chrome_trace")
        steps = self._steps if self._schedule or len(self._steps) > 1 else []
        _trace.write_json(path, {**_trace.chrome_trace(recording, self._threads, steps), **self._metadata})

    def add_metadata(self, key: str, value: str) -> None:
        """A text that `export_chrome_trace` writes beside the events.

        Raises:
            ValueError: a key that the trace has for itself.
        """
        if key in _trace.KEYS:
            raise ValueError(f"profile.add_metadata: key = {key!r}; expected one beside {', '.join(_trace.KEYS)}, which traces have")
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """The same of a value that is given as JSON.

        Raises:
            ValueError: `value` is no JSON, or a key that the trace has for itself.
        """
        self.add_metadata(key, json.loads(value))

    preset_metadata_json = add_metadata_json  # what it is called before the start

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Writes a line per stack, "outer;inner microseconds", which tools for flame graphs read.

        Raises:
            ValueError: stacks were not recorded, or another `metric`.
        """
        recording = self._recorded("export_stacks")
        if not self.with_stack:
            raise ValueError("export_stacks: stacks were not recorded; pass with_stack=True to profile")
        if metric != "self_cpu_time_total":
            raise ValueError(f"export_stacks: metric = {metric!r}; expected 'self_cpu_time_total' (readers add lines)")
        _trace.write_text(path, "".join(_trace.stack_lines(recording, recording.self_time)))

    def export_memory_timeline(self, path: str | os.PathLike[str], device: Any = None) -> None:
        """Writes allocated bytes over time: JSON (.json, .json.gz), or a page with a curve (.html).

        Raises:
            ValueError: memory was not profiled.
        """
        recording = self._recorded("export_memory_timeline")
        if not self.profile_memory:
            raise ValueError("export_memory_timeline: memory was not profiled; pass profile_memory=True to profile")
        timeline = _trace.memory_timeline(recording)
        if os.fspath(path).endswith(".html"):
            _trace.write_text(path, _trace.memory_page(timeline))
        else:
            _trace.write_json(path, timeline)


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes a trace per cycle into a folder for TensorBoard, and, where the
    package `tensorboard` is installed, the tables and the memory curve as well (`write_tensorboard`).
    `use_python_export` is passed to `export_chrome_trace`.
    """
    import importlib.util

    has_tensorboard = importlib.util.find_spec("tensorboard") is not None

    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{ending}"), use_python_export)
        if has_tensorboard:
            from flambeau.profiler._tensorboard import write_tensorboard

            write_tensorboard(prof, dir_name)

    return handler
