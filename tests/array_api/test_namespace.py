"""How other libraries find and use the array API: `__array_namespace__`, its information, SciPy, einops, array-api-compat, NumPy."""

from __future__ import annotations

import array
import os
import subprocess
import sys

import array_api_compat
import einops.array_api
import numpy as np
import pytest

import flambeau as fl

xp = fl.array_api


def test_namespace_of_a_tensor():
    x = fl.ones(2)
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="api_version = '1999.01'; expected None or one of 2021.12"):
        x.__array_namespace__(api_version="1999.01")
    assert array_api_compat.array_namespace(x) is xp and array_api_compat.is_array_api_obj(x)
    assert array_api_compat.size(x) == 2 and array_api_compat.device(x) == x.device


def test_to_device():
    x = fl.ones(2)
    assert x.to_device("cpu") is x and x.to_device(x.device) is x
    with pytest.raises(ValueError, match="stream has no meaning on the CPU"):
        x.to_device("cpu", stream=1)


def test_information():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    with pytest.raises(ValueError, match="expected at most 64"):
        fl.zeros([1] * 65)
    assert info.default_device() == fl.ones(1).device and info.default_device() in info.devices()
    assert info.default_dtypes() == {"real floating": fl.float32, "complex floating": fl.complex64, "integral": fl.int64, "indexing": fl.int64}
    assert info.dtypes(kind="complex floating") == {"complex64": fl.complex64, "complex128": fl.complex128}
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {"bool", "uint8", "uint16", "uint32", "uint64"} and len(info.dtypes()) == 13
    assert all(getattr(xp, name) is dtype for name, dtype in info.dtypes().items())


def test_gradients_go_through():
    x = fl.tensor([[2.0, 1.0], [1.0, 3.0]]).requires_grad_()
    xp.sum(xp.square(xp.linalg.inv(x))).backward()
    y = x.detach().clone().requires_grad_()
    fl.linalg.inv(y).square().sum().backward()
    assert fl.allclose(x.grad, y.grad)


REFUSED = [
    (lambda: xp.sin(fl.tensor([1])), fl.DTypeError, "sin: x is flambeau.int64; expected real floating or complex floating"),
    (lambda: xp.add(fl.tensor([True]), fl.tensor([1])), fl.DTypeError, "add: x is flambeau.bool; expected numeric"),
    (lambda: xp.max(fl.ones(0)), ValueError, "expected at least one element"),
    (lambda: xp.argmax(fl.ones(0, 2), axis=0), ValueError, "expected at least one element"),
    (lambda: xp.sum(fl.ones(2, 2), axis=(0, -2)), ValueError, "names an axis of x"),
    (lambda: xp.sum(fl.ones(2, 2), axis=2), IndexError, "expected -2 <= axis < 2"),
    (lambda: xp.cumulative_sum(fl.ones(2, 2)), ValueError, "axis = None; expected an axis"),
    (lambda: xp.take(fl.ones(2, 2), fl.tensor([0])), ValueError, "axis = None; expected an axis"),
    (lambda: xp.take(fl.ones(2), fl.tensor([2])), IndexError, "2"),
    (lambda: xp.take(fl.ones(2, 2), fl.tensor([0]), axis=2), IndexError, "take: axis = 2, but x has shape"),
    (lambda: xp.take_along_axis(fl.ones(2, 2), fl.tensor([[0]]), axis=-3), IndexError, "take_along_axis: axis = -3, but x has shape"),
    (lambda: xp.squeeze(fl.ones(2), 0), ValueError, "expected axes of size 1"),
    (lambda: xp.nonzero(fl.tensor(1)), ValueError, "x is 0-d"),
    (lambda: xp.astype(fl.ones(2, dtype=fl.complex64), xp.float32), fl.DTypeError, "expected a complex type"),
    (lambda: xp.searchsorted(fl.ones(2), fl.ones(2), side="middle"), ValueError, "side = 'middle'"),
    (lambda: xp.result_type(1, 2.0), ValueError, "2 numbers and no tensor"),
    (lambda: xp.reshape(fl.ones(2, 3).mT, (6,), copy=False), fl.ShapeError, "view"),
    (lambda: xp.meshgrid(fl.ones(2), fl.tensor([1])), fl.DTypeError, "expected one type"),
    (lambda: xp.linalg.qr(fl.eye(2), mode="r"), ValueError, "expected 'reduced' or 'complete'"),
    (lambda: xp.linalg.outer(fl.eye(2), fl.ones(2)), fl.ShapeError, "expected vectors"),
    (lambda: xp.vecdot(fl.ones(2), fl.ones(3)), fl.ShapeError, "expected one size"),
    (lambda: xp.matrix_transpose(fl.ones(2)), fl.ShapeError, "expected at least two axes"),
    (lambda: xp.diff(fl.ones(2), n=-1), ValueError, "n = -1"),
]  # fmt: skip


