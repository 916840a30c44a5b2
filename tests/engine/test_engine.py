"""Dependencies, errors, waits and bulks, from Python. csrc/tests/engine_test.cpp has the same in volume."""

from __future__ import annotations

import faulthandler
import gc
import random
import threading
import weakref

import pytest

import flambeau as fl
from flambeau import engine
from flambeau.engine import EngineError, EngineErrorGroup, Var


@pytest.fixture(autouse=True)
def _limit():
    """What hangs is ended, and no error is left for the next test."""
    faulthandler.dump_traceback_later(120, exit=True)
    workers = engine.get_workers()
    yield
    engine.set_engine("threaded")
    try:
        engine.wait_all()
    except EngineErrorGroup:
        pass
    engine.set_workers(workers)
    faulthandler.cancel_dump_traceback_later()


def boom():
    raise ValueError("boom")


def nothing():
    pass


# ---- order

@pytest.mark.parametrize("name", ["threaded", "naive"])
@pytest.mark.parametrize("seed", range(4))
def test_random_programs_are_serial_programs(name, seed):
    rng = random.Random(seed)
    engine.set_engine(name)
    for _ in range(50):
        n = rng.randint(1, 5)
        steps = [
            ([rng.randrange(n) for _ in range(rng.randint(0, 3))], [rng.randrange(n) for _ in range(rng.randint(0, 2))], rng.choice([0, 0, 5, -3]))
            for _ in range(20)
        ]

        def apply(values, number, reads, writes):
            total = number
            for r in reads:
                total = total * 31 + values[r]
            for w in writes:
                values[w] = (values[w] * 1_000_003 + total) % (1 << 61)

        serial, parallel, variables = [1] * n, [1] * n, [Var(str(i)) for i in range(n)]
        for number, (reads, writes, _) in enumerate(steps):
            apply(serial, number, reads, writes)
        with engine.bulk(rng.randint(1, 6)):
            for number, (reads, writes, priority) in enumerate(steps):
                engine.push(
                    lambda number=number, reads=reads, writes=writes: apply(parallel, number, reads, writes),
                    [variables[r] for r in reads],
                    [variables[w] for w in writes],
                    priority=priority,
                )
        engine.wait_all()
        assert parallel == serial


