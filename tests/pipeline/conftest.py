"""What all tests of pipelines have around them."""

from __future__ import annotations

import faulthandler
import threading

import pytest

import flambeau as fl
from flambeau.pipeline._cut import split


@pytest.fixture(autouse=True)
def watchdog():
    """A hang ends the tests with the stacks of all threads."""
    fl.manual_seed(0)
    threads = threading.active_count()
    faulthandler.dump_traceback_later(120, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    assert threading.active_count() == threads


@pytest.fixture(autouse=True)
def measured_once(monkeypatch):
    """`split` takes the time of each op once, and not for a second, where it is not told otherwise: a pipeline does not."""
    monkeypatch.setitem(split.__kwdefaults__, "seconds", 0.0)
