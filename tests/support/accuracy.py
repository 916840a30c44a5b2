"""How far a function is from its exact value: the functions, their samples, references, and errors in ulp.

The error of a value is its distance from the exact one in units in the last place of the result's type at the
exact value; denormal results have the denormals' spacing. A correctly rounded function stays below 0.5.

    |value - exact| / max(ulp(exact), ulp(scale))

`scale` is there for the few functions that are a difference of larger terms, whose size counts then: near zeros
which no float hits (digamma and lgamma below zero, logaddexp, the derivatives of gelu, silu and mish), where a
product's factor vanishes (gelu by tanh far below zero, tanhshrink near zero: their error is measured against x),
and where a derivative is computed from a result that is rounded near 1 (tanh, sigmoid). Elsewhere it is 0.

References are long double where NumPy has the function (11 bits more than float64), else mpmath.
Used by tests/ops/test_accuracy.py with small samples and by benchmarks/accuracy.py with large ones.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

L = np.longdouble
MANTISSA = {"float32": 24, "float64": 53}
LOWEST = {"float32": -149, "float64": -1074}  # exponent of the smallest denormal
ISAS = {"base": "baseline", "v3": "x86-64-v3 (AVX2, FMA)", "v4": "x86-64-v4 (AVX-512)"}  # and isa_name()
BITS = {"float32": np.uint32, "float64": np.uint64}


@dataclass(frozen=True)
class Function:
    """A function under test: a statement over `tl` (the library), `F` (its nn.functional), `x`, `y` and `slope`."""

    name: str
    statement: str
    exact: Callable[..., Any] | None = None  # on long doubles
    mp: Callable[..., Any] | None = None  # on mpmath numbers: (mpmath, x)
    points: tuple[float, ...] = (0.0, 1.0)  # zeros, and borders of the function's pieces
    within: tuple[float, float] = (-20.0, 20.0)  # where most arguments of programs are
    domain: tuple[float, float] = (-np.inf, np.inf)
    binary: bool = False
    scale: Callable[..., Any] | None = None
    types: tuple[str, ...] = ("float32", "float64")


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _logit(x: Any) -> Any:
    near = np.log1p((2 * x - 1) / (1 - x))
    return np.where(np.abs(x - L(0.5)) < 0.25, near, np.log(x / (1 - x)))


def _sinc(x: Any) -> Any:
    whole = np.round(x)
    s = np.sin((x - whole) * L("3.14159265358979323846264338327950288")) * np.where(np.fmod(whole, 2) == 0, 1, -1)
    return np.where(x == 0, 1, s / np.where(x == 0, 1, x * L("3.14159265358979323846264338327950288")))


def _elu(x: Any, alpha: Any = 1, scale: Any = 1, rate: Any = 1) -> Any:
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) * rate))


def _gelu_tanh(x: Any) -> Any:
    return x * _sigmoid(_gelu_v(x))


def _gelu_v(x: Any) -> Any:
    return _TANH_K * (x + L("0.044715") * x * x * x)


def _sigmoid_slope(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return e / (1 + e) ** 2


# x sigmoid(v): its derivatives by those of v, and the largest of their terms where x < 0.
def _times_sigmoid_slope(x: Any, v: Any, dv: Any) -> Any:
    return _sigmoid(v) + np.where(np.abs(v) > 1e4, 0, x * dv * _sigmoid_slope(v))


def _times_sigmoid_curvature(x: Any, v: Any, dv: Any, ddv: Any) -> Any:
    inner = 2 * dv + x * (ddv + dv * dv * (_sigmoid(-v) - _sigmoid(v)))
    return np.where(np.abs(v) > 1e5, 0, _sigmoid_slope(v) * inner)


def _silu_terms(x: Any) -> Any:
    return np.where(x < 0, _sigmoid(x) * np.maximum(1, np.abs(x)), 0)


def _silu_curvature_terms(x: Any) -> Any:
    return _sigmoid_slope(x) * np.maximum(2, np.abs(x))


def _gelu_tanh_slope(x: Any) -> Any:
    return _times_sigmoid_slope(x, _gelu_v(x), _TANH_K * (1 + 3 * L("0.044715") * x * x))


def _gelu_tanh_curvature(x: Any) -> Any:
    return _times_sigmoid_curvature(x, _gelu_v(x), _TANH_K * (1 + 3 * L("0.044715") * x * x), 6 * _TANH_K * L("0.044715") * x)


# mish: x w, and w = tanh(softplus(x)) = 1 - 2 t with t = 1 / (1 + (1 + e^x)^2).
def _mish_w(x: Any) -> tuple[Any, Any, Any]:
    """w and its derivatives."""
    u = np.exp(-np.abs(x))
    low = x < 0
    g = np.where(low, u * u + 2 + 2 * u, 1 + 2 * u + 2 * u * u)  # 1 / t, times u^2 above 0
    dw = 4 * np.where(low, u, u * u) * (1 + u) / g**2
    inner = np.where(low, 1 + 2 * u, u + 2) - 4 * np.where(low, u, 1) * (1 + u) ** 2 / g
    return np.where(low, u * (u + 2), 1 + 2 * u) / g, dw, 4 * np.where(low, u, u * u) * inner / g**2


def _mish_slope(x: Any) -> Any:
    w, dw, _ = _mish_w(x)
    return w + x * dw


def _mish_curvature(x: Any) -> Any:
    _, dw, ddw = _mish_w(x)
    return 2 * dw + x * ddw


def _mish_terms(x: Any) -> Any:
    w, dw, _ = _mish_w(x)
    return np.where(x < 0, np.maximum(w, np.abs(x) * dw), 0)


def _mish_curvature_terms(x: Any) -> Any:
    return _mish_w(x)[1] * np.maximum(2, np.abs(x))


def _elu_slope(x: Any, alpha: Any = 1, scale: Any = 1, rate: Any = 1) -> Any:
    return scale * np.where(x > 0, 1, alpha * rate * np.exp(np.minimum(x, 0) * rate))


def _normal_pdf(x: Any) -> Any:
    return np.exp(-x * x / 2) / np.sqrt(2 * L("3.14159265358979323846264338327950288"))


def _gelu_terms(x: Any) -> Any:
    cdf = 0.5 * np.vectorize(math.erfc, otypes=[float])(-x / np.sqrt(2))
    return np.where(x < 0, np.maximum(cdf, np.abs(x) * _normal_pdf(x)), 0)


def _mp_gelu_slope(mp: Any, x: Any) -> Any:
    return _mp_erfc(mp, -x / mp.sqrt(2)) / 2 + x * mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) if abs(x) < 100 else mp.mpf(x > 0)


def _gelu_curvature(x: Any) -> Any:
    return np.where(np.abs(x) > 1e3, 0, _normal_pdf(x) * (2 - x * x))


def _logaddexp(a: Any, b: Any) -> Any:
    return np.maximum(a, b) + np.log1p(np.exp(-np.abs(a - b)))


def _logaddexp2(a: Any, b: Any) -> Any:
    return np.maximum(a, b) + np.log1p(np.exp2(-np.abs(a - b))) / np.log(L(2))


def _larger(a: Any, b: Any) -> Any:
    return np.maximum(np.abs(a), np.abs(b))


def _mp_tanhshrink(mp: Any, x: Any) -> Any:
    if abs(x) < 2e-3:  # x^3/3 - 2 x^5/15 + 17 x^7/315 - 62 x^9/2835 ...
        s = x * x
        return x * s * (mp.mpf(1) / 3 - s * (mp.mpf(2) / 15 - s * (mp.mpf(17) / 315 - s * (mp.mpf(62) / 2835))))
    return x - mp.tanh(x)


def _mp_erfc(mp: Any, x: Any) -> Any:
    return mp.erfc(x) if abs(x) < 100 else mp.mpf(0 if x > 0 else 2)


def _mp_gelu(mp: Any, x: Any) -> Any:
    return x * _mp_erfc(mp, -x / mp.sqrt(2)) / 2


def _mp_i(order: int) -> Callable[..., Any]:
    return lambda mp, x: mp.besseli(order, x)


_TANH_K = 2 * L("0.797884560802865355879892119868763737")
_SELU = {"alpha": L("1.6732632423543772848170429916717"), "scale": L("1.0507009873554804934193349852946")}
_PI = tuple(k * np.pi / 2 for k in (1, 2, 3, 4, 20, 201)) + tuple(-k * np.pi / 2 for k in (1, 2))
_UNIT = (-1.0, 1.0)

FUNCTIONS = [
    Function("exp", "tl.exp(x)", np.exp, points=(0.0, 88.72, -87.33, -103.9, 709.78, -708.4, -745.1), within=(-105, 90)),
    Function("exp2", "tl.exp2(x)", np.exp2, points=(0.0, 128.0, -126.0, -149.0, 1024.0, -1022.0), within=(-150, 130)),
    Function("expm1", "tl.expm1(x)", np.expm1, points=(0.0, 0.3466, -0.3466, 88.72, -17.3, -37.4, 709.78), within=(-20, 90)),
    Function("log", "tl.log(x)", np.log, points=(1.0, 0.7071, 1.4142, 2.0), within=(0, 30), domain=(0, np.inf)),
    Function("log2", "tl.log2(x)", np.log2, points=(1.0, 0.7071, 1.4142, 2.0), within=(0, 30), domain=(0, np.inf)),
    Function("log10", "tl.log10(x)", np.log10, points=(1.0, 0.7071, 1.4142, 10.0), within=(0, 30), domain=(0, np.inf)),
    Function("log1p", "tl.log1p(x)", np.log1p, points=(0.0, -0.2929, 0.4142, -1.0), within=(-1, 30), domain=(-1, np.inf)),
    Function("sqrt", "tl.sqrt(x)", np.sqrt, within=(0, 30), domain=(0, np.inf)),
    Function("rsqrt", "tl.rsqrt(x)", lambda x: 1 / np.sqrt(x), within=(0, 30), domain=(0, np.inf)),
    Function("reciprocal", "tl.reciprocal(x)", lambda x: 1 / x),
    Function("sin", "tl.sin(x)", np.sin, points=(0.0, np.pi / 4, *_PI), within=(-100, 100)),
    Function("cos", "tl.cos(x)", np.cos, points=(0.0, np.pi / 4, *_PI), within=(-100, 100)),
    Function("tan", "tl.tan(x)", np.tan, points=(0.0, np.pi / 4, *_PI), within=(-100, 100)),
    Function("asin", "tl.asin(x)", np.arcsin, points=(0.0, 0.5, 1.0, -1.0), within=_UNIT, domain=_UNIT),
    Function("acos", "tl.acos(x)", np.arccos, points=(0.0, 0.5, 1.0, -1.0), within=_UNIT, domain=_UNIT),
    Function("atan", "tl.atan(x)", np.arctan, points=(0.0, 1.0, -1.0)),
    Function("sinh", "tl.sinh(x)", np.sinh, points=(0.0, 1.0, 89.4, 710.4), within=(-90, 90)),
    Function("cosh", "tl.cosh(x)", np.cosh, points=(0.0, 1.0, 89.4, 710.4), within=(-90, 90)),
    Function("tanh", "tl.tanh(x)", np.tanh, points=(0.0, 0.3466, 0.55, 9.0, 19.1)),
    Function("asinh", "tl.asinh(x)", np.arcsinh, points=(0.0, 1.0, -1.0)),
    Function("acosh", "tl.acosh(x)", np.arccosh, points=(1.0, 2.0), within=(1, 30), domain=(1, np.inf)),
    Function("atanh", "tl.atanh(x)", np.arctanh, points=(0.0, 0.5, 1.0, -1.0), within=_UNIT, domain=_UNIT),
    Function("sigmoid", "tl.sigmoid(x)", _sigmoid, points=(0.0, -87.3, -103.9, -708.4), within=(-105, 40)),
    Function("logit", "tl.logit(x)", _logit, points=(0.5, 0.25, 0.75, 0.0, 1.0), within=(0, 1), domain=(0, 1)),
    Function("logsigmoid", "F.logsigmoid(x)", lambda x: -_softplus(-x), points=(0.0, 17.3, -17.3), within=(-40, 105)),
    Function("softplus", "F.softplus(x)", lambda x: np.where(x > 20, x, _softplus(x)), points=(0.0, 20.0, -103.9), within=(-105, 40)),
    Function("silu", "F.silu(x)", lambda x: x * _sigmoid(x), points=(0.0, -87.3, -103.9), within=(-110, 40)),
    Function("mish", "F.mish(x)", lambda x: x * np.tanh(_softplus(x)), points=(0.0, -87.3, -103.9), within=(-110, 40)),
    Function("elu", "F.elu(x)", _elu, points=(0.0, -0.3466, -17.3)),
    Function("selu", "F.selu(x)", lambda x: _elu(x, **_SELU), points=(0.0, -0.3466, -17.3)),
    Function("celu", "F.celu(x, 0.5)", lambda x: _elu(x, L(0.5), 1, L(2)), points=(0.0, -0.17, -8.6)),
    Function("gelu", "F.gelu(x)", mp=_mp_gelu, points=(0.0, 1.3, -1.3, -13.0, -14.0, -37.0, -38.5), within=(-15, 10)),
    Function("gelu, tanh", "F.gelu(x, approximate='tanh')", _gelu_tanh, points=(0.0, 1.0, -4.0, -10.0), within=(-12, 10), scale=np.abs),
    Function("softsign", "F.softsign(x)", lambda x: x / (1 + np.abs(x))),
    Function("tanhshrink", "F.tanhshrink(x)", mp=_mp_tanhshrink, points=(0.0, 0.5, 0.3466), scale=np.abs),
    Function("erf", "tl.erf(x)", mp=lambda mp, x: mp.erf(x), points=(0.0, 0.92, -0.92, 3.9), within=(-6, 6)),
    Function("erfc", "tl.erfc(x)", mp=_mp_erfc, points=(0.0, 1.0, 10.05, 26.5), within=(-6, 27)),
    Function("ndtr", "tl.special.ndtr(x)", mp=lambda mp, x: _mp_erfc(mp, -x / mp.sqrt(2)) / 2, points=(0.0, -1.0, -12.5, -26.5), within=(-38, 9)),
    Function("erfinv", "tl.erfinv(x)", mp=lambda mp, x: mp.erfinv(x), points=(0.0, 0.5, 0.9, 1.0, -1.0), within=_UNIT, domain=_UNIT),
    Function("sinc", "tl.sinc(x)", _sinc, points=(0.0, 0.5, 1.0, 2.0, 100.0), within=(-20, 20)),
    Function(
        "lgamma", "tl.lgamma(x)", mp=lambda mp, x: mp.log(abs(mp.gamma(x))) if abs(x) < 1e4 else mp.loggamma(x).real,
        points=(1.0, 2.0, 0.0, -2.457, -2.747, -1.0), within=(-20, 40), domain=(-1e4, np.inf),
        scale=lambda x: np.where(x < 0, 1, 0),
    ),
    Function(
        "digamma", "tl.digamma(x)", mp=lambda mp, x: mp.digamma(x), points=(1.4616321449683622, 1.0, 10.0, -0.504, -1.573, 0.0),
        within=(-20, 40), domain=(-1e4, np.inf), scale=lambda x: np.where(x < 0, np.log(1 + np.abs(x)) + 1, 0),
    ),
    Function("trigamma", "trigamma(x)", mp=lambda mp, x: mp.psi(1, x), points=(0.0, 0.5, 10.0, -1.0), within=(-20, 40), domain=(-1e4, np.inf)),
    Function("i0", "tl.i0(x)", mp=_mp_i(0), points=(0.0, 1.0, 8.0), within=(-80, 80), domain=(-720.0, 720.0)),
    Function("i1", "i1(x)", mp=_mp_i(1), points=(0.0, 1.0, 8.0), within=(-80, 80), domain=(-720.0, 720.0)),
    Function("pow", "tl.pow(x, y)", np.power, points=(1.0, 2.0), within=(0, 20), domain=(0, np.inf), binary=True),
    Function("atan2", "tl.atan2(x, y)", np.arctan2, points=(0.0, 1.0), binary=True),
    Function("hypot", "tl.hypot(x, y)", np.hypot, points=(0.0, 1.0), binary=True),
    Function("logaddexp", "tl.logaddexp(x, y)", _logaddexp, points=(0.0, -0.6931), binary=True, scale=_larger),
    Function("logaddexp2", "tl.logaddexp2(x, y)", _logaddexp2, points=(0.0, -1.0), binary=True, scale=_larger),
    Function("xlogy", "tl.xlogy(x, y)", lambda x, y: x * np.log(y), points=(1.0, 2.0), within=(0, 20), domain=(0, np.inf), binary=True),
    # Derivatives: `slope(f, x)` is by backward, `slope(f, x, 2)` by backward of that.
    Function("gelu'", "slope(F.gelu, x)", mp=_mp_gelu_slope, points=(0.0, -0.7518, -13.2, -37.5), within=(-15, 10), scale=_gelu_terms),
    Function(
        "gelu\"", "slope(F.gelu, x, 2)", _gelu_curvature,
        points=(0.0, 1.4142, -1.4142), within=(-15, 15), scale=lambda x: 2 * _normal_pdf(x),
    ),
    Function("gelu', tanh", "slope(gelu_tanh, x)", _gelu_tanh_slope, points=(0.0, -0.75, -4.0), within=(-12, 10), scale=np.ones_like),
    Function(
        "gelu\", tanh", "slope(gelu_tanh, x, 2)", _gelu_tanh_curvature,
        points=(0.0, 1.4, -4.0), within=(-12, 12), scale=np.ones_like,
    ),
    Function(
        "silu'", "slope(F.silu, x)", lambda x: _times_sigmoid_slope(x, x, 1), points=(0.0, -1.2785, -87.3, -103.9), within=(-110, 40),
        scale=_silu_terms,
    ),
    Function(
        "silu\"", "slope(F.silu, x, 2)", lambda x: _times_sigmoid_curvature(x, x, 1, 0), points=(0.0, 2.3994, -2.3994), within=(-110, 110),
        scale=_silu_curvature_terms,
    ),
    Function("mish'", "slope(F.mish, x)", _mish_slope, points=(0.0, -1.1924, 20.0, -87.3), within=(-110, 40), scale=_mish_terms),
    Function(
        "mish\"", "slope(F.mish, x, 2)", _mish_curvature,
        points=(0.0, -2.2564, 1.4906), within=(-110, 60), scale=_mish_curvature_terms,
    ),
    Function(
        "softplus'", "slope(F.softplus, x)", lambda x: np.where(x > 20, 1, _sigmoid(x)),
        points=(0.0, 20.0, -87.3), within=(-105, 40),
    ),
    Function(
        "softplus\"", "slope(F.softplus, x, 2)", lambda x: np.where(x > 20, 0, _sigmoid_slope(x)), points=(0.0, 20.0, -87.3),
        within=(-105, 40),
    ),
    Function("logsigmoid'", "slope(F.logsigmoid, x)", lambda x: _sigmoid(-x), points=(0.0, 87.3), within=(-40, 105)),
    Function(
        "sigmoid'", "slope(tl.sigmoid, x)", _sigmoid_slope,
        points=(0.0, -87.3), within=(-105, 40), scale=lambda x: np.where(x > 0, 1, 0),
    ),
    Function("tanh'", "slope(tl.tanh, x)", lambda x: 1 / np.cosh(x) ** 2, points=(0.0, 0.55), scale=np.ones_like),
    Function("elu'", "slope(F.elu, x)", _elu_slope, points=(0.0, -87.3)),
    Function("selu'", "slope(F.selu, x)", lambda x: _elu_slope(x, **_SELU), points=(0.0, -87.3)),
    Function("celu'", "slope(celu, x)", lambda x: _elu_slope(x, L(0.5), 1, L(2)), points=(0.0, -43.6)),
    Function(
        "erf'", "slope(tl.erf, x)", lambda x: 4 * _normal_pdf(x * np.sqrt(L(2))) / np.sqrt(L(2)) ,
        points=(0.0, 9.3, -9.3, 26.6), within=(-10, 10),
    ),
    Function("asin'", "slope(tl.asin, x)", lambda x: 1 / np.sqrt((1 - x) * (1 + x)), points=(0.0, 1.0, -1.0), within=_UNIT, domain=_UNIT),
    Function("acos'", "slope(tl.acos, x)", lambda x: -1 / np.sqrt((1 - x) * (1 + x)), points=(0.0, 1.0, -1.0), within=_UNIT, domain=_UNIT),
    Function("atanh'", "slope(tl.atanh, x)", lambda x: 1 / ((1 - x) * (1 + x)), points=(0.0, 1.0, -1.0), within=_UNIT, domain=_UNIT),
]  # fmt: skip
BY_NAME = {f.name: f for f in FUNCTIONS}


# ---- samples


def _steps_around(point: float, dtype: str, count: int, rng: Any) -> Any:
    """`count` neighbours of a point on either side, then points at growing distances."""
    p = np.asarray(point, dtype)
    i = np.arange(-count, count + 1)
    unit = np.spacing(np.abs(p)) if point else np.asarray(2.0 ** (-30 if dtype == "float32" else -80), dtype)
    near = (p + i * unit).astype(dtype)
    far = 2.0 ** rng.uniform(-MANTISSA[dtype], -1, count) * max(abs(point), 1.0)
    return np.concatenate([near, (point + far).astype(dtype), (point - far).astype(dtype)])


def samples(function: Function, dtype: str, size: int, seed: int = 0) -> tuple[Any, ...]:
    """Arguments: bit patterns at equal steps over all exponents, `within` densely, and around `points`."""
    rng = np.random.default_rng([seed, size, sum(map(ord, function.name)), MANTISSA[dtype]])

    def some(n: int) -> Any:
        unsigned = BITS[dtype]
        width = unsigned(0).itemsize * 8
        step = (1 << width) // n | 1
        offset = int(rng.integers(0, min(step, 1 << 62)))
        patterns = np.array([(offset + step * k) % (1 << width) for k in range(n)], unsigned)
        parts = [patterns.view(dtype), rng.uniform(*function.within, n).astype(dtype)]
        parts += [_steps_around(p, dtype, n // 16, rng) for p in function.points]
        x = np.concatenate(parts)
        with np.errstate(invalid="ignore"):
            return x[np.isfinite(x) & (x >= function.domain[0]) & (x <= function.domain[1])]

    if not function.binary:
        return (some(size),)
    pairs = []
    for _ in range(2):  # all with all: y is x's sample in another order
        x, y = some(size), some(size)
        n = min(len(x), len(y))
        pairs.append((rng.permutation(x)[:n], rng.permutation(y)[:n]))
    n = size // 2
    inside = [rng.uniform(*function.within, n).astype(dtype) for _ in range(2)]
    pairs.append((inside[0], inside[1]))
    pairs.append((inside[0], (inside[0] * (1 + 2.0 ** rng.uniform(-20, -1, n))).astype(dtype)))  # nearly equal
    if function.name == "pow":  # results of all sizes
        exponent = rng.uniform(-150, 128, n) if dtype == "float32" else rng.uniform(-1074, 1023, n)
        base = np.exp(rng.uniform(-8, 8, n)).astype(dtype)
        pairs.append((base, (exponent / np.log2(base.astype("f8"))).astype(dtype)))
    return tuple(np.concatenate([p[k] for p in pairs]) for k in range(2))


# ---- references and errors


def exact_values(function: Function, *arguments: Any) -> Any:
    """The exact values, as long doubles."""
    if function.exact is not None:
        with np.errstate(all="ignore"):
            return np.asarray(function.exact(*[a.astype(L) for a in arguments]), L)
    import mpmath

    out = np.empty(len(arguments[0]), L)
    with mpmath.workdps(40):
        for i, x in enumerate(arguments[0].tolist()):
            try:
                value = function.mp(mpmath, mpmath.mpf(x))  # type: ignore[misc]
                out[i] = _longdouble(mpmath, value)
            except (ValueError, ZeroDivisionError, OverflowError):  # a pole
                out[i] = np.nan
    return out


def _longdouble(mpmath: Any, value: Any) -> Any:
    if not mpmath.isfinite(value):
        return L(float(value))
    if value == 0:
        return L(0)
    mantissa, exponent = mpmath.frexp(value)
    high = float(mantissa)
    return np.ldexp(L(high) + L(float(mantissa - high)), int(exponent)) if abs(exponent) < 16000 else L(0 if exponent < 0 else np.inf)


def ulp(values: Any, dtype: str) -> Any:
    """The spacing of `dtype` at these long doubles."""
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(values)
        return np.ldexp(L(1), np.maximum(exponent - MANTISSA[dtype], LOWEST[dtype]))


def errors(function: Function, dtype: str, got: Any, exact: Any, *arguments: Any) -> Any:
    """The error of every value in ulp: infinity where it should not be NaN, and 0 at poles, where the exact value is NaN."""
    with np.errstate(all="ignore"):
        size = np.abs(exact)
        if function.scale is not None:
            size = np.maximum(size, np.abs(function.scale(*[a.astype(L) for a in arguments])))
        largest = np.ldexp(L(1), int(np.finfo(dtype).maxexp))  # infinity counts as the first number that is too large
        value, exact, size = (np.clip(v.astype(L), -largest, largest) for v in (got, exact, size))
        e = np.abs(value - exact) / ulp(np.minimum(size, np.finfo(dtype).max), dtype)
    return np.where(np.isnan(exact), 0, np.where(np.isnan(e), np.inf, e))


def _slope(tl: Any, f: Callable[..., Any], x: Any, order: int = 1) -> Any:
    """The derivative of f at x by backward."""
    x.requires_grad_()
    y = f(x)
    for again in reversed(range(order)):
        (y,) = tl.autograd.grad(y, x, tl.ones_like(y), create_graph=again > 0)
    return y


def evaluate(statement: str, tl: Any, arguments: dict[str, Any]) -> Any:
    """The statement's value by library `tl`, as an array."""
    F = tl.nn.functional
    names: dict[str, Any] = {"tl": tl, "F": F, "slope": lambda *a: _slope(tl, *a)}
    names |= {"gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "celu": lambda x: F.celu(x, 0.5)}
    if tl.__name__ == "torch":
        names |= {"i1": tl.special.i1, "trigamma": lambda x: tl.polygamma(1, x)}
    else:  # ops of gradients
        names |= {"i1": tl._C.ops.i1, "trigamma": tl._C.ops.trigamma}
    names |= {name: tl.tensor(value) for name, value in arguments.items()}
    return eval(statement, names).numpy()


# ---- in a process of its own, since the instruction set is chosen when the library is loaded


def evaluate_apart(
    calls: Sequence[tuple[str, tuple[Any, ...]]], folder: str, python: str = sys.executable, library: str = "flambeau", isa: str | None = None
) -> tuple[str, list[Any]] | None:
    """The library's version and the values of (statement, arguments); None where it has not that instruction set."""
    given = {f"{i}.{name}": value for i, (_, arguments) in enumerate(calls) for name, value in zip("xy", arguments)}
    statements = json.dumps([statement for statement, _ in calls])
    np.savez(os.path.join(folder, "in.npz"), statements=np.array(statements), **given)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)} if library == "flambeau" else dict(os.environ)
    environment |= {"FLAMBEAU_ISA": isa} if isa else {}
    done = subprocess.run([python, __file__, library, folder], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{library} failed:\n{done.stderr}")
    version, found = done.stdout.splitlines()[-1].split("|")
    if isa and found != ISAS[isa]:
        return None
    with np.load(os.path.join(folder, "out.npz")) as file:
        return version, [file[str(i)] for i in range(len(calls))]


def _child(library: str, folder: str) -> None:
    tl = importlib.import_module(library)
    with np.load(os.path.join(folder, "in.npz")) as file:
        values = {
            str(i): evaluate(statement, tl, {name: file[f"{i}.{name}"] for name in "xy" if f"{i}.{name}" in file.files})
            for i, statement in enumerate(json.loads(str(file["statements"])))
        }
    np.savez(os.path.join(folder, "out.npz"), **values)
    print(tl.__version__, tl._C.isa_name() if library == "flambeau" else "", sep="|")


if __name__ == "__main__":
    _child(*sys.argv[1:3])
