"""What all tests of pipelines have around them."""

from __future__ import annotations

import faulthandler
import threading

import pytest

import flambeau as fl


@pytest.fixture(autouse=True)
def watchdog():
    """A hang ends the tests with the stacks of all threads."""
    fl.manual_seed(0)
    threads = threading.active_count()
    faulthandler.dump_traceback_later(120, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    assert threading.active_count() == threads
