"""Some eigenpairs of a large matrix by products with it alone (Knyazev, "Toward the optimal preconditioned eigensolver: locally optimal
block preconditioned conjugate gradient method", SIAM Journal on Scientific Computing 23, 2001)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import AssertedShapeError
from flambeau._info import finfo, whole_number
from flambeau._memory_format import strided
from flambeau._no_tensor import wants_tensors
from flambeau.autograd import is_grad_enabled, no_grad
from flambeau.linalg import cholesky, eigh, solve_triangular

MOST_ITERATIONS = 1000


@wants_tensors
def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[..., Any] | None = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:
    """The k largest or smallest eigenvalues E of a symmetric A, and their vectors: A X = B X diag(E), with X^T B X = I.

    The first guess, where none is given, is drawn from the default generator. With a gradient wanted, of a dense A, all pairs are
    computed (`linalg.eigh`), and k of them returned.

    Args:
        k: how many; by default as many as X has columns, or 1.
        B: symmetric and positive definite; by default the identity.
        X: a first guess; the search goes on with all of its columns.
        n: how many columns a first guess that is drawn has; by default k.
        iK: a preconditioner, which is near to A^-1.
        niter: no more iterations than that; by default 1000, and without a limit where it is negative.
        tol: how small |A x - E B x| / (|x| (|A| + |E| |B|)) becomes; by default the square root of the type's rounding.
        largest: True by default.
        method: 'ortho' or 'basic', which are one method here.
        tracker: refused.
        ortho_iparams, ortho_fparams, ortho_bparams: options of 'ortho' that have no counterpart here.

    Shape: A, B and iK [*, m, m], dense or, without *, sparse; X [*, m, n] -> E [*, k], X [*, m, k], with m >= 3 n.

    Raises:
        ShapeError: sizes that do not fit.
        ValueError: fewer than 3 n rows, or an option that there is not.

    Example:
        >>> import flambeau as fl
        >>> fl.lobpcg(fl.diag(fl.arange(1.0, 11.0)), 2)[0]
        tensor([10.0000,  9.0000])
    """
    k, n = _sizes(A, k, B, X, n, iK)
    if method not in (None, "basic", "ortho"):
        raise _C.ArgumentError(f"lobpcg: method = {method!r}; expected 'ortho' or 'basic'")
    if tracker is not None:
        raise _C.ArgumentError("lobpcg: tracker is not supported; niter=1 and X= go on from where an iteration ended")
    first = largest is None or largest
    if is_grad_enabled() and any(part is not None and part.requires_grad for part in (A, B)):
        return _all_pairs(A, B, k, first)
    limit = MOST_ITERATIONS if niter is None else whole_number("lobpcg", "niter", niter)
    small = finfo(A.dtype).eps ** 0.5 if tol is None else tol
    with no_grad():
        guess = ops.randn((*A.shape[:-1], n), dtype=A.dtype, device=A.device) if X is None else X
        if A.ndim == 2:
            E, V = _Pairs(A, B, iK, guess, first).found(limit, small)
            return E[:k], V[:, :k]
        count = A.shape[:-2].numel()
        flat = [[None] * count if part is None else part.reshape(count, *part.shape[-2:]) for part in (A, B, iK, guess)]
        done = [_Pairs(a, b, inverse, x, first).found(limit, small) for a, b, inverse, x in zip(*flat)]
        lead = A.shape[:-2]
        E, V = (ops.stack([pair[j] for pair in done]) for j in range(2))
        return E.reshape(*lead, -1)[..., :k], V.reshape(*lead, *V.shape[-2:])[..., :k]


def _sizes(A: Tensor, k: int | None, B: Tensor | None, X: Tensor | None, n: int | None, iK: Tensor | None) -> tuple[int, int]:
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise AssertedShapeError(f"lobpcg: A has shape {list(A.shape)}; expected square matrices")
    if not A.is_floating_point():
        raise _C.DTypeError(f"lobpcg: A is {A.dtype}; expected a real floating point type")
    for name, part in (("B", B), ("iK", iK)):
        if part is not None and part.shape != A.shape:
            raise AssertedShapeError(f"lobpcg: {name} has shape {list(part.shape)}; expected {list(A.shape)}, as A")
    if X is not None and (X.ndim != A.ndim or X.shape[:-1] != A.shape[:-1]):
        raise AssertedShapeError(f"lobpcg: X has shape {list(X.shape)}; expected {[*A.shape[:-1], 'n']}")
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = X.shape[-1] if X is not None else k if n is None else n
    if not 1 <= k <= n:
        raise _C.ArgumentError(f"lobpcg: k = {k}, and {n} columns to begin with; expected 1 <= k <= {n}")
    m = A.shape[-1]
    if m < 3 * n:
        raise ValueError(f"lobpcg: {m} rows for {n} columns; expected at least {3 * n} (linalg.eigh takes small matrices)")
    return k, n


def _all_pairs(A: Tensor, B: Tensor | None, k: int, largest: bool) -> tuple[Tensor, Tensor]:
    """By all eigenpairs of L^-1 A L^-T with B = L L^T."""
    if A.layout is not strided:
        raise _C.AutogradError("lobpcg: a gradient of a sparse A; expected a dense one (to_dense()), or no_grad()")
    if B is None:
        E, V = eigh(A)
    else:
        L = cholesky(B)
        half = solve_triangular(L, A, upper=False)
        E, V = eigh(solve_triangular(L, half.mT, upper=False))
        V = solve_triangular(L.mT, V, upper=True)
    if largest:
        E, V = E.flip(-1), V.flip(-1)
    return E[..., :k], V[..., :k]


class _Pairs:
    """The iteration for one matrix. A step looks for the best vectors in the span of [X W P], for which it is orthonormalised:

    X [m, n]: the vectors of now; W: their (preconditioned) residuals; P: the directions in which the last step moved them.
    """

    def __init__(self, A: Any, B: Any, iK: Any, X: Any, largest: bool) -> None:
        self.A, self.B, self.iK, self.X, self.largest = A, B, iK, X, largest

    def _times_b(self, x: Tensor) -> Tensor:
        return x if self.B is None else self.B @ x

    def _orthonormal(self, S: Tensor) -> Tensor:
        """A basis of S's span, with S^T B S = I: directions that rounding decides are left out."""
        S = S / (S * S).sum(0).sqrt().clamp(min=finfo(S.dtype).tiny)
        for _ in range(2):  # once more for what the first time rounded
            sizes, turn = eigh(S.mT @ self._times_b(S))
            kept = sizes > sizes.amax() * (10 * finfo(S.dtype).eps * len(sizes))
            S = S @ (turn[:, kept] * sizes[kept].rsqrt())
        return S

    def _best(self, S: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """The n best eigenvalues that vectors of the span of S can have, and these vectors."""
        E, C = eigh(S.mT @ (self.A @ S))
        if self.largest:
            E, C = E.flip(-1), C.flip(-1)
        return E[:n], S @ C[:, :n]

    def found(self, limit: int, tol: float) -> tuple[Tensor, Tensor]:
        n = self.X.shape[1]
        a_size, b_size = (float((part @ self.X).norm() / self.X.norm()) for part in (self.A, _Identity() if self.B is None else self.B))
        E, X = self._best(self._orthonormal(self.X), n)
        if X.shape[1] < n:
            raise _C.ArgumentError(f"lobpcg: the columns of X depend on each other; expected {n} that do not")
        P: Tensor | None = None
        step = 0
        while step != limit:
            step += 1
            R = self.A @ X - self._times_b(X) * E
            sizes = (R * R).sum(0).sqrt() / ((X * X).sum(0).sqrt() * (a_size + E.abs() * b_size))
            left = sizes > tol
            if not bool(left.any()):
                break
            W = R[:, left] if self.iK is None else self.iK @ R[:, left]
            W = W - X @ (X.mT @ self._times_b(W))
            parts = [X, W] if P is None else [X, W, P[:, left]]
            E, new = self._best(self._orthonormal(ops.cat(parts, 1)), n)
            P = new - X @ (X.mT @ self._times_b(new))
            X = new
        return E, X


class _Identity:
    def __matmul__(self, x: Tensor) -> Tensor:
        return x
