"""Factors of symmetric and Hermitian matrices that need not be definite: A = L D L^T by Bunch and Kaufman's pivots.

D has blocks of one and two rows on its diagonal. L, D and the exchanges are stored as LAPACK's `sytrf` stores them: L below the
blocks of D, and for each column the row, from 1, that came there, negative for both columns of a block of two. Bunch and Kaufman, "Some
stable methods for calculating inertia and solving symmetric linear systems", Math. Comp. 31 (1977).

The matrices are factored one by one in NumPy. As in PyTorch there are no gradients, and a backward through them raises; `solve` has some.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._no_derivative import without_derivative
from flambeau._out import deliver
from flambeau._results import result
from flambeau._shapes import broadcast_shapes
from flambeau.linalg._arguments import check_tensors
from flambeau.linalg._leading import at_once

_ALPHA = (1 + math.sqrt(17)) / 8  # keeps the growth of elements smallest


@result("linalg_ldl_factor")
class LDLFactor(NamedTuple):
    """What `ldl_factor` returns."""

    LD: Tensor
    pivots: Tensor


@result("linalg_ldl_factor_ex")
class LDLFactorEx(NamedTuple):
    """What `ldl_factor_ex` returns."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


def _check(op: str, A: Tensor, name: str) -> None:
    check_tensors(op, **{name: A})
    if A.dtype not in (_C.float32, _C.float64, _C.complex64, _C.complex128):
        raise _C.DTypeError(f"{op}: {name} is {A.dtype}; expected float32, float64, complex64 or complex128")
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        if A.ndim >= 2:
            raise _C.ShapeError(f"{op}: {name} must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")
        raise _C.ShapeError(f"{op}: {name} has shape {list(A.shape)}; expected square matrices")


def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """`ldl_factor`, and for each matrix the number of the first block of D that is 0, or 0, as `info`.

    Shape:
        A [..., n, n] -> LD [..., n, n], pivots [..., n], info [...]

    Raises:
        LinAlgError: with `check_errors`, where info is not 0.
    """
    return deliver("linalg.ldl_factor_ex", _factored("linalg.ldl_factor_ex", A, hermitian, check_errors), out)


def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> Any:
    """A = L D L^T of symmetric matrices, or L D L^H of Hermitian ones with `hermitian`, for `ldl_solve`; the lower triangle of A is read.

    Shape:
        A [..., n, n] -> LD [..., n, n], pivots [..., n] (int32)

    Raises:
        LinAlgError: a block of D is 0.

    Example:
        >>> import flambeau as fl
        >>> LD, pivots = fl.linalg.ldl_factor(fl.tensor([[0.0, 1.0], [1.0, 0.0]]))
        >>> pivots
        tensor([-2, -2], dtype=flambeau.int32)
        >>> fl.linalg.ldl_solve(LD, pivots, fl.tensor([[3.0], [4.0]]))
        tensor([[4.],
                [3.]])
    """
    return deliver("linalg.ldl_factor", LDLFactor(*_factored("linalg.ldl_factor", A, hermitian, True)[:2]), out)


@at_once
def _factored(op: str, A: Tensor, hermitian: bool, check_errors: bool) -> LDLFactorEx:
    import numpy as np

    _check(op, A, "A")
    batch, n = tuple(A.shape[:-2]), A.shape[-1]
    if A.is_meta:
        kinds = (((*batch, n, n), A.dtype), ((*batch, n), _C.int32), (batch, _C.int32))
        return LDLFactorEx(*(ops.empty(size, dtype=dtype, device="meta") for size, dtype in kinds))
    a = np.tril(A.detach().contiguous().numpy())
    pivots, info = np.zeros((*batch, n), np.int32), np.zeros(batch, np.int32)
    conj = np.conj if hermitian and A.is_complex() else _same
    with np.errstate(all="ignore"):
        for index in np.ndindex(*batch):
            info[index] = _factor(a[index], pivots[index], conj)
    if check_errors and info.any():
        where = f" of matrix {int(np.flatnonzero(info)[0])}" if batch else ""
        raise _C.LinAlgError(f"{op}: block {int(info[info != 0].flat[0])} of D{where} is 0; the matrix is singular")
    found = LDLFactorEx(_C.from_buffer(a).view(A.shape), _C.from_buffer(pivots), _C.from_buffer(info).view(batch))
    return without_derivative(op, found, [A])


def _same(x: Any) -> Any:
    return x


def _factor(a: Any, pivots: Any, conj: Callable[[Any], Any]) -> int:
    """One matrix in place, of which the lower triangle is used; returns which block is 0."""
    import numpy as np

    n, k, info = len(a), 0, 0

    def size(x: Any) -> Any:
        return np.abs(x.real) + np.abs(x.imag)  # as LAPACK compares

    while k < n:
        if conj is not _same:
            a[k, k] = a[k, k].real
        here = size(a[k, k])
        below = size(a[k + 1 :, k])
        at = k + 1 + int(below.argmax()) if len(below) else k
        largest = below.max() if len(below) else 0.0
        width, p = 1, k
        if max(here, largest) == 0 or np.isnan(here):
            info = info or k + 1
            pivots[k] = k + 1
            k += 1
            continue
        if here < _ALPHA * largest:
            across = max(size(a[at, k:at]).max(), size(a[at + 1 :, at]).max() if at + 1 < n else 0.0)
            if here >= _ALPHA * largest * (largest / across):
                p = k
            elif size(a[at, at]) >= _ALPHA * across:
                p = at
            else:
                width, p = 2, at
        last = k + width - 1
        if p != last:
            _exchange(a, k, last, p, conj)
        rest = k + width
        if width == 1:
            if conj is not _same:
                a[k, k] = a[k, k].real
            column = a[rest:, k] / a[k, k]
            a[rest:, rest:] -= np.tril(np.outer(column, conj(a[rest:, k])))
            a[rest:, k] = column
            pivots[k] = p + 1
        else:
            pair = a[rest:, k:rest].copy()
            block = _block(a, k, conj)
            columns = np.linalg.solve(block.T, pair.T).T if rest < n else pair
            a[rest:, rest:] -= np.tril(columns @ conj(pair).T)
            a[rest:, k:rest] = columns
            pivots[k : k + 2] = -(p + 1)
        k = rest
    return info


