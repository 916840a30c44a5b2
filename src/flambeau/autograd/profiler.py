"""The names that PyTorch has here as well; see `flambeau.profiler`."""

from __future__ import annotations

import os
from typing import Any

from flambeau import profiler as _profiler
from flambeau._warn import warn
from flambeau.profiler import kineto_available, record_function
from flambeau.profiler._profile import DEFAULT_MAX_EVENTS
from flambeau.profiler._profile import Events as _Events

__all__ = ["EventList", "emit_itt", "emit_nvtx", "kineto_available", "profile", "record_function"]

EventList = _profiler.EventAverages


class _Marks:
    """A region whose marks another tool would show: of none of them there is anything here, so that only a region without marks opens."""

    _missing = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        if enabled:
            what = f"{type(self).__name__}: this build of flambeau has no {self._missing}"
            raise RuntimeError(f"{what}; flambeau.profiler.profile records what runs on the CPU")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


class emit_nvtx(_Marks):  # noqa: N801 (PyTorch's name)
    """Marks for NVIDIA's tools; refused unless `enabled=False`, as there is no GPU.

    Raises:
        RuntimeError: it is enabled.
    """

    _missing = "CUDA backend"


class emit_itt(_Marks):  # noqa: N801 (PyTorch's name)
    """Marks for Intel's tools; refused unless `enabled=False`.

    Raises:
        RuntimeError: it is enabled.
    """

    _missing = "marks for VTune"


class profile(_profiler.profile):  # noqa: N801 (PyTorch's name)
    """`flambeau.profiler.profile` with the arguments of its older name, without a schedule.

    With `enabled=False` nothing is recorded. There is a CPU only: `use_cuda` and `use_device` have no effect, with a warning, and
    `use_kineto` none without one. The other arguments are those of `flambeau.profiler.profile`.

    Raises:
        ValueError: `use_cpu` is False, or `activity_filters` is given.

    Example:
        >>> import flambeau as fl
        >>> with fl.autograd.profiler.profile() as prof:
        ...     y = fl.ones(3) * 2
        >>> [e.name for e in prof.events()]
        ['ones', 'mul']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
        max_events: int = DEFAULT_MAX_EVENTS,
    ) -> None:
        if not isinstance(enabled, (bool, int)):
            raise TypeError(f"profile: enabled = {enabled!r}; expected a bool (activities are an argument of flambeau.profiler.profile)")
        if use_cuda or use_device not in (None, "cpu"):
            given = "use_cuda = True" if use_cuda else f"use_device = {use_device!r}"
            warn(f"profile: {given} has no effect: there is a CPU only")
        if not use_cpu:
            raise ValueError(f"profile: use_cpu = {use_cpu}; expected True: there is a CPU only")
        if activity_filters is not None:
            raise ValueError(f"profile: activity_filters = {activity_filters!r}; expected None: choose among events()")
        super().__init__(
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
            max_events=max_events,
        )
        self.enabled = bool(enabled)

    def start(self) -> None:
        if self.enabled:
            super().start()

    @property
    def function_events(self) -> _Events:
        """`events()`."""
        return self.events()

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
        widths = max_src_column_width, max_name_column_width, max_shapes_column_width
        return self.events().table(sort_by, row_limit, *widths, header, top_level_events_only)

    def __str__(self) -> str:
        return self.table() if self._recording is not None else repr(self)

    def export_chrome_trace(  # type: ignore[override]
        self, path: str | os.PathLike[str], metadata: Any = None, use_python_export: bool = False
    ) -> None:
        """`flambeau.profiler.profile.export_chrome_trace`.

        Raises:
            ValueError: `metadata` is given.
        """
        if metadata is not None:
            raise ValueError(f"export_chrome_trace: metadata = {metadata!r}; expected None: a trace holds events only")
        super().export_chrome_trace(path, use_python_export)
