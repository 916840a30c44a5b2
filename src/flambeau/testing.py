"""Comparison of tensors in tests."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops

# rtol, atol per type.
_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
               "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}  # fmt: skip


def assert_close(
    actual: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False,
    check_dtype: bool = True, msg: str | None = None,
) -> None:  # fmt: skip
    """Raises AssertionError, with the largest difference and where it is, unless both are close.

    |actual - expected| <= atol + rtol |expected|; the tolerances follow the type unless both are given.
    """
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            raise AssertionError(msg or f"lengths differ: {len(actual)} and {len(expected)}")
        for a, b in zip(actual, expected, strict=True):
            assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype, msg=msg)
        return
    a = actual if isinstance(actual, Tensor) else _C.tensor_from(actual, None)
    b = expected if isinstance(expected, Tensor) else _C.tensor_from(expected, None)
    if a.shape != b.shape:
        raise AssertionError(msg or f"shapes differ: {list(a.shape)} and {list(b.shape)}")
    if check_dtype and a.dtype is not b.dtype:
        raise AssertionError(msg or f"types differ: {a.dtype} and {b.dtype}")
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close: give both rtol and atol, or neither")
    if rtol is None or atol is None:
        pairs = [_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (a, b)]
        rtol, atol = max(p[0] for p in pairs), max(p[1] for p in pairs)
    wide = _C.complex128 if a.is_complex() or b.is_complex() else _C.float64
    x, y = a.detach().to(wide), b.detach().to(wide)
    wrong = ops.logical_not(ops.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan))
    count = int(ops.sum(wrong).item())
    if count:
        difference = ops.where(wrong, ops.abs(ops.sub(x, y)), 0.0).reshape(-1)
        worst = int(ops.argmax(difference).item())
        raise AssertionError(
            msg
            or f"{count} of {a.numel()} elements differ; the largest by {difference[worst].item():.3e} at flat index {worst}: "
            f"{x.reshape(-1)[worst].item()} and {y.reshape(-1)[worst].item()} (rtol {rtol}, atol {atol})"
        )
