"""Ops along an axis of tensors without elements, over guard pages."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import flambeau as fl

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "support" / "guarded_empty.py"


def test_ops_of_nothing_write_nothing():
    """Lines without columns are no lines: a scan of [3, 0] along its first axis wrote three elements."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, "FLAMBEAU_ALLOCATOR": "guard"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    last = (done.stdout.splitlines() or ["nothing"])[-1]
    assert done.returncode == 0, f"{last}: ended with {done.returncode}\n{done.stderr[-2000:]}"
    assert last.endswith(" calls") and int(last.split()[0]) > 1000


@pytest.mark.parametrize("op", ["sort", "argsort", "cumsum", "cummax", "logcumsumexp"])
def test_many_lines_of_nothing_take_no_time(op):
    out = getattr(fl, op)(fl.empty(0, 4, 2**32), 0)
    assert (out[0] if isinstance(out, tuple) else out).shape == (0, 4, 2**32)
