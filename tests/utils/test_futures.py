"""`flambeau.futures`: values that come later."""

from __future__ import annotations

import threading

import pytest

from flambeau.futures import Future, collect_all, wait_all


def test_a_value_is_waited_for():
    future = Future()
    assert not future.done()
    with pytest.raises(RuntimeError, match="no value yet"):
        future.value()
    threading.Timer(0.05, future.set_result, [3]).start()
    assert future.wait() == 3 and future.done() and future.value() == 3
    with pytest.raises(RuntimeError, match="was set before"):
        future.set_result(4)


def test_an_exception_is_raised_where_it_is_waited_for():
    future = Future()
    after = future.then(lambda f: f.value() + 1)
    with pytest.raises(TypeError, match="expected an exception"):
        future.set_exception("no")
    future.set_exception(KeyError("a"))
    for f in (future, after):
        with pytest.raises(KeyError):
            f.wait()


def test_callbacks_see_the_future():
    future, seen = Future(), []
    future.add_done_callback(lambda f: seen.append(f.value()))
    chain = future.then(lambda f: f.wait() * 2).then(lambda f: f.wait() + 1)
    future.set_result(5)
    future.add_done_callback(lambda f: seen.append("late"))
    assert seen == [5, "late"] and chain.wait() == 11


def test_all_together():
    futures = [Future() for _ in range(3)]
    together = collect_all(futures)
    for i, f in enumerate(futures[:2]):
        f.set_result(i)
    assert not together.done()
    futures[2].set_result(2)
    assert together.wait() == futures and wait_all(futures) == [0, 1, 2] and wait_all([]) == []
    failing = [Future(), Future()]
    failing[1].set_exception(ValueError("second"))
    assert not collect_all(failing).done()
    failing[0].set_result(0)
    with pytest.raises(ValueError, match="second"):
        wait_all(failing)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_callback_that_ends_the_thread_ends_it_after_the_others(error, late):
    """It is raised where the value is set (or the callback given), and what waits for a callback does not wait for ever."""

    def end(_):
        raise error("now")

    future, seen, after = Future(), [], []
    if late:
        future.set_result(3)
        with pytest.raises(error, match="now"):
            future.then(end)
        future.add_done_callback(lambda f: seen.append(f.value()))
    else:
        after = [future.then(end), future.then(lambda f: f.value() + 1)]
        chained = after[0].then(lambda f: "not reached" if f.value() else None)
        future.add_done_callback(lambda f: seen.append(f.value()))
        with pytest.raises(error, match="now"):
            future.set_result(3)
        assert all(f.done() for f in (*after, chained)) and after[1].value() == 4
        for f in (after[0], chained):
            with pytest.raises(error, match="now"):
                f.wait()
    assert seen == [3] and future.wait() == 3
    with pytest.raises(RuntimeError, match="was set before"):  # and it is raised once
        future.set_result(4)


def test_what_a_plain_callback_ends_the_thread_by():
    future, seen = Future(), []
    future.add_done_callback(lambda f: exec("raise SystemExit(3)"))
    future.add_done_callback(seen.append)
    with pytest.raises(SystemExit):
        future.set_exception(ValueError("no"))
    assert seen == [future]
