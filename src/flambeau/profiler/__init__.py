"""Where time and memory go: every op, backward node, optimizer step and module call, with PyTorch's names.

Example:
    >>> import flambeau as fl
    >>> from flambeau.profiler import profile, record_function
    >>> model = fl.nn.Linear(8, 2)
    >>> with profile(with_modules=True) as prof:
    ...     with record_function("step"):
    ...         model(fl.rand(4, 8)).sum().backward()
    >>> {row.key for row in prof.key_averages()} >= {"step", "Linear", "linear", "LinearBackward0"}
    True
    >>> print(prof.key_averages().table(row_limit=10))  # doctest: +SKIP
    >>> prof.export_chrome_trace("trace.json.gz")  # doctest: +SKIP
"""

from __future__ import annotations

from flambeau.profiler._averages import EventAverages, FunctionEventAvg
from flambeau.profiler._events import FunctionEvent
from flambeau.profiler._limits import MachineLimits, machine_limits
from flambeau.profiler._profile import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def supported_activities() -> set[ProfilerActivity]:
    """What a profile can record: the CPU.

    >>> import flambeau as fl
    >>> fl.profiler.ProfilerActivity.CUDA in fl.profiler.supported_activities()
    False
    """
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """False: profiles are recorded by flambeau itself."""
    return False


__all__ = [
    "EventAverages",
    "FunctionEvent",
    "FunctionEventAvg",
    "MachineLimits",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "machine_limits",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
