"""Eigenvalues and eigenvectors of square matrices that need not be symmetric, by NumPy's LAPACK. They are complex."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._out import deliver
from flambeau._results import result
from flambeau.amp.autocast_mode import widens
from flambeau.linalg import _lapack_arrays as arrays
from flambeau.linalg._arguments import check_tensors, wants_gradient
from flambeau.linalg._complex_ops import (
    as_array,
    as_tensor,
    check_gauge,
    gaps_of,
    over,
    solved,
    with_diagonal,
)
from flambeau.linalg._leading import OverLeadingAxes


@result("linalg_eig")
class Eig(NamedTuple):
    """What `eig` returns: A @ eigenvectors = eigenvectors * eigenvalues."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class _Eig(OverLeadingAxes):
    """w and V; V is empty without `vectors`."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, vectors: bool) -> Any:
        a, kind = as_array(A), A.dtype.to_complex()
        if vectors:
            w, V = arrays.spectrum("linalg.eig", np.linalg.eig, a)
        else:
            w, V = arrays.spectrum("linalg.eig", np.linalg.eigvals, a), np.empty(0, a.dtype)
        w, V = as_tensor(w).to(kind), as_tensor(V).to(kind)
        ctx.real = not A.is_complex()
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w, V)
        return w, V

    @staticmethod
    def backward(ctx: Any, dw: Tensor | None, dV: Tensor | None) -> Any:
        """V^-H (diag dw + (V^H dV - V^H V diag Re(V^H dV)) / conj(w_j - w_i)) V^H (Boeddeker et al., arXiv:1701.00392, 4.77)."""
        w, V = ctx.saved_tensors
        if V.ndim < 2:
            raise _C.AutogradError("linalg.eigvals: the derivative depends on eigenvectors, which were not computed; use linalg.eig")
        if dV is None:
            middle = ops.zeros_like(V)
        else:
            x = V.mH @ dV
            d = ops.diagonal(x, 0, -2, -1)
            check_gauge("linalg.eig", "eigenvectors", d.imag)
            middle = over(x - (V.mH @ V) * d.real.unsqueeze(-2), ops.conj(gaps_of(w)))
        if dw is not None:
            middle = with_diagonal(middle, dw)
        dA = solved(V.mH, middle @ V.mH)[0]
        return (dA.real if ctx.real else dA), None


def _check(op: str, A: Tensor) -> None:
    check_tensors(op, A=A)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        if A.ndim >= 2:
            raise _C.ShapeError(f"{op}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")
        raise _C.ShapeError(f"{op}: A has shape {list(A.shape)}; expected square matrices, [..., n, n]")
    if A.dtype not in (_C.float32, _C.float64, _C.complex64, _C.complex128):
        raise _C.DTypeError(f"{op}: A is {A.dtype}; expected float32, float64, complex64 or complex128")


@widens
def eig(A: Tensor, *, out: Any = None) -> Eig:
    """Eigenvalues of square matrices, in no order, and eigenvectors in columns. They are complex, of real matrices too.

    An eigenvector has length 1 and an arbitrary phase. A loss that depends on the phase has no gradient and is refused in backward.
    The gradient by eigenvectors divides by differences of eigenvalues: it is not finite where two are equal.

    Shape:
        A [..., n, n] -> eigenvalues [..., n], eigenvectors [..., n, n]

    Raises:
        LinAlgError: an element is not finite.
        AutogradError: in backward, of a loss that depends on phases.

    Example:
        >>> import flambeau as fl
        >>> fl.linalg.eig(fl.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
        tensor([0.+1.j, 0.-1.j])
    """
    _check("linalg.eig", A)
    if A.is_meta:
        kind = A.dtype.to_complex()
        found = [ops.empty(shape, dtype=kind, device=A.device) for shape in (A.shape[:-1], A.shape)]
    else:
        found = _Eig.apply(A, True)
    return deliver("linalg.eig", Eig(*found), out)  # type: ignore[no-any-return]


@widens
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of `eig` alone. Their gradient is computed by the eigenvectors.

    Shape:
        A [..., n, n] -> [..., n]
    """
    _check("linalg.eigvals", A)
    if A.is_meta:
        value = ops.empty(A.shape[:-1], dtype=A.dtype.to_complex(), device=A.device)
    else:
        value = _Eig.apply(A, wants_gradient(A))[0]
    return deliver("linalg.eigvals", value, out)  # type: ignore[no-any-return]
