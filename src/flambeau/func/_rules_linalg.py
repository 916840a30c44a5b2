"""`vmap`: linear algebra whose arguments differ in their number of axes, so that axes in front are not the same for all."""

from __future__ import annotations

from typing import Any

from flambeau._C import ops
from flambeau.func._batched import BatchLevel, rule
from flambeau.func._levels import shape_of


@rule("linalg_solve_ex")
def _solve(level: BatchLevel, A: Any, B: Any, left: bool = True, check_errors: bool = False) -> Any:
    a, b = shape_of(A), shape_of(B)
    vectors = len(b) == 1 or (len(a) == len(b) + 1 and b == a[:-1])
    rank = max(len(a), len(b) + vectors)
    left_side = _with_rank(level, A, rank)
    right_side = _with_rank(level, ops.unsqueeze(B, -1) if vectors else B, rank)
    found: Any = ops.linalg_solve_ex(left_side, right_side, left=left, check_errors=check_errors)
    return type(found)((ops.squeeze(found[0], (-1,)), found[1])) if vectors else found


@rule("linalg_lu_solve")
def _lu_solve(level: BatchLevel, LU: Any, pivots: Any, B: Any, left: bool = True, adjoint: bool = False) -> Any:
    rank = max(len(shape_of(LU)), len(shape_of(B)))
    if len(shape_of(pivots)) != len(shape_of(LU)) - 1 or len(shape_of(B)) < 2:
        return NotImplemented
    factors = _with_rank(level, LU, rank), _with_rank(level, pivots, rank - 1)
    return ops.linalg_lu_solve(*factors, _with_rank(level, B, rank), left=left, adjoint=adjoint)


@rule("linalg_pivot_order")
def _pivot_order(level: BatchLevel, pivots: Any, rows: int) -> Any:
    return ops.linalg_pivot_order(pivots._value, rows)


@rule("linalg_householder_product")
def _householder_product(level: BatchLevel, a: Any, tau: Any) -> Any:
    if len(shape_of(a)) != len(shape_of(tau)) + 1:
        return NotImplemented
    return ops.linalg_householder_product(level.full(a), level.full(tau))


@rule("linalg_solve_triangular")
def _solve_triangular(level: BatchLevel, A: Any, B: Any, **given: Any) -> Any:
    rank = max(len(shape_of(A)), len(shape_of(B)))
    if min(len(shape_of(A)), len(shape_of(B))) < 2:
        return NotImplemented
    return ops.linalg_solve_triangular(_with_rank(level, A, rank), _with_rank(level, B, rank), **given)


def _register_cross(name: str) -> None:
    def cross(level: BatchLevel, a: Any, b: Any, dim: int) -> Any:
        rank = max(len(shape_of(a)), len(shape_of(b)))
        return getattr(ops, name)(_with_rank(level, a, rank), _with_rank(level, b, rank), level.axis("cross", "dim", dim, rank))

    rule(name)(cross)


for _name in ("vector_product", "vector_product_real"):
    _register_cross(_name)


def _with_rank(level: BatchLevel, x: Any, rank: int) -> Any:
    """The value [batch, *shape], with axes of size 1 between until a sample has `rank` axes."""
    value = level.full(x)
    shape = shape_of(value)
    return ops.view(value, (shape[0], *(1,) * (rank + 1 - len(shape)), *shape[1:])) if len(shape) <= rank else value
