"""`flambeau.monitor`: events, handlers and statistics; and `utils.deterministic`."""

from __future__ import annotations

import datetime

import pytest

import flambeau as fl
from flambeau import monitor
from flambeau.monitor import Aggregation

pytestmark = pytest.mark.eager("no tensors")
DAY = datetime.timedelta(days=1)


@pytest.fixture
def events():
    seen = []
    handle = monitor.register_event_handler(seen.append)
    yield seen
    monitor.unregister_event_handler(handle)


def test_handlers_are_told_of_events(events):
    event = monitor.Event("epoch", datetime.datetime(2020, 1, 1), {"loss": 0.5, "n": 3, "what": "x", "ok": True})
    monitor.log_event(event)
    assert events == [event]
    handle = monitor.register_event_handler(lambda event: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        monitor.log_event(event)
    monitor.unregister_event_handler(handle)
    monitor.log_event(event)
    assert len(events) == 3
    with pytest.raises(ValueError, match="not registered any more"):
        monitor.unregister_event_handler(handle)


def test_windows_of_statistics(events, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(monitor.time, "monotonic", lambda: now[0])
    stat = monitor.Stat("s", list(Aggregation), datetime.timedelta(seconds=10), max_samples=3)
    assert set(stat.get().values()) == {0.0}
    for value in (1, 2):
        stat.add(value)
    assert stat.count == 2
    assert not events
    stat.add(5)
    want = {"s.value": 5.0, "s.mean": 8 / 3, "s.count": 3.0, "s.sum": 8.0, "s.max": 5.0, "s.min": 1.0}
    assert [(event.name, event.data) for event in events] == [("torch.monitor.Stat", want)]
    assert stat.get()[Aggregation.SUM] == 8.0
    stat.add(7)  # left out: the window is full
    assert stat.count == 0
    now[0] = 11.0
    stat.add(4)
    assert stat.count == 1
    assert set(stat.get().values()) == {0.0}  # nothing came after the window was logged
    now[0] = 25.0
    assert stat.get()[Aggregation.MAX] == 4.0
    stat.add(6)
    del stat
    assert [event.data["s.sum"] for event in events] == [8.0, 4.0, 6.0]


def test_statistics_become_scalars():
    written = []

    class Writer:
        def add_scalar(self, name, value, walltime):
            written.append((name, value))

    handle = monitor.register_event_handler(monitor.TensorboardEventHandler(Writer()))
    monitor.log_event(monitor.Event("other", datetime.datetime.now(), {"x": 1}))
    monitor.Stat("loss", [monitor.MEAN], DAY, 1).add(2)
    monitor.unregister_event_handler(handle)
    assert written == [("loss.mean", 2.0)]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: monitor.Event("x", 1, {}), TypeError, "timestamp is a int"),
        (lambda: monitor.Event(1, datetime.datetime.now(), {}), TypeError, "name is a int"),
        (lambda: monitor.Event("x", datetime.datetime.now(), {"a": [1]}), TypeError, "'a': a list"),
        (lambda: monitor.Event("x", datetime.datetime.now(), 3), TypeError, "data is a int"),
        (lambda: monitor.log_event(3), TypeError, "event is a int"),
        (lambda: monitor.register_event_handler(3), TypeError, "callback is a int"),
        (lambda: monitor.unregister_event_handler(3), TypeError, "handler is a int"),
        (lambda: monitor.Stat("x", [3], DAY), TypeError, "aggregations holds a int"),
        (lambda: monitor.Stat("x", [monitor.SUM], 3), TypeError, "window_size is a int"),
        (lambda: monitor.Stat("x", [monitor.SUM], 0 * DAY), ValueError, "window_size = 0:00:00; expected a positive one"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_memory_is_never_filled():
    switch = fl.utils.deterministic
    switch.fill_uninitialized_memory = False
    assert switch.fill_uninitialized_memory is False
    with pytest.raises(NotImplementedError, match="full_like"):
        switch.fill_uninitialized_memory = True
    for base in (TypeError, RuntimeError):
        with pytest.raises(base, match="expected True or False"):
            switch.fill_uninitialized_memory = 1