def _block(a: Any, k: int, conj: Callable[[Any], Any]) -> Any:
    """The block of D of two rows that begins at k."""
    block = a[k : k + 2, k : k + 2].copy()
    block[0, 1] = conj(block[1, 0])
    return block


def _exchange(a: Any, k: int, i: int, p: int, conj: Callable[[Any], Any]) -> None:
    """Rows and columns i < p change places in the lower triangle from column k on."""
    a[p + 1 :, [i, p]] = a[p + 1 :, [p, i]]
    between = conj(a[i + 1 : p, i]).copy()
    a[i + 1 : p, i] = conj(a[p, i + 1 : p])
    a[p, i + 1 : p] = between
    a[p, i] = conj(a[p, i])
    a[[i, p], [i, p]] = a[[p, i], [p, i]]
    if i > k:  # the first column of a block of two
        a[[i, p], k] = a[[p, i], k]


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None) -> Tensor:
    """The X of A X = B by the factors of A that `ldl_factor` gave.

    Shape:
        LD [..., n, n], pivots [..., n], B [..., n, k] -> [..., n, k]; batches broadcast

    Raises:
        DTypeError, ShapeError: arguments that do not belong together.
        ValueError: pivots that no factorisation gives.
    """
    op = "linalg.ldl_solve"
    _check(op, LD, "LD")
    check_tensors(op, pivots=pivots, B=B)
    n = LD.shape[-1]
    if B.dtype is not LD.dtype or pivots.dtype is not _C.int32:
        raise _C.DTypeError(f"{op}: LD is {LD.dtype}, pivots {pivots.dtype}, B {B.dtype}; expected LD and B of one type, pivots of int32")
    if B.ndim < 2 or B.shape[-2] != n or tuple(pivots.shape) != tuple(LD.shape[:-1]):
        shapes = f"LD has shape {list(LD.shape)}, pivots {list(pivots.shape)}, B {list(B.shape)}"
        raise _C.ShapeError(f"{op}: {shapes}; expected [..., n, n], [..., n] and [..., n, k]")
    batch = broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    if LD.is_meta or B.is_meta or pivots.is_meta:
        return deliver(op, ops.empty((*batch, n, B.shape[-1]), dtype=B.dtype, device="meta"), out)  # type: ignore[no-any-return]
    found = _solved(op, LD.expand(*batch, n, n), pivots.expand(*batch, n), B.expand(*batch, n, B.shape[-1]), hermitian)
    return deliver(op, found, out)  # type: ignore[no-any-return]


@at_once
def _solved(op: str, LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool) -> Tensor:
    import numpy as np

    ld, rows = LD.detach().numpy(), pivots.numpy()
    _check_pivots(op, rows, LD.shape[-1])
    x = np.array(B.detach().numpy(), order="C")
    conj = np.conj if hermitian and LD.is_complex() else _same
    with np.errstate(all="ignore"):
        for index in np.ndindex(*LD.shape[:-2]):
            _solve(ld[index], rows[index], x[index], conj)
    return without_derivative(op, _C.from_buffer(x).view(x.shape), [LD, B])


def _check_pivots(op: str, rows: Any, n: int) -> None:
    for row in rows.reshape(-1, n) if n else ():
        k = 0
        while k < n:
            two = row[k] < 0
            if not k + two < abs(int(row[k])) <= n or (two and (k + 1 == n or row[k + 1] != row[k])):
                raise _C.ArgumentError(f"{op}: pivots = {row.tolist()}; expected rows from 1 to {n} as ldl_factor gives them")
            k += 1 + int(two)


def _solve(a: Any, pivots: Any, x: Any, conj: Callable[[Any], Any]) -> None:
    """L D y = x, then L^T x = y, in place."""
    import numpy as np

    n, k = len(a), 0
    starts = []
    while k < n:
        width = 1 if pivots[k] > 0 else 2
        i, p, rest = k + width - 1, abs(int(pivots[k])) - 1, k + width
        starts.append((k, width))
        if p != i:
            x[[i, p]] = x[[p, i]]
        x[rest:] -= a[rest:, k:rest] @ x[k:rest]
        if width == 1:
            x[k] /= a[k, k]
        else:
            block = _block(a, k, conj)
            try:
                x[k:rest] = np.linalg.solve(block, x[k:rest])
            except np.linalg.LinAlgError:
                x[k:rest] = np.nan
        k = rest
    for k, width in reversed(starts):
        i, p, rest = k + width - 1, abs(int(pivots[k])) - 1, k + width
        x[k:rest] -= conj(a[rest:, k:rest]).T @ x[rest:]
        if p != i:
            x[[i, p]] = x[[p, i]]
