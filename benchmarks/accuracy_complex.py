"""Accuracy of the functions of complex numbers, against mpmath.

    python benchmarks/accuracy_complex.py [--size 2000] [--markdown FILE]

The error of a result is its distance from the exact value over the exact value's modulus, in units of the type's eps (2^-23, 2^-52): the
correctly rounded parts of a result are within 0.71 of that. Arguments have moduli between 1e-4 and 1e3 at even steps of the
logarithm and all angles, and lie around 0, 1, -1, i and -i. Where PyTorch can be imported it is measured beside.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

import flambeau as fl

EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": mp.exp, "exp2": lambda z: mp.mpf(2) ** z, "expm1": lambda z: mp.expm1(z), "log": mp.log, "log2": lambda z: mp.log(z) / mp.log(2),
    "log10": lambda z: mp.log(z) / mp.log(10), "log1p": lambda z: mp.log(1 + z), "sqrt": mp.sqrt, "rsqrt": lambda z: 1 / mp.sqrt(z),
    "reciprocal": lambda z: 1 / z, "square": lambda z: z * z, "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "asin": mp.asin,
    "acos": mp.acos, "atan": mp.atan, "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh, "asinh": mp.asinh, "acosh": mp.acosh,
    "atanh": mp.atanh, "sigmoid": lambda z: 1 / (1 + mp.exp(-z)), "sgn": lambda z: z / abs(z), "abs": abs, "angle": mp.arg,
}  # fmt: skip


def arguments(size: int, dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(11)
    turn = rng.uniform(-math.pi, math.pi, size)
    spread = 10 ** np.linspace(-4, 3, size) * np.exp(1j * turn)
    few = size // 10
    near = [c + 10 ** rng.uniform(-6, -0.5, few) * np.exp(1j * rng.uniform(-math.pi, math.pi, few)) for c in (0, 1, -1, 1j, -1j)]
    return np.concatenate([spread, *near]).astype(dtype)


def errors(exact: list[Any], got: np.ndarray, eps: float) -> tuple[float, float]:
    """The largest and the mean error of what is finite."""
    found = []
    for want, value in zip(exact, got, strict=True):
        size = abs(want)
        if not 1e-30 < size < 1e30:
            continue
        value = complex(value)
        found.append(float(abs(mp.mpc(value.real, value.imag) - want) / size / eps) if math.isfinite(abs(value)) else math.inf)
    return max(found), sum(found) / len(found)


def shown(pair: tuple[float, float] | None) -> str:
    return "" if pair is None else f"{pair[0]:.2g} ({pair[1]:.2f})" if pair[0] < 100 else f"{pair[0]:.0e} ({pair[1]:.1e})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--markdown")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
    mp.mp.prec = 160
    rows = ["| function | complex64 | PyTorch | complex128 | PyTorch |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, exact_of in EXACT.items():
        cells = []
        for dtype, eps in ((np.complex64, 2.0**-23), (np.complex128, 2.0**-52)):
            z = arguments(options.size, dtype)
            exact = [exact_of(mp.mpc(complex(v).real, complex(v).imag)) for v in z]
            cells.append(shown(errors(exact, getattr(fl, name)(fl.tensor(z)).numpy(), eps)))
            cells.append(shown(errors(exact, getattr(torch, name)(torch.from_numpy(z)).numpy(), eps) if torch else None))
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
        print(rows[-1], flush=True)
    if options.markdown:
        with open(options.markdown, "w") as file:
            text = (__doc__ or "").split("\n\n", 2)[2]
            head = f"# Accuracy of the functions of complex numbers\n\n{text}\nThe largest error, and the mean.\n\n"
            file.write(head + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
