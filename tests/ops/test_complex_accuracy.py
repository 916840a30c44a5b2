"""Functions of complex numbers against mpmath: the distance from the exact value, over its modulus, in units of eps."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as fl

mp = pytest.importorskip("mpmath")

EXACT = {
    "exp": mp.exp, "exp2": lambda z: mp.mpf(2) ** z, "expm1": mp.expm1, "log": mp.log, "log2": lambda z: mp.log(z) / mp.log(2),
    "log10": lambda z: mp.log(z) / mp.log(10), "log1p": lambda z: mp.log(1 + z), "sqrt": mp.sqrt, "rsqrt": lambda z: 1 / mp.sqrt(z),
    "reciprocal": lambda z: 1 / z, "square": lambda z: z * z, "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "asin": mp.asin,
    "acos": mp.acos, "atan": mp.atan, "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh, "asinh": mp.asinh, "acosh": mp.acosh,
    "atanh": mp.atanh, "sigmoid": lambda z: 1 / (1 + mp.exp(-z)), "sgn": lambda z: z / abs(z), "abs": abs, "angle": mp.arg,
}  # fmt: skip


@pytest.mark.parametrize("dtype, eps", [(np.complex64, 2.0**-23), (np.complex128, 2.0**-52)], ids=["complex64", "complex128"])
@pytest.mark.parametrize("name", EXACT)
def test_distance_from_the_exact_value(name, dtype, eps):
    rng = np.random.default_rng(17)
    turned = np.exp(1j * rng.uniform(-math.pi, math.pi, 80))
    near = np.repeat([0, 1, -1, 1j, -1j], 16) + 10 ** rng.uniform(-6, -0.5, 80) * turned
    z = np.concatenate([10 ** np.linspace(-4, 2.5, 80) * turned, near]).astype(dtype)
    with mp.workprec(160):
        for x, y in zip(z, getattr(fl, name)(fl.tensor(z)).tolist(), strict=True):
            want = EXACT[name](mp.mpc(complex(x).real, complex(x).imag))
            if 1e-30 < abs(want) < 1e30:
                error = abs(mp.mpc(complex(y).real, complex(y).imag) - want) / abs(want) / eps
                assert error <= 3, f"{name}({x}) = {y}: {float(error)} eps"
