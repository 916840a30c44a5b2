"""Every vectorised function is within 4 ulp, with every instruction set that the build and the machine have."""

from __future__ import annotations

import numpy as np
import pytest
from support import accuracy

import flambeau as fl
from flambeau._C import ops

BOUND_ULP = 4
SIZE = 300  # samples over all exponents, and as many where arguments usually are; benchmarks/accuracy.py takes more
CASES = [(f, dtype) for f in accuracy.FUNCTIONS for dtype in ("float32", "float64")]


def arguments(function, dtype):
    return accuracy.samples(function, dtype, SIZE * (4 if function.exact else 1))


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """{instruction set: {(function, dtype): values}}."""
    found = {}
    for isa in accuracy.ISAS:
        calls = [(f.statement, arguments(f, dtype)) for f, dtype in CASES]
        result = accuracy.evaluate_apart(calls, str(tmp_path_factory.mktemp(isa)), isa=isa)
        if result is not None:
            found[isa] = dict(zip(CASES, result[1]))
    assert found
    return found


@pytest.mark.slow
@pytest.mark.parametrize("function, dtype", CASES, ids=[f"{f.name}-{d}" for f, d in CASES])
def test_error(values, function, dtype):
    if function.exact is None:
        pytest.importorskip("mpmath")
    given = arguments(function, dtype)
    exact = accuracy.exact_values(function, *given)
    for isa, got in values.items():
        errors = accuracy.errors(function, dtype, got[function, dtype], exact, *given)
        at = int(errors.argmax())
        assert errors[at] <= BOUND_ULP, f"{isa}: {[a[at] for a in given]}: {got[function, dtype][at]}, exactly {exact[at]}"


def test_the_measure():
    """An error is seen: one, two and a half, and infinitely many ulp beside the exact value."""
    exact = np.array([1.0, 3.0, 2.0**-149, np.inf, 1.0], np.longdouble)
    got = np.array([1 + 2.0**-23, 3 + 2.5 * 2.0**-22, 2.0**-148, 3.4028235e38, np.nan], np.float32)
    errors = accuracy.errors(accuracy.BY_NAME["exp"], "float32", got, exact, exact)
    assert errors.tolist() == [1.0, 2.0, 1.0, 1.0, np.inf]  # 2.5 is rounded to even


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("inplace", [False, True])
def test_one_far_angle_among_near_ones(name, inplace):
    x = np.linspace(-9, 9, 3000).astype(np.float32)
    x[1234] = 1e30
    tensor = fl.tensor(x)
    got = getattr(tensor, name + "_")() if inplace else getattr(tensor, name)()
    np.testing.assert_allclose(got.numpy(), getattr(np, name)(x.astype(np.float64)), rtol=1e-6)
    near = getattr(fl.tensor(np.delete(x, 1234)), name)().numpy()
    assert np.array_equal(np.delete(got.numpy(), 1234), near), "the same bits as without it"


def test_limits_of_functions():
    inf = float("inf")
    x = fl.tensor([inf, -inf, float("nan"), 0.0, -0.0])
    for f in (fl.nn.functional.silu, fl.nn.functional.mish):
        y = f(x).tolist()
        assert y[0] == inf and y[1] != y[1] and y[2] != y[2] and y[3:] == [0.0, 0.0]
    assert fl.sinc(fl.tensor([1.0, -7.0, 3e38, 0.0])).tolist() == [0.0, 0.0, 0.0, 1.0]
    far = fl.tensor([713.0, 800.0, 1e300, inf, -inf, float("nan")], dtype=fl.float64)
    assert fl.i0(far)[1:3].tolist() == [inf, inf] and fl.i0(far)[[0, 3, 4, 5]].isnan().tolist() == [False, True, True, True]
    assert ops.i1(-far)[1:3].tolist() == [-inf, -inf] and ops.i1(far)[3:].isnan().all()
    assert fl.sin(fl.tensor([inf, -inf, float("nan"), 1e30])).isnan().tolist() == [True, True, True, False]
    assert fl.digamma(fl.tensor([inf, 0.0, -0.0])).tolist() == [inf, -inf, inf]
    assert fl.digamma(fl.tensor([-3.0, float("nan"), -inf])).isnan().all()
