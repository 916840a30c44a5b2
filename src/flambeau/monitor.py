"""`torch.monitor`: events that a program logs, handlers that are told of them, and statistics that are logged once per window.

Example:
    >>> import datetime
    >>> import flambeau as fl
    >>> handle = fl.monitor.register_event_handler(lambda event: print(event.name, event.data))
    >>> fl.monitor.log_event(fl.monitor.Event("epoch", datetime.datetime.now(), {"loss": 0.5}))
    epoch {'loss': 0.5}
    >>> fl.monitor.unregister_event_handler(handle)
"""

from __future__ import annotations

import datetime
import enum
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flambeau.utils.tensorboard import SummaryWriter

__all__ = [
    "COUNT", "MAX", "MEAN", "MIN", "STAT_EVENT", "SUM", "VALUE", "Aggregation", "Event", "EventHandlerHandle", "Stat",
    "TensorboardEventHandler", "data_value_t", "log_event", "register_event_handler", "unregister_event_handler",
]  # fmt: skip

STAT_EVENT = "torch.monitor.Stat"
data_value_t = int | float | bool | str  # noqa: N816 (PyTorch's name)


class Aggregation(enum.Enum):
    """What is made of a window's values: the last one, their mean, number, sum, largest or smallest."""

    VALUE = 1
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation

class Event:
    """Something that happened: a name, when, and numbers or texts by name.

    Raises:
        TypeError: a name is no text, the time no `datetime`, or a value neither a number nor a text.

    >>> import datetime
    >>> Event("epoch", datetime.datetime(2020, 1, 1), {"loss": 0.5}).data
    {'loss': 0.5}
    """

    def __init__(self, name: str, timestamp: datetime.datetime, data: Mapping[str, data_value_t]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Event: name is a {type(name).__name__}; expected a str")
        if not isinstance(timestamp, datetime.datetime):
            raise TypeError(f"Event: timestamp is a {type(timestamp).__name__}; expected a datetime.datetime")
        if not isinstance(data, Mapping):
            raise TypeError(f"Event: data is a {type(data).__name__}; expected a dict of numbers and texts")
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, data_value_t):
                raise TypeError(f"Event: data holds {key!r}: a {type(value).__name__}; expected an int, float, bool or str by a text")
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class EventHandlerHandle:
    """What `register_event_handler` returns; it names the handler."""

    def __init__(self, handler: Callable[[Event], Any]) -> None:
        self._handler = handler


_handlers: list[EventHandlerHandle] = []
_lock = threading.Lock()


def register_event_handler(callback: Callable[[Event], Any]) -> EventHandlerHandle:
    """Has `callback` called with each event that is logged from now on, in the thread that logs it.

    Raises:
        TypeError: it can not be called.
    """
    if not callable(callback):
        raise TypeError(f"register_event_handler: callback is a {type(callback).__name__}; expected a function of an event")
    handle = EventHandlerHandle(callback)
    with _lock:
        _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Ends it.

    Raises:
        TypeError: it is not what `register_event_handler` returned.
        ValueError: it has been ended already.
    """
    if not isinstance(handler, EventHandlerHandle):
        raise TypeError(f"unregister_event_handler: handler is a {type(handler).__name__}; expected what register_event_handler returned")
    with _lock:
        if handler not in _handlers:
            raise ValueError("unregister_event_handler: this handler is not registered any more")
        _handlers.remove(handler)


def log_event(event: Event) -> None:
    """Calls all handlers with the event; what one of them raises comes out here.

    Raises:
        TypeError: it is no `Event`.
    """
    if not isinstance(event, Event):
        raise TypeError(f"log_event: event is a {type(event).__name__}; expected a flambeau.monitor.Event")
    with _lock:
        handlers = list(_handlers)
    for handle in handlers:
        handle._handler(event)


class Stat:
    """Statistics of numbers that are added one by one, for one window of time after the other.

    When a window has ended, which the next `add` or `get` sees, or has had `max_samples` values, an event "torch.monitor.Stat" is logged
    with one number for each aggregation, by names like "loss.mean"; a window without values logs nothing. The last window is logged
    when the object goes.

    Args:
        name: the beginning of the names.
        aggregations: what is made of the values.
        window_size: the length of a window.
        max_samples: how many values a window takes at most; what comes after them in the same window is left out.

    Raises:
        TypeError: the aggregations are none, or `window_size` is no `timedelta`.
        ValueError: `window_size` is not positive.

    >>> import datetime
    >>> stat = Stat("loss", [Aggregation.SUM, Aggregation.COUNT], datetime.timedelta(days=1), max_samples=2)
    >>> stat.add(1.5)
    >>> stat.count
    1
    >>> stat.add(2.0)
    >>> stat.get()[Aggregation.SUM]
    3.5
    """

    def __init__(
        self, name: str, aggregations: Sequence[Aggregation], window_size: datetime.timedelta, max_samples: int | None = None
    ) -> None:
        self._values: list[float] = []
        self._aggregations = [a for a in Aggregation if a in aggregations]
        for given in aggregations:
            if not isinstance(given, Aggregation):
                raise TypeError(f"Stat: aggregations holds a {type(given).__name__}; expected members of flambeau.monitor.Aggregation")
        if not isinstance(window_size, datetime.timedelta):
            raise TypeError(f"Stat: window_size is a {type(window_size).__name__}; expected a datetime.timedelta")
        if window_size <= datetime.timedelta(0):
            raise ValueError(f"Stat: window_size = {window_size}; expected a positive one")
        self.name = name
        self._length = window_size.total_seconds()
        self._most = max_samples
        self._lock = threading.RLock()
        self._window = self._now()
        self._logged = False  # whether this window was, because it was full
        self._results = dict.fromkeys(self._aggregations, 0.0)

    @property
    def count(self) -> int:
        """How many values this window has, before it is logged."""
        return len(self._values)

    def add(self, v: float) -> None:
        """One value more."""
        v = float(v)
        with self._lock:
            self._move_on()
            if self._logged:
                return
            self._values.append(v)
            if self._most is not None and len(self._values) >= self._most:
                self._log()
                self._logged = True

    def get(self) -> dict[Aggregation, float]:
        """The results of the last window that has ended, or was full; zeros where it had no values."""
        with self._lock:
            self._move_on()
            return dict(self._results)

    def _now(self) -> int:
        return int(time.monotonic() / self._length)

    def _move_on(self) -> None:
        now = self._now()
        if now != self._window:
            self._log()
            self._window, self._logged = now, False

    def _log(self) -> None:
        values, self._values = self._values, []
        if not values:
            self._results = dict.fromkeys(self._aggregations, 0.0)
            return
        of = {
            Aggregation.VALUE: values[-1], Aggregation.MEAN: sum(values) / len(values), Aggregation.COUNT: float(len(values)),
            Aggregation.SUM: sum(values), Aggregation.MAX: max(values), Aggregation.MIN: min(values),
        }  # fmt: skip
        self._results = {a: of[a] for a in self._aggregations}
        data = {f"{self.name}.{a.name.lower()}": value for a, value in self._results.items()}
        log_event(Event(STAT_EVENT, datetime.datetime.now(), data))

    def __del__(self) -> None:
        if getattr(self, "_values", None):
            self._log()


class TensorboardEventHandler:
    """A handler that writes the numbers of `Stat` events as scalars of a `SummaryWriter`, and leaves out other events."""

    def __init__(self, writer: SummaryWriter) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
