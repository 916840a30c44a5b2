"""Factors of low rank by random projections (Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM Review 53, 2011)."""

from __future__ import annotations

from numbers import Integral

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._no_tensor import wants_tensors
from flambeau.linalg import qr, svd

MOST_ITERATIONS = 1000


def _check(op: str, A: Tensor, q: int, niter: int) -> None:
    if A.ndim < 2 or not (A.is_floating_point() or A.is_complex()):
        raise _C.ShapeError(f"{op}: A is {A.dtype} of shape {list(A.shape)}; expected floating point or complex matrices")
    m, n = A.shape[-2:]
    if isinstance(q, bool) or not isinstance(q, (int, Integral)) or not 0 <= q <= min(m, n):
        raise _C.ArgumentError(f"{op}: q = {q} for matrices of {m} x {n}; expected 0 <= q <= {min(m, n)}")
    if not 0 <= niter <= MOST_ITERATIONS:
        raise _C.ArgumentError(f"{op}: niter = {niter}; expected 0 to {MOST_ITERATIONS} (a few sharpen all that float64 can tell apart)")


class _Less:
    """A sparse matrix less a dense one that broadcasts to it: what products need of the difference, which has far more elements."""

    def __init__(self, A: Tensor, M: Tensor, turned: bool = False) -> None:
        self.A, self.M, self.turned = A, M, turned
        self.shape, self.dtype, self.device = (tuple(A.shape)[::-1] if turned else tuple(A.shape)), A.dtype, A.device

    @property
    def mH(self) -> _Less:
        return _Less(self.A, self.M, not self.turned)

    def __matmul__(self, X: Tensor) -> Tensor:
        if not self.turned:
            columns = X if self.M.shape[-1] > 1 else X.sum(-2, keepdim=True)
            return self.A @ X - self.M @ columns
        rows = X if self.M.shape[-2] > 1 else X.sum(-2, keepdim=True)
        return self.A.mH @ X - self.M.mH @ rows


def _basis(A: Tensor | _Less, q: int, niter: int) -> Tensor:
    """Orthonormal columns [..., m, q] in which most of what A makes lies: algorithm 4.4, a subspace iteration."""
    start = ops.randn((A.shape[-1], q), dtype=A.dtype, device=A.device)
    Q = qr(A @ start)[0]
    for _ in range(niter):
        Q = qr(A.mH @ Q)[0]
        Q = qr(A @ Q)[0]
    return Q  # type: ignore[no-any-return]


@wants_tensors
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """U, S, V of the q largest singular values of A (or A - M), approximately: A is about U diag(S) V^H.

    The numbers that the projection draws come from the default generator. `linalg.svd` is exact, and faster where q is not far below the
    sizes of A.

    Args:
        q: somewhat more than the rank that is looked for.
        niter: iterations that sharpen it where singular values decay slowly.
        M: is taken from A; broadcasts to it.

    Shape:
        A [..., m, n] -> U [..., m, q], S [..., q], V [..., n, q]

    Example:
        >>> import flambeau as fl
        >>> A = fl.outer(fl.tensor([3.0, 4.0]), fl.tensor([1.0, 0.0, 0.0]))
        >>> U, S, V = fl.svd_lowrank(A, q=1)
        >>> S
        tensor([5.])
    """
    q = 6 if q is None else q
    _check("svd_lowrank", A, q, 2 if niter is None else niter)
    matrix: Tensor | _Less = A
    if M is not None:
        matrix = _Less(A, M if M.ndim > 1 else M.reshape(1, -1)) if A.is_sparse or A.is_sparse_csr else A - M
    wide = A.shape[-2] < A.shape[-1]
    tall = matrix.mH if wide else matrix
    Q = _basis(tall, q, 2 if niter is None else niter)
    U, S, Vh = svd((tall.mH @ Q).mH if isinstance(tall, _Less) else Q.mH @ tall, full_matrices=False)
    U, V = Q @ U, Vh.mH
    return (V, S, U) if wide else (U, S, V)


@wants_tensors
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """`svd_lowrank` of data, an observation in each row, without the mean of each column: V [..., n, q] are the principal directions.

    A sparse A stays sparse: the means are taken from its products.

    Args:
        q: 6, or the smaller size of A where that is less, by default.
        center: False leaves the means where they are.

    Shape:
        A [..., m, n] -> U [..., m, q], S [..., q], V [..., n, q]
    """
    if A.ndim >= 2 and q is None:
        q = min(6, *A.shape[-2:])
    _check("pca_lowrank", A, -1 if q is None else q, niter)
    if not center:
        return svd_lowrank(A, q, niter)
    if A.is_sparse or A.is_sparse_csr:
        ones = ops.ones((A.shape[-2], 1), dtype=A.dtype, device=A.device)
        means = (A.mH @ ones).mH / A.shape[-2]
    else:
        means = A.mean(-2, keepdim=True)
    return svd_lowrank(A, q, niter, means)
