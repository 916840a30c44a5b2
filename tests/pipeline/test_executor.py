"""The threads that follow a schedule: order, messages, what they inherit, and how they end."""

from __future__ import annotations

import contextvars
import random
import signal
import threading
import time

import pytest

import flambeau as fl
from flambeau.pipeline import Schedule
from flambeau.pipeline._executor import Mail, check_ops, run_ranks, seed_here
from flambeau.pipeline._rules import NAMES
from flambeau.pipeline._stage import Settings


def forward_only(ranks, micro_batches):
    return [[a for a in actions if a.op == "F"] for actions in Schedule.make("gpipe", ranks, micro_batches).ranks]


class Follower:
    """Does nothing but to wait for data and to send it on, and logs."""

    def __init__(self, schedule, chaos=None):
        self.schedule, self.chaos = schedule, chaos
        self.mail = Mail(len(schedule.ranks))
        self.log = [[] for _ in schedule.ranks]
        self.all = []

    def __call__(self, rank, a):
        kind = "F" if a.op == "F" else "B"
        step = {"F": 1, "B": -1, "I": -1}.get(a.op, 0)
        if self.chaos:
            for _ in range(self.chaos.randrange(4)):
                time.sleep(0)  # another thread's turn
        if step and 0 <= a.stage - step < self.schedule.stages:
            assert self.mail.take(rank, (kind, a.stage, a.micro)) == (a.stage, a.micro)
        self.log[rank].append(a)
        self.all.append(a)
        to = a.stage + step
        if step and 0 <= to < self.schedule.stages:
            self.mail.put(self.schedule.rank_of[to], (kind, to, a.micro), (to, a.micro))

    def run(self):
        run_ranks(self.schedule.ranks, self, self.mail)
        return self


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks, micro_batches", [(1, 1), (2, 3), (4, 8), (4, 2)])
def test_ranks_follow_their_lists(name, ranks, micro_batches):
    schedule = Schedule.make(name, ranks, micro_batches if name != "dualpipe-v" else 2 * ranks + 1).with_recompute("except_last")
    log = Follower(schedule).run().log
    assert log == [list(actions) for actions in schedule.ranks]


@pytest.mark.parametrize("seed", range(30))
def test_any_timing_leads_to_the_end(seed):
    chaos = random.Random(seed)
    schedule = Schedule.make(chaos.choice(NAMES), chaos.randint(1, 4), chaos.randint(8, 9))
    assert len(Follower(schedule, chaos).run().all) == len(schedule)


def test_each_rank_has_a_thread_of_its_own():
    seen = {}
    run_ranks(forward_only(3, 2), lambda rank, a: seen.setdefault(rank, set()).add(threading.current_thread()), Mail(3))
    assert all(len(threads) == 1 for threads in seen.values())
    assert len(set.union(*seen.values(), {threading.current_thread()})) == 4


def test_a_value_is_taken_once_and_by_its_key():
    mail = Mail(1)
    mail.put(0, "a", 1)
    mail.put(0, "b", 2)
    assert (mail.take(0, "b"), mail.take(0, "a")) == (2, 1)
    mail.put(0, "a", 3)
    assert mail.take(0, "a") == 3


# ---- what threads inherit


def test_context_variables_are_the_callers():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(7)
    seen = []

    def perform(rank, a):
        seen.append(variable.get())
        variable.set(rank)

    run_ranks(forward_only(2, 1), perform, Mail(2))
    assert seen == [7, 7] and variable.get() == 7


def test_settings_bring_the_callers_modes():
    with fl.autocast("cpu", dtype=fl.float16), fl.inference_mode():
        settings = Settings(0, False, {})
    with settings.entered(records=False):
        assert fl.is_autocast_enabled() and fl.get_autocast_dtype("cpu") == fl.float16
        assert fl.is_inference_mode_enabled() and not fl.is_grad_enabled()
    assert not fl.is_autocast_enabled() and not fl.is_inference_mode_enabled() and fl.is_grad_enabled()


