"""How many functions a small call of a function in Python takes, once warm: for small tensors these are what it costs.

They are counted in a process of their own, since functions look for `__torch_function__` from the first subclass that has one on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# What is called -> calls of functions, Python's and native ones, that it may take.
MOST = {
    "F.interpolate(image, scale_factor=2, mode='bilinear')": 20,
    "F.interpolate(image, scale_factor=2)": 20,
    "F.interpolate(image, size=3, mode='bicubic', antialias=True)": 20,
    "F.avg_pool3d(volume, 2)": 18,
    "F.adaptive_max_pool3d(volume, 2)": 30,
    "fl.broadcast_tensors(x, r)": 22,
    "coo + coo": 45,
    "coo @ x": 25,
    "coo.t()": 35,
    "coo.to_dense()": 11,
    "fl.movedim(image, 1, -1)": 10,
    "fl.diag(r)": 15,
    "fl.diag_embed(r)": 12,
    "r.diagflat()": 18,
    "x.tensor_split(4)": 21,
    "fl.hstack([x, x])": 12,
    "x.is_set_to(x)": 9,
    "x.untyped_storage()": 19,
    "x.frexp()": 16,
    "fl.linalg.matrix_norm(x)": 15,
    "fl.linalg.multi_dot([x, x])": 18,
    "fl.fft.fft(x)": 10,
    "fl.fft.fft(u, norm='ortho')": 10,
    "fl.fft.irfft(u, n=8)": 10,
    "fl.fft.fftn(u)": 10,
    "fl.fft.rfft2(x)": 10,
    "fl.fft.irfft2(u)": 10,
    "fl.fft.hfft(u)": 10,
    "fl.fft.ihfft2(x)": 10,
}

PROGRAM = """
import json, sys
import flambeau as fl
from flambeau.nn import functional as F

x, r, image, volume = fl.randn(8, 8), fl.randn(8), fl.randn(2, 4, 4, 4), fl.randn(2, 4, 4, 4, 4)
u, coo = fl.complex(x, x), (x * (x > 0)).to_sparse()

def steps(statement):
    code, found = compile(statement, "call", "eval"), 0

    def count(frame, event, arg):
        nonlocal found
        found += event in ("call", "c_call")

    for _ in range(2):  # a first call imports and keeps
        eval(code, globals())
    sys.setprofile(count)
    try:
        eval(code, globals())
    finally:
        sys.setprofile(None)
    return found - 2  # eval, setprofile

print(json.dumps({statement: steps(statement) for statement in json.loads(sys.argv[1])}))
"""


@pytest.fixture(scope="module")
def steps():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "FLAMBEAU_TEST_LAZY": "0"}
    program = [sys.executable, "-W", "ignore", "-c", PROGRAM, json.dumps(list(MOST))]
    done = subprocess.run(program, env=env, timeout=120, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("statement", MOST)
def test_a_small_call_takes_few_steps(steps, statement):
    assert steps[statement] <= MOST[statement]
