"""How a program ends, forks and is interrupted while ops are pending. Each script is a process of its own, which is killed when
it hangs."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

COMMON = """
import faulthandler, os, signal, sys, threading, time
import flambeau as fl
from flambeau import engine
from flambeau.engine import EngineError, Var

def child(work, seconds=20):
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(seconds, exit=True)
        try:
            work()
            os._exit(0)
        except BaseException as e:
            print("child:", repr(e), file=sys.stderr, flush=True)
            os._exit(3)
    status = os.waitpid(pid, 0)[1]
    assert status == 0, status
"""


def start(code):
    return subprocess.Popen(
        [sys.executable, "-c", COMMON + textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(code, returncode=0):
    process = start(code)
    try:
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == returncode, err
    return out, err


@pytest.mark.slow
def test_the_end_waits_for_what_is_pending():
    out, err = run("""
        x, door = Var("x"), threading.Event()
        engine.push(door.wait, writes=[x])
        for i in range(50):
            engine.push(lambda i=i: os.write(1, b"%d " % i), writes=[x])
        door.set()
    """)
    assert out.split() == [str(i) for i in range(50)] and not err


@pytest.mark.slow
def test_the_end_names_errors_that_nobody_was_told():
    _, err = run("""
        def boom():
            raise ValueError("boom")
        engine.push(boom, writes=[Var("x")], name="load")
    """)
    assert "nobody waited for what these ops should have written" in err
    assert "op 'load'" in err and "ValueError: boom" in err


@pytest.mark.slow
def test_a_push_after_the_end_is_refused():
    out, _ = run("""
        import atexit
        def late():
            try:
                engine.push(print)
            except EngineError as e:
                print(e)
        atexit._run_exitfuncs()
        late()
    """)
    assert "push: the engine is shut down" in out


@pytest.mark.slow
def test_children_of_a_busy_process_work():
    run("""
        x, own = Var("x"), [Var("a"), Var("b")]
        go = True
        def work(var):
            while go:
                for _ in range(10):
                    engine.push(lambda: fl.ones(100).sum(), [x], [var])
                engine.wait_for_var(var)
        threads = [threading.Thread(target=work, args=(v,)) for v in own]
        for t in threads: t.start()
        def in_child():
            assert engine.stats()["pending"] == 0
            found = []
            for i in range(20):
                engine.push(lambda i=i: found.append(float(fl.full((10,), i).sum())), writes=[x])
            engine.wait_for_var(x)
            engine.wait_all()
            assert found == [10.0 * i for i in range(20)], found
        try:
            for _ in range(30):
                child(in_child)
        finally:
            go = False
            for t in threads: t.join()
        engine.wait_all()
    """)


@pytest.mark.slow
def test_what_the_parent_was_writing_is_an_error_in_a_child():
    run("""
        x, door = Var("x"), threading.Event()
        engine.push(door.wait, writes=[x])
        def in_child():
            try:
                engine.wait_for_var(x)
            except EngineError as e:
                assert "had not ended when this process was forked" in str(e), e
            else:
                raise AssertionError("no error")
            engine.push(lambda: None, writes=[x])
            engine.wait_for_var(x)
        child(in_child)
        door.set()
        engine.wait_for_var(x)
    """)


@pytest.mark.slow
def test_a_fork_while_ops_are_collected():
    run("""
        x, y, old = Var("x"), Var("y"), Var("old")
        engine.push(lambda: None, writes=[old])
        engine.wait_all()

        def lost():
            for v in (x, y):
                try:
                    engine.wait_for_var(v)
                except EngineError as e:
                    assert "had not ended when this process was forked" in str(e), e
                else:
                    raise AssertionError(v)
            engine.wait_for_var(old)
            engine.push(lambda: None, writes=[x])
            engine.wait_for_var(x)

        with engine.bulk(9):
            engine.push(lambda: None, writes=[x])
            engine.push(lambda: None, reads=[x], writes=[y])
            child(lost)
        engine.wait_all()
        assert (x.version, y.version) == (1, 1)
    """)


@pytest.mark.slow
def test_a_fork_inside_of_an_op():
    run("""
        x = Var("x")
        def forks():
            def in_child():
                engine.push(lambda: None, writes=[Var("y")])
                engine.wait_all()
            child(in_child)
        engine.push(forks, writes=[x])
        engine.wait_for_var(x)
    """)


@pytest.mark.slow
@pytest.mark.parametrize("wait", ["engine.wait_for_var(x)", "engine.wait_all()"])
def test_ctrl_c_in_a_wait(wait):
    process = start(f"""
        x, door = Var("x"), threading.Event()
        engine.push(door.wait, writes=[x])
        try:
            print("waiting", flush=True)
            {wait}
        except KeyboardInterrupt:
            door.set()
            engine.wait_for_var(x)
            engine.push(lambda: print("still works", flush=True), writes=[x])
            engine.wait_all()
    """)
    try:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out == "still works\n" and process.returncode == 0, err


@pytest.mark.slow
def test_ctrl_c_at_the_end_names_what_is_pending():
    process = start("""
        kept = []
        engine.push_async(kept.append, writes=[Var("x")], name="never")
        while not kept: pass
        print("ending", flush=True)
    """)
    try:
        assert process.stdout.readline() == "ending\n"
        while process.poll() is None:  # until the wait at the end is reached
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                pass
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in err


def test_the_end_names_what_it_waits_for():
    process = start("""
        kept, engine._end_seconds = [], 0.05
        engine.push_async(kept.append, writes=[Var("x")], name="never")
    """)
    try:
        assert "no op has ended for 0.05 s, 1 pending" in process.stderr.readline()
        assert "op 'never'" in process.stderr.readline()
    finally:
        process.kill()


@pytest.mark.slow
def test_the_watchdog_names_what_hangs():
    process = start("""
        x, y = Var("x"), Var("y")
        engine.push(sys.stdin.readline, writes=[x], name="reader")
        engine.push(lambda: None, [x], [y], name="scale")
        engine.set_watchdog(0.05)
        engine.wait_all()
    """)
    try:
        lines = []
        while not any("#2 was pushed at" in line for line in lines):
            lines.append(process.stderr.readline())
            assert lines[-1], lines
    finally:
        process.kill()
        process.communicate()
    text = "".join(lines)
    assert "no op has ended for 0.05 s, 2 pending" in text
    assert "op 'reader' (#1) runs, started" in text
    assert "op 'scale' (#2) waits for 'x', which op 'reader' (#1) writes" in text
