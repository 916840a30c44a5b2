"""A short run of the random caller, and the caller itself."""

from __future__ import annotations

import ast
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from fuzz.calls import Calls, Values
from fuzz.catalogue import catalogue
from fuzz.patience import Patience
from fuzz.shrink import smaller

TESTS = pathlib.Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "tools")])}


@pytest.fixture(scope="module")
def calls():
    return Calls(catalogue(), seed=20)


def fuzz(*arguments):
    return subprocess.run([sys.executable, "-m", "fuzz", *arguments], cwd=TESTS, capture_output=True, text=True, timeout=300, env=ENVIRONMENT)


@pytest.mark.slow
def test_random_calls_neither_crash_nor_hang():
    """Wrong calls raise what callers may see; `--replay` with the printed number makes one of them again."""
    done = fuzz("--seed", "20", "--calls", "3000", "--batch", "3000")
    assert done.returncode == 0, done.stdout
    assert "3000 calls, 0 findings" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("mode, calls", [("lazy", "2000"), ("replay", "1000")])
def test_recorded_calls_end_as_eager_ones(mode, calls):
    done = fuzz("--mode", mode, "--seed", "20", "--calls", calls, "--batch", calls)
    assert done.returncode == 0, done.stdout
    assert f"{calls} calls, 0 findings" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lazy", "replay"])
def test_a_call_that_a_mode_changes_is_a_finding(mode):
    done = fuzz("--mode", mode, "--plain", "--text", "r = 1.0 if getattr(fl.compiler, 'is_' + 'compiling')() else 2.0")
    assert done.returncode == 1 and f"{mode}, run " in done.stdout, done.stdout


@pytest.mark.slow
def test_calls_depend_on_seed_and_number_alone(calls):
    again = Calls(catalogue(), seed=20)
    assert [calls.text(i) for i in range(60)] == [again.text(i) for i in range(60)]
    assert [calls.text(i) for i in range(50)] != [Calls(catalogue(), seed=21).text(i) for i in range(50)]


@pytest.mark.slow
def test_every_op_and_method_is_called(calls):
    """The stub was understood: every name in it becomes a call, with values for what it must have."""
    names = {t.name for t in calls.targets}
    assert {"fl.add", ".add_", "fl.nonzero", ".shape", ".resize_", "F.conv2d", "fl.einsum", "fl.tensor"} <= names
    assert len(names) > 800
    values = Values(random.Random(0))
    for target in calls.targets:
        ast.parse(values.call(target), mode="eval")


def test_only_what_is_asked_for():
    some = Calls(catalogue(), seed=20, only="conv2d")
    assert all("conv2d" in some.text(i) for i in range(50) if " = F." in some.text(i))
    assert {t.name for t in some.targets} == {"fl.conv2d", "F.conv2d", "ops.conv2d", "fl.nn.utils.convert_conv2d_weight_memory_format"}
    assert {"ops.conv_backward_data", "ops.add_"} <= {t.name for t in Calls(catalogue(), seed=20, only="^ops").targets}
    with pytest.raises(ValueError, match="nothing that is called matches 'no such op'"):
        Calls(catalogue(), seed=20, only="no such op")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text, says",
    [
        ("import os; os.abort()", "died of SIGABRT"),
        ("raise SystemError('bad')", "SystemError: bad"),
        ("raise ValueError('std::bad_alloc')", "ValueError: std::bad_alloc"),
        ("undefined_name", "NameError"),
        ("r = fl.nn.init._calculate_fan_in_and_fan_out(3)", "AttributeError: 'int' object"),
        ("raise ValueError('a shape')", "ends well"),
    ],
)
def test_what_is_a_finding(text, says):
    done = fuzz("--text", text, "--plain")
    assert says in done.stdout
    assert done.returncode == (says != "ends well")


@pytest.mark.slow
@pytest.mark.parametrize("code", ["import time; time.sleep(60)", "while True: pass", "import os, time; os.fork() or time.sleep(60); os.wait()"])
def test_time_that_a_process_has_is_counted_and_no_other(code):
    with subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True) as process:
        try:
            patience = Patience(process.pid)
            assert waited(patience, 20, until=0.3) >= 0.3
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            patience.restart()
            assert waited(patience, 0.4) < 0.05
            process.send_signal(signal.SIGCONT)
            assert waited(patience, 20, until=0.3) >= 0.3
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def waited(patience, seconds, until=float("inf")):
    end = time.monotonic() + seconds
    while patience.look() < until and time.monotonic() < end:
        time.sleep(0.05)
    return patience.look()


@pytest.mark.slow
def test_a_module_without_sanitizer_is_not_taken_for_one():
    done = fuzz("--sanitizer", "--calls", "10")
    assert done.returncode == 2 and done.stdout.startswith("not sanitized: ") and "10 calls" not in done.stdout


def test_smaller_keeps_what_fails():
    found = smaller("r = fl.add(T((2, 3), 'int8', how='meta'), b=T((4,)), alpha=2)", lambda text: "meta" in text and "fl.add" in text)
    ast.parse(found)
    assert "meta" in found and "alpha" not in found
