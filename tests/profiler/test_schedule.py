"""Schedules: which steps are kept, and when the handler is called."""

import sys

import pytest

import flambeau as fl
from flambeau.profiler import ProfilerAction, profile, schedule

N, W, R, S = ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE


@pytest.mark.parametrize(
    "options, states",
    [
        (dict(wait=1, warmup=1, active=2, repeat=1), [N, W, R, S, N, N]),
        (dict(wait=1, warmup=1, active=2), [N, W, R, S, N, W, R, S]),
        (dict(wait=0, warmup=0, active=1), [S, S, S]),
        (dict(wait=0, warmup=1, active=1, repeat=2, skip_first=2), [N, N, W, S, W, S, N]),
        (dict(wait=2, warmup=1, active=1, repeat=2, skip_first=1, skip_first_wait=1), [N, W, S, N, N, W, S, N, N]),
    ],
)
def test_states(options, states):
    plan = schedule(**options)
    assert [plan(i) for i in range(len(states))] == states


@pytest.mark.parametrize("name, value", [("wait", -1), ("warmup", -1), ("active", 0), ("repeat", -1), ("skip_first", -2)])
def test_refused(name, value):
    with pytest.raises(ValueError, match=f"schedule: {name} = {value}"):
        schedule(**{**dict(wait=0, warmup=0, active=1), name: value})


def test_what_is_kept():
    kept = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=lambda p: kept.append((p.step_num, [e.input_shapes[0] for e in p.events() if e.name == "neg"])),
                 record_shapes=True) as prof:
        for i in range(10):
            fl.empty(i + 1).neg()
            prof.step()
    assert kept == [(4, [[3], [4]]), (8, [[7], [8]])]
    assert len(prof.events()) == 4, "two steps of two ops"


def test_stopped_in_the_middle():
    kept = []
    with profile(schedule=schedule(wait=0, warmup=0, active=5), on_trace_ready=lambda p: kept.append(len(p.events()))) as prof:
        fl.empty(2)
        prof.step()
        fl.empty(2)
    assert kept == [2]


def test_nothing_active():
    with profile(schedule=schedule(wait=5, warmup=1, active=1)) as prof:
        fl.empty(2)
        prof.step()
    with pytest.raises(RuntimeError, match="no active step of the schedule was reached"):
        prof.events()


def test_a_handler_that_fails():
    calls = []

    def handler(prof):
        calls.append(prof.step_num)
        raise KeyError("handler")

    with pytest.raises(KeyError):
        with profile(schedule=schedule(wait=0, warmup=0, active=1, repeat=1), on_trace_ready=handler) as prof:
            prof.step()
    assert calls == [1]
    with profile():
        pass


def test_an_error_at_the_start_ends_the_profile():
    with pytest.raises(ZeroDivisionError):
        profile(schedule=lambda step: 1 / 0).start()
    with profile():
        pass


def test_ctrl_c_ends_the_profile():
    points = 0  # where its methods begin and return

    def trace(frame, event, arg):
        nonlocal points
        if frame.f_code.co_filename != profile.__init__.__code__.co_filename or frame.f_code.co_name in ("__enter__", "__exit__"):
            return trace
        points += event in ("call", "return")
        if points == last and event in ("call", "return"):
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    for last in range(1, 200):
        points = 0
        measured = profile()
        try:
            sys.settrace(trace)
            with measured:
                pass
            break
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        with profile() as after:
            fl.ones(2) + 1
        assert any(event.name == "add" for event in after.events())
        assert not fl._C.profiler.recording()
    assert last > 10
