"""Single ops whose work is what costs."""

from __future__ import annotations

from typing import Any

from suites.case import Case

N_ELEMENTS = 16 * 2**20


def matrices(tl: Any) -> dict[str, Any]:
    """Two float32 [1024, 1024]."""
    tl.manual_seed(0)
    return {"a": tl.rand(1024, 1024), "b": tl.rand(1024, 1024)}


def vectors(tl: Any) -> dict[str, Any]:
    """Two float32 vectors of 64 MiB each."""
    tl.manual_seed(0)
    return {"a": tl.rand(N_ELEMENTS), "b": tl.rand(N_ELEMENTS), "exp": tl.exp}


CASES = [
    Case("matmul 1024x1024x1024, float32", "ms", matrices, "a @ b", max_ratio=1.0),
    Case("a + b, 16 M float32", "ms", vectors, "a + b", max_ratio=1.0),
    Case("exp, 16 M float32", "ms", vectors, "exp(a)", max_ratio=1.0),
]
