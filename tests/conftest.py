"""What every test shares: the helpers of tests/support, the op table's reader, and a known starting state."""

from __future__ import annotations

import gc
import itertools
import os
import pathlib
import signal
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE, HERE / "ops", HERE.parent / "tools"):  # `support.*`, `references`, `opgen.*`
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import flambeau as fl  # noqa: E402

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # only some folders use it
    pass
else:
    settings.register_profile(
        "flambeau", deadline=None, max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    settings.load_profile("flambeau")


# A job in the background is started with Ctrl-C ignored, and so would be the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LAZY = os.environ.get("FLAMBEAU_TEST_LAZY") == "1"
DONE = itertools.count(1)

# Collecting tests makes millions of objects, none of which is garbage. With pytest-xdist the process that the workers report to collects
# none, and keeps the reports: there it stays off.
gc.disable()


def pytest_configure(config):
    option = config.option
    if hasattr(config, "workerinput") and option.verbose <= 0 and option.durations is None and not option.xmlpath:
        workers = (p for p in config.pluginmanager.get_plugins() if type(p).__name__ == "WorkerInteractor")
        for worker in list(workers):
            config.pluginmanager.register(ShortReports(worker))


class ShortReports:
    """Of a test that passes a worker of pytest-xdist tells its controller two things instead of six: that it passed, and that it is done.

    Tens of thousands of tests take a millisecond, and the other messages, that setup and teardown passed, took twice as much.
    """

    def __init__(self, worker):
        self._send = worker.sendevent
        worker.sendevent = self._send_if_told

    def _send_if_told(self, name, **kwargs):
        if name in ("logstart", "logfinish") or (name == "testreport" and "nodeid" not in kwargs["data"]):
            return
        self._send(name, **kwargs)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(self, report):
        if isinstance(report, pytest.TestReport) and report.passed:
            if report.when != "call":
                return {}
            report.keywords = {}  # for reports of skipped and failed tests alone
        return None


# ---- tests that are slow and not marked so

SLOW_SECONDS = 1.0  # of processors, with those of the processes that a test starts; other work on the machine does not count
_unmarked: list[str] = []


def _processor_seconds():
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    before = _processor_seconds()
    result = yield
    took, marked = _processor_seconds() - before, any(item.get_closest_marker(name) for name in ("slow", "large"))
    if took > SLOW_SECONDS and not marked and not {"parity", "packages"} & set(item.path.parts):  # those are apart, and all are run
        _unmarked.append(f"{item.nodeid}: {took:.1f} s")
    return result


def pytest_sessionfinish(session):
    """To the process that all workers of pytest-xdist report to."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["unmarked"] = _unmarked


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    _unmarked.extend(getattr(node, "workeroutput", {}).get("unmarked", ()))


def pytest_terminal_summary(terminalreporter):
    if _unmarked:
        terminalreporter.section("slow tests without the marker `slow` (CONTRIBUTING.md)")
        for line in sorted(_unmarked):
            terminalreporter.line(line)


def pytest_collection_modifyitems(items):
    for item in items if LAZY else ():
        if marker := item.get_closest_marker("eager"):
            item.add_marker(pytest.mark.skip(reason=f"lazy() may change it: {marker.args[0]}"))


def pytest_collection_finish(session):
    """Tens of thousands of tests are millions of objects, through which every `gc.collect()` of a test would go."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """So would it through what tests before have imported and left, as each recording of a graph does."""
    if next(DONE) % 100 == 0 or (nextitem is not None and nextitem.path != item.path):
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def _known_state():
    """Every test starts from the same seed and leaves modes, threads and the default type as they were."""
    fl.manual_seed(0)
    threads, dtype = fl.get_num_threads(), fl.get_default_dtype()
    # With FLAMBEAU_TEST_LAZY=1 every test runs while its thread records: nobody should notice (`make variants`).
    if LAZY:
        with fl.lazy():
            yield
    else:
        yield
    if fl.get_num_threads() != threads:
        fl.set_num_threads(threads)
    fl.set_default_dtype(dtype)
    fl.set_grad_enabled(True)
