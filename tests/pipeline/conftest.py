"""What all tests of pipelines have around them."""

from __future__ import annotations

import faulthandler
import threading

import pytest
from support.cuts import cut_by_size

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
def by_size(monkeypatch):
    """See `cut_by_size`: for the tests alone."""
    monkeypatch.setitem(split.__kwdefaults__, "by", split.__kwdefaults__["by"])
    cut_by_size()
