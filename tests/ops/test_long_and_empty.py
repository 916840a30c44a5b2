"""An axis of 2^31 beside one of 0 is no work: every op of the table comes back at once, forward and backward."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS.parent / "tools")))}

CHILD = """
import faulthandler, resource, sys
import numpy as np
from support.table import OPS, arrays, call, tensors
import flambeau as fl

LONG = 2**31 - 1
with open("/proc/self/statm") as numbers:
    mapped = int(numbers.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + LONG // 2,) * 2)  # what would fill such an axis, if with bytes, is refused
FORMS = [{0: LONG, -1: 0}, {0: 0, -1: LONG}, {0: LONG, 1: 0}]


def attempt(op, plain, form):
    args = tensors(op, plain)
    for name, value in plain.items():
        if isinstance(value, np.ndarray) and value.ndim > 1:
            sizes = list(value.shape)
            for axis, size in form.items():
                sizes[axis] = size
            x = fl.empty(sizes, dtype=args[name].dtype)
            args[name] = x.requires_grad_() if x.is_floating_point() else x
    outs = [y for y in call(op, args) if isinstance(y, fl.Tensor) and y.requires_grad]
    if outs:
        fl.autograd.backward(outs, [fl.ones_like(y) for y in outs])


done = refused = 0
for op in OPS:
    for index in range(len(op.get("samples", []))):
        plain = arrays(op, index)
        if not any(isinstance(v, np.ndarray) and v.ndim > 1 for v in plain.values()):
            continue
        for form in FORMS:
            print(op.ident, index, form, file=sys.stderr, flush=True)
            faulthandler.dump_traceback_later(20, exit=True)
            try:
                attempt(op, plain, form)
                done += 1
            except (RuntimeError, TypeError, ValueError, IndexError, MemoryError):
                refused += 1
            faulthandler.cancel_dump_traceback_later()
print(done, refused)
"""


@pytest.mark.slow
def test_no_op_counts_to_two_billion_for_nothing():
    run = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=TESTS, env=ENVIRONMENT, capture_output=True, text=True, timeout=240, check=False
    )
    last = [line for line in run.stderr.splitlines() if not line.startswith(("  File", "Thread", "Timeout"))][-1:]
    assert run.returncode == 0, f"{last}\n{run.stderr[-2000:]}"
    done, refused = map(int, run.stdout.split())
    assert done > 400 and done + refused > 900
