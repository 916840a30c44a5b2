"""The classes of what a profile holds, under the names that PyTorch has for them here; see `flambeau.profiler`."""

from __future__ import annotations

from flambeau.profiler._averages import EventAverages as EventList
from flambeau.profiler._averages import FunctionEventAvg
from flambeau.profiler._events import FunctionEvent, Interval
from flambeau.profiler._events import TimesAsText as FormattedTimesMixin

__all__ = ["EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval"]