def test_default_type_and_threads_are_the_programs():
    seen = []
    before = fl.get_default_dtype(), fl.get_num_threads()
    try:
        fl.set_default_dtype(fl.float64)
        fl.set_num_threads(1)
        run_ranks(forward_only(1, 1), lambda *_: seen.append((fl.ones(1).dtype, fl.get_num_threads())), Mail(1))
    finally:
        fl.set_default_dtype(before[0])
        fl.set_num_threads(before[1])
    assert seen == [(fl.float64, 1)]


def test_workers_leave_the_callers_generator_alone():
    fl.manual_seed(1)
    run_ranks(forward_only(2, 3), lambda *_: fl.manual_seed(5) and fl.rand(9), Mail(2))
    found = fl.rand(3)
    fl.manual_seed(1)
    assert bool((found == fl.rand(3)).all())


def test_seeds_differ_by_layer_and_micro_batch():
    settings = Settings(seed_here(), False, {})
    seeds = {settings.seed_of(layer, micro) for layer in range(100) for micro in range(100)}
    assert len(seeds) == 10_000 and all(0 <= seed < 2**64 for seed in seeds)
    fl.manual_seed(1)
    first = seed_here()
    assert seed_here() == first
    fl.rand(1)
    assert seed_here() != first


# ---- how they end


class Boom(Exception):
    pass


class Odd(BaseException):
    """Has no room for more arguments, nor for notes."""

    __slots__ = ()

    def __init__(self):
        super().__init__(1, 2)

    def __setattr__(self, name, value):
        raise AttributeError(name)


@pytest.mark.parametrize("error", [Boom, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, Odd])
def test_a_failure_wakes_who_waits_and_is_raised(error):
    mail = Mail(3)
    waiting = threading.Barrier(3)

    def perform(rank, a):
        waiting.wait()
        if rank == 1:
            raise error
        mail.take(rank, "never")

    with pytest.raises(error) as caught:
        run_ranks(forward_only(3, 2), perform, mail)
    assert caught.traceback[-1].name == "perform"


def test_the_first_failure_is_raised():
    mail = Mail(2)

    def perform(rank, a):
        if rank == 0:
            raise Boom
        try:
            mail.take(rank, "never")
        finally:
            raise KeyError("second")

    with pytest.raises(Boom):
        run_ranks(forward_only(2, 1), perform, mail)


def test_who_does_not_wait_stops_before_its_next_action():
    mail, done, failed = Mail(2), [], threading.Event()

    def perform(rank, a):
        if rank == 1:
            try:
                raise Boom
            finally:
                failed.set()
        failed.wait()
        while not mail.cancelled:
            time.sleep(0)
        done.append(a)

    with pytest.raises(Boom):
        run_ranks(forward_only(2, 9), perform, mail)
    assert len(done) <= 1


def test_ctrl_c_of_the_caller_ends_all():
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread")
    mail = Mail(2)

    def perform(rank, a):
        while rank == 0 and not mail.cancelled:  # again if it was raised in a finalizer, where exceptions are lost
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            end = time.monotonic() + 5
            while not mail.cancelled and time.monotonic() < end:
                time.sleep(0.001)
        mail.take(rank, "never")

    with pytest.raises(KeyboardInterrupt):
        run_ranks(forward_only(2, 1), perform, mail)


def test_a_thread_that_can_not_be_started_ends_those_that_were(monkeypatch):
    start, started = threading.Thread.start, []

    def refuse(thread):
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    mail = Mail(3)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        run_ranks(forward_only(3, 1), lambda rank, a: mail.take(rank, "never"), mail)
    assert not any(thread.is_alive() for thread in started)


def test_the_note_says_where():
    def perform(rank, a):
        if str(a) == "1F2":
            raise Boom("it")

    with pytest.raises(Boom) as caught:
        run_ranks(forward_only(2, 3), perform, Mail(2))
    assert "in rank 1, stage 1, micro-batch 2, forward (1F2)" in caught.value.__notes__


def test_sends_are_refused():
    with pytest.raises(ValueError, match="REDUCE"):
        check_ops(Schedule.make("gpipe", 2, 2).with_communication())