@pytest.mark.parametrize("name", ["threaded", "naive"])
def test_two_threads_copy_both_ways(name):
    engine.set_engine(name)
    x, y, values = Var("x"), Var("y"), {"x": 1, "y": 2}

    def copies(source, target, a, b):
        for _ in range(2000):
            engine.push(lambda: values.__setitem__(b, values[a]), [source], [target])

    threads = [threading.Thread(target=copies, args=args) for args in ((x, y, "x", "y"), (y, x, "y", "x"))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    engine.wait_all()
    assert values["x"] == values["y"] and x.version == y.version == 2000


def test_tensors_are_computed_on_one_core_or_on_all():
    x, results = fl.rand(300, 300), {}
    a, b, c = Var(), Var(), Var()
    engine.push(lambda: results.update(a=x @ x), writes=[a], omp=True)
    engine.push(lambda: results.update(b=x.exp().sum(), threads=fl.get_num_threads()), writes=[b])
    engine.push(lambda: results.update(c=results["a"] + results["b"]), reads=[a, b], writes=[c])
    engine.wait_for_var(c)
    assert results["threads"] == 1
    assert fl.allclose(results["c"], x @ x + x.exp().sum())


def test_null_runs_nothing():
    x = Var("x")
    with engine.set_engine("null"):
        for _ in range(10):
            engine.push(boom, writes=[x])
        engine.wait_all()
    assert engine.get_engine() == "threaded" and x.version == 10 and x.error is None


# ---- errors

def test_an_error_names_op_line_cause_and_chain():
    x, y = Var("x"), Var("y")
    engine.push(boom, writes=[x], name="load")
    engine.push(nothing, [x], [y], name="double")
    for _ in range(2):  # sticky
        with pytest.raises(EngineError, match=r"op 'load' \(#\d+\), pushed at .*test_engine.py:\d+, in test_an_error") as caught:
            engine.wait_for_var(y)
    error = caught.value
    assert isinstance(error.__cause__, ValueError) and str(error.__cause__) == "boom"
    assert "skipped: op 'double'" in str(error) and "which reads 'x'" in str(error)
    assert error.op == "load" and [(op, through) for op, _, through in error.chain] == [("double", "x")]
    assert "in boom" in error.traceback and "engine.push(boom" in error.line
    assert y.error.op == "load" and "with an error" in repr(y)


def test_an_error_in_the_middle_of_a_chain():
    x, ran = Var("x"), []
    for i in range(10):
        engine.push(boom if i == 4 else lambda i=i: ran.append(i), [x], [x])
    with pytest.raises(EngineError, match="boom"):
        engine.wait_for_var(x)
    assert ran == [0, 1, 2, 3]
    engine.push(lambda: ran.append(10), writes=[x])  # of the whole, without reading
    engine.wait_for_var(x)
    assert ran[-1] == 10 and x.error is None


def test_a_partial_write_clears_nothing():
    x = Var("x")
    engine.push(boom, writes=[x])
    engine.push(nothing, partial_writes=[x])
    with pytest.raises(EngineError, match="boom"):
        engine.wait_for_var(x)


def test_wait_all_lists_what_nobody_was_told():
    x, y, z = Var("x"), Var("y"), Var("z")
    for v in (x, y, z):
        engine.push(boom, writes=[v], name=f"write {v.name}")
    with pytest.raises(EngineError):
        engine.wait_for_var(z)
    with pytest.raises(EngineErrorGroup, match="2 ops of the engine have failed") as caught:
        engine.wait_all()
    assert {e.op for e in caught.value.errors} == {"write x", "write y"}
    assert all(isinstance(e.__cause__, ValueError) for e in caught.value.errors)
    engine.wait_all()
    with pytest.raises(EngineError):
        engine.wait_for_var(x)


def test_naive_pushes_raise():
    with engine.set_engine("naive"):
        x, y = Var("x"), Var("y")
        with pytest.raises(EngineError, match="boom"):
            engine.push(boom, writes=[x])
        with pytest.raises(EngineError, match="skipped"):
            engine.push(nothing, [x], [y])

        def interrupted():
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            engine.push(interrupted, writes=[x])


@pytest.mark.parametrize("name", ["threaded", "naive"])
def test_waiting_inside_of_an_op_is_refused(name):
    engine.set_engine(name)
    x = Var("x")
    for wait in (engine.wait_all, lambda: engine.wait_for_var(x), lambda: engine.set_engine("null"), lambda: engine.set_workers(3)):
        with pytest.raises(EngineError, match="inside of op 'asks'"):
            engine.push(wait, writes=[x], name="asks")
            engine.wait_for_var(x)
    assert engine.get_engine() == name


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: engine.push(3), TypeError, "push: fn is a int; expected a function"),
        (lambda: engine.push(nothing, reads=[1]), TypeError, r"push: reads\[0\] is a int; expected a Var"),
        (lambda: engine.push(nothing, writes=Var()), TypeError, "push: writes is a Var; expected a list of Vars"),
        (lambda: engine.push(nothing, device="cuda"), fl.DeviceError, "push: device = 'cuda"),
        (lambda: engine.set_engine("fast"), ValueError, "set_engine: name = 'fast'; expected 'threaded'"),
        (lambda: engine.set_workers(0), ValueError, "set_workers: workers = 0; expected 1"),
        (lambda: engine.set_workers(-1), ValueError, "set_workers: workers = -1; expected 1 to 1024"),
        (lambda: engine.set_workers("two"), TypeError, "set_workers: workers is a str"),
        (lambda: engine.set_engine(None), TypeError, "set_engine: name is a NoneType"),
        (lambda: engine.push(nothing, priority=1.5), TypeError, "push: priority is a float"),
        (lambda: engine.push(nothing, priority=2**40), ValueError, f"push: priority = {2**40}"),
        (lambda: engine.push(nothing, name=3), TypeError, "push: name is a int"),
        (lambda: engine.wait_for_var(None), TypeError, "wait_for_var: var is a NoneType; expected a Var"),
        (lambda: engine.wait_to_write(1), TypeError, "wait_to_write: var is a int; expected a Var"),
        (lambda: engine.set_watchdog("x"), TypeError, "set_watchdog: seconds is a str"),
        (lambda: Var(3), TypeError, "Var: name is a int"),
        (lambda: engine.bulk(0), ValueError, "bulk: n = 0; expected 1"),
        (lambda: engine.bulk(1.5), TypeError, "bulk: n is a float"),
        (lambda: engine.set_watchdog(-1), ValueError, "set_watchdog: seconds = -1"),
        (lambda: engine.temp_space(-1), ValueError, "temp_space: size_bytes = -1"),
        (lambda: engine.temp_space(1.5), ValueError, r"temp_space: size_bytes = 1.5; expected a whole number from 0 to 2\^63 - 1"),
        (lambda: engine.temp_space(2**63), ValueError, "temp_space: size_bytes = 9223372036854775808"),
        (lambda: engine.temp_space(None), ValueError, "temp_space: size_bytes = None"),
        (lambda: engine.random_var(3), TypeError, "random_var: generator is a int"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


# ---- asynchronous ops

@pytest.mark.parametrize("name", ["threaded", "naive"])
def test_completion_from_foreign_threads(name):
    engine.set_engine(name)
    x, order, threads = Var("x"), [], []

    def start(on_complete):
        threads.append(threading.Thread(target=lambda: (order.append("a"), on_complete())))
        threads[-1].start()

    for _ in range(20):
        engine.push_async(start, writes=[x])
        engine.push(lambda: order.append("b"), writes=[x])
    engine.wait_for_var(x)
    assert "".join(order) == "ab" * 20
    for t in threads:
        t.join()


def test_completions_are_called_once():
    x, kept = Var("x"), []
    engine.push_async(lambda on_complete: (kept.append(on_complete), on_complete()), writes=[x], name="copy")
    engine.wait_for_var(x)
    with pytest.raises(EngineError, match="op 'copy' .* was completed before; expected one call"):
        kept[0]()
    with pytest.raises(TypeError, match="on_complete: error is a str"):
        kept[0]("no")


def test_failed_completions():
    x = Var("x")
    engine.push_async(lambda on_complete: on_complete(OSError("no link")), writes=[x])
    with pytest.raises(EngineError, match="no link") as caught:
        engine.wait_for_var(x)
    assert isinstance(caught.value.__cause__, OSError)
    engine.push_async(lambda on_complete: None, writes=[x])
    with pytest.raises(EngineError, match="dropped before it was called"):
        engine.wait_for_var(x)


# ---- bulks, waits and what is owned

def test_bulks_are_seen_by_waits_of_other_threads():
    x, values = Var("x"), []
    with engine.bulk(100):
        for i in range(5):
            engine.push(lambda i=i: values.append(i), writes=[x])
        for wait in (lambda: engine.wait_for_var(x), engine.wait_all):
            engine.push(lambda: values.append(9), writes=[x])
            seen = []
            t = threading.Thread(target=lambda wait=wait, seen=seen: (wait(), seen.append(len(values))))
            t.start()
            t.join()
            assert seen == [len(values)] and values[-1] == 9
    assert values == [0, 1, 2, 3, 4, 9, 9]


def test_a_bulk_ends_with_its_scope_and_its_ops_fail_alone():
    x, y, z, before = Var("x"), Var("y"), Var("z"), engine.stats()["bulks"]
    with engine.bulk(100):
        engine.push(nothing, writes=[x])
        engine.push(boom, writes=[y], name="bad")
        engine.push(nothing, [y], [z])
    engine.wait_for_var(x)
    with pytest.raises(EngineError, match="op 'bad'"):
        engine.wait_for_var(z)
    assert engine.stats()["bulks"] == before + 1


def test_a_bulk_left_on_another_thread_is_refused():
    scope, errors = engine.bulk(3), []

    def leave():
        with pytest.raises(EngineError, match="left on another thread"):
            scope.__exit__(None, None, None)
        errors.append(1)

    with scope:
        t = threading.Thread(target=leave)
        t.start()
        t.join()
        with pytest.raises(EngineError, match="entered twice"):
            scope.__enter__()
    assert errors == [1]


def test_vars_may_go_while_ops_are_pending():
    ran, door = [], threading.Event()
    x = Var("x")
    engine.push(door.wait, writes=[x])
    for i in range(100):
        engine.push(lambda i=i: ran.append(i), writes=[x])
    del x
    gc.collect()
    door.set()
    engine.wait_all()
    assert ran == list(range(100))


def test_nothing_is_kept_of_what_was_run_or_has_failed():
    class Thing:
        pass

    gone = []

    def use():
        thing, x = Thing(), Var("x")
        gone.extend([weakref.ref(thing), weakref.ref(x)])

        def fails():
            assert thing
            boom_here = x  # the traceback would keep the Var that keeps the error
            raise ValueError(str(boom_here))

        engine.push(lambda: thing, writes=[x])
        engine.push(fails, writes=[x])
        engine.push(lambda: thing, [x], [x])
        with pytest.raises(EngineError):
            engine.wait_for_var(x)

    gc.disable()
    try:
        use()
        engine.set_workers(2)  # the threads have dropped what they had
        gc.collect()  # pytest.raises keeps frames in cycles
    finally:
        gc.enable()
    assert [r() for r in gone] == [None, None]


def test_draws_from_a_generator_are_in_the_order_of_their_pushes():
    def draws(name):
        generator = fl.Generator().manual_seed(3)
        g, results = engine.random_var(generator), [None] * 20
        assert g == engine.random_var(generator) and g != engine.random_var()
        with engine.set_engine(name):
            for i in range(20):
                engine.push(lambda i=i: results.__setitem__(i, fl.rand(3, generator=generator).tolist()), writes=[g], priority=i)
            engine.wait_all()
        return results

    assert draws("threaded") == draws("naive")


def test_temp_space_is_used_by_one_op_at_a_time():
    results = []

    def use(space, i):
        memory = space.tensor()
        assert memory.shape == (space.size_bytes,) and memory.dtype == fl.uint8
        memory.fill_(i)
        results.append(bool((memory == i).all()))

    for i in range(40):
        space = engine.temp_space(1000 * (1 + i % 3))
        engine.push(lambda space=space, i=i: use(space, i), writes=[space.var])
    engine.wait_all()
    assert results == [True] * 40


@pytest.mark.parametrize("region", [lambda: fl.device("meta"), fl.inference_mode], ids=["meta", "inference"])
def test_temp_space_is_the_same_whoever_makes_it(region):
    """It is kept for others, who know nothing of the region in which it was asked for."""
    size = max(copy.memory.numel() if copy.memory is not None else 0 for copy in (engine.temp_space(0)._copy for _ in range(4))) + 4
    for _ in range(4):
        space = engine.temp_space(size - size % 4 + 4)
        with region():
            space.tensor()
        memory = space.tensor().zero_().view(fl.float32)
        x = fl.ones(memory.shape, requires_grad=True)
        (x * memory).sum().backward()
        assert memory.device.type == "cpu" and x.grad.sum() == 0


def test_pending_and_stats():
    x, y, door, started = Var("x"), Var("y"), threading.Event(), threading.Event()
    engine.push(lambda: (started.set(), door.wait()), writes=[x], name="reader")
    engine.push(nothing, [x], [y], name="scale")
    started.wait()
    text = engine.pending()
    assert "op 'reader'" in text and "runs, started" in text and "waits for 'x', which op 'reader'" in text
    assert "was pushed at" in text and "test_engine.py" in text
    assert engine.stats()["pending"] == 2 and engine.stats()["running"] == 1
    door.set()
    engine.wait_to_write(x)
    engine.wait_all()
    assert engine.pending() == "" and engine.stats()["pending"] == 0
