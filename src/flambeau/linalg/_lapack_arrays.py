"""Factors of complex matrices, by NumPy's LAPACK: arrays in, arrays out, no gradients.

Arrays are [..., m, n], batches of matrices. NumPy raises for a whole batch where one matrix fails; here each is told apart, as `info`
[...] of int32 with LAPACK's meaning: 0, or which pivot or minor failed, from 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau import _C
from flambeau._C import LinAlgError

_BLOCK = 16  # columns that are factored one by one
_ILL = "The algorithm failed to converge because the input matrix is ill-conditioned or has elements that are not finite."


def by_numpy(f: Callable[..., Any], a: Any, *args: Any, **kwargs: Any) -> Any:
    """f(a, ...) of numpy.linalg, with as many threads as the matrices of a are worth."""
    return _C.call_lapack(max(a.shape[-2:]), f, a, *args, **kwargs)


def _one_by_one(a: Any, attempt: Callable[[Any], tuple[Any, int]]) -> Any:
    """info of `attempt(matrix index)`, which says whether it failed."""
    info = np.zeros(a.shape[:-2], np.int32)
    for index in np.ndindex(*info.shape):
        info[index] = attempt(index)
    return info


def solve(a: Any, b: Any) -> tuple[Any, Any]:
    """x [..., n, k] of a x = b, NaN where a is singular, and info."""
    try:
        return by_numpy(np.linalg.solve, a, b), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        x = np.full_like(b, np.nan)

    def attempt(index: Any) -> Any:
        try:
            x[index] = by_numpy(np.linalg.solve, a[index], b[index])
        except np.linalg.LinAlgError:
            return int(factor(a[index])[2]) or a.shape[-1]
        return 0

    return x, _one_by_one(a, attempt)


def cholesky(a: Any) -> tuple[Any, Any]:
    """The lower factor of a, whose lower triangle is read, and info: the order of the first minor that is not positive."""
    try:
        return by_numpy(np.linalg.cholesky, a), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        found = np.full_like(a, np.nan)

    def minor(matrix: Any, order: int) -> bool:
        try:
            by_numpy(np.linalg.cholesky, matrix[:order, :order])
        except np.linalg.LinAlgError:
            return False
        return True

    def attempt(index: Any) -> Any:
        matrix = a[index]
        if minor(matrix, a.shape[-1]):
            found[index] = by_numpy(np.linalg.cholesky, matrix)
            return 0
        good, bad = 0, a.shape[-1]  # what fails for a minor fails for larger ones
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if minor(matrix, middle) else (good, middle)
        return bad

    return found, _one_by_one(a, attempt)


def factor(a: Any) -> tuple[Any, Any, Any]:
    """L below and U on and above the diagonal of one matrix [..., m, n], the row from 1 that came to each row, and info.

    NumPy has no LU: halves of columns, recursively (Toledo, 1997), so that most of the work is matrix products.
    """
    m, n = a.shape[-2:]
    k = min(m, n)
    flat = np.array(a.reshape((-1 if a.size else int(np.prod(a.shape[:-2])), m, n)))
    rows = np.zeros((len(flat), k), np.int64)
    with np.errstate(all="ignore"):
        _factor(flat, rows)
    zero = np.diagonal(flat, axis1=-2, axis2=-1) == 0
    info = np.where(zero.any(-1), zero.argmax(-1) + 1, 0) if k else np.zeros(len(flat))
    batch = a.shape[:-2]
    return flat.reshape(a.shape), (rows + 1).astype(np.int32).reshape(*batch, k), info.astype(np.int32).reshape(batch)


def _exchange(a: Any, rows: Any) -> None:
    """Row j of each matrix changes places with row rows[j], for j = 0, 1, ..."""
    each = np.arange(len(a))
    for j in range(rows.shape[1]):
        a[each, j], a[each, rows[:, j]] = a[each, rows[:, j]], a[each, j]


def _factor(a: Any, rows: Any) -> None:
    """`factor` of a [b, m, n] in place; rows [b, min(m, n)] from 0."""
    k = rows.shape[1]
    if k <= _BLOCK:
        for j in range(k):
            rows[:, j] = j + (np.abs(a[:, j:, j].real) + np.abs(a[:, j:, j].imag)).argmax(-1)  # as LAPACK compares
            each = np.arange(len(a))
            a[each, j], a[each, rows[:, j]] = a[each, rows[:, j]], a[each, j]
            pivot = a[:, j, j]
            a[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)[:, None]
            a[:, j + 1 :, j + 1 :] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 :]
        return
    h = k // 2
    left, right = a[..., :h], a[..., h:]
    _factor(left, rows[:, :h])
    _exchange(right, rows[:, :h])
    unit = np.tril(left[:, :h], -1) + np.eye(h, dtype=a.dtype)
    right[:, :h] = by_numpy(np.linalg.solve, unit, right[:, :h])
    right[:, h:] -= left[:, h:] @ right[:, :h]
    _factor(right[:, h:], rows[:, h:])
    _exchange(left[:, h:], rows[:, h:])
    rows[:, h:] += h


def spectrum(op: str, f: Callable[..., Any], a: Any, *args: Any, **kwargs: Any) -> Any:
    """f(a) of NumPy's, an iteration that converges for finite matrices.

    Raises:
        LinAlgError: an element is not finite, or the iteration ended without a result.
    """
    finite = np.isfinite(a).all((-2, -1))
    if finite.all():
        try:
            return by_numpy(f, a, *args, **kwargs)
        except np.linalg.LinAlgError:
            raise LinAlgError(f"{op}: {_ILL}") from None
    where = f"(Batch element {int(np.argmin(finite))}): " if a.ndim > 2 else ""
    raise LinAlgError(f"{op}: {where}{_ILL}")