@pytest.mark.eager("the moment at which an error is raised")
@pytest.mark.parametrize("call, kind, text", REFUSED, ids=range(len(REFUSED)))
def test_refused(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_copies():
    x = fl.ones(2, 3)
    assert xp.astype(x, fl.float32, copy=False) is x and xp.astype(x, fl.float32) is not x
    view = xp.reshape(x, (6,), copy=False)
    view[0] = 7.0
    assert x[0, 0].item() == 7.0
    xp.reshape(x, (6,), copy=True)[0] = 1.0
    assert x[0, 0].item() == 7.0
    shared = xp.from_dlpack(np.zeros(2))
    assert shared.dtype is fl.float64 and xp.asarray(x, copy=True).data_ptr() != x.data_ptr() == xp.asarray(x).data_ptr()
    numbers = array.array("i", [1, 2])
    of_a_buffer = xp.asarray(numbers, copy=False)
    numbers[0] = 5
    assert of_a_buffer.dtype is fl.int32 and of_a_buffer.tolist() == [5, 2]


def test_meshgrid_as_numpy():
    for sizes in ((2, 3), (2, 3, 4), (2,)):
        for indexing in ("ij", "xy"):
            parts = [np.arange(s) for s in sizes]
            want = np.meshgrid(*parts, indexing=indexing)
            assert [g.tolist() for g in fl.meshgrid(*map(fl.tensor, parts), indexing=indexing)] == [w.tolist() for w in want]


# ---------------------------------------------------------------------------------------- other libraries


def test_einops():
    x = fl.arange(24).reshape(2, 3, 4).float()
    assert fl.equal(einops.array_api.rearrange(x, "a b c -> (a c) b"), x.permute(0, 2, 1).reshape(8, 3))
    assert fl.equal(einops.array_api.reduce(x, "a b c -> b", "sum"), x.sum((0, 2)))
    assert fl.equal(einops.array_api.repeat(x, "a b c -> a b c d", d=2), x.unsqueeze(-1).expand(2, 3, 4, 2))


SCIPY = """
import numpy as np, scipy.special, scipy.stats, scipy.integrate, flambeau as fl
x = fl.tensor([0.5, 1.5, 4.0, 2.0], dtype=fl.float64)
for got, want in (
    (scipy.special.logsumexp(x), scipy.special.logsumexp(x.numpy())),
    (scipy.stats.skew(x), scipy.stats.skew(x.numpy())),
    (scipy.stats.gmean(x), scipy.stats.gmean(x.numpy())),
    (scipy.integrate.trapezoid(x), scipy.integrate.trapezoid(x.numpy())),
):
    assert isinstance(got, fl.Tensor) and abs(got.item() - want) < 1e-12, (got, want)
"""


@pytest.mark.slow
def test_scipy_dispatches():
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", SCIPY], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_functions_of_numpy():
    x = fl.tensor([[1.0, 2.0], [3.0, 4.0]])
    for f in (np.sqrt, np.exp, np.abs, np.transpose, np.cumsum):
        assert isinstance(f(x), fl.Tensor)
        np.testing.assert_allclose(f(x).numpy(), f(x.numpy()))
    assert isinstance(np.isnan(x), fl.Tensor) and np.isnan(x).dtype is fl.bool
    assert isinstance(np.asarray(x), np.ndarray) and np.shape(x) == (2, 2) and np.ndim(x) == 2
    assert isinstance(np.add(np.ones(2, np.longdouble), fl.tensor([1], dtype=fl.uint8)), np.ndarray)  # a type that is not here


@pytest.mark.slow
def test_import_is_lazy():
    code = "import sys, flambeau; assert 'flambeau.array_api' not in sys.modules and 'numpy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
