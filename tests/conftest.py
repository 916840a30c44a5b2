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


def pytest_collection_modifyitems(items):
    for item in items if LAZY else ():
        if marker := item.get_closest_marker("eager"):
            item.add_marker(pytest.mark.skip(reason=f"lazy() may change it: {marker.args[0]}"))


def pytest_collection_finish(session):
    """Tens of thousands of tests are millions of objects, through which every `gc.collect()` of a test would go."""
    gc.collect()
    gc.freeze()


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
