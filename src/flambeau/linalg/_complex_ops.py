"""The ops of `ops/linalg.yaml` for complex matrices: NumPy's LAPACK forward, and gradients as formulas of ops.

Each function here stands before the op of its name: real matrices go to the op, complex ones are checked by it (on the meta device, as
real ones, which also gives the shapes) and computed here. Gradients follow PyTorch's convention; X.mH is the conjugate transpose.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau import _C
from flambeau._C import AutogradError, LinAlgError, Tensor, ops
from flambeau.linalg import _lapack_arrays as arrays
from flambeau.linalg._leading import OverLeadingAxes


def beside(*complex_results: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes the op of the function's name serve real arguments, and its checks complex ones.

    Args:
        complex_results: which results are complex where the arguments are.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        op = getattr(ops, function.__name__)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = [a for a in args if isinstance(a, Tensor)]
            if not any(a.is_complex() for a in given):
                return op(*args, **kwargs)
            floats = {a.dtype for a in given if a.is_complex() or a.is_floating_point()}
            if len(floats) > 1:
                name = function.__name__.replace("_", ".", 1)
                raise _C.DTypeError(f"{name}: the matrices are {' and '.join(sorted(str(t) for t in floats))}; expected one dtype")
            plan = op(*(_stand_in(a) if isinstance(a, Tensor) else a for a in args), **kwargs)
            many = isinstance(plan, tuple)
            if any(a.is_meta for a in given):
                (kind,) = floats
                shown = [p.to(kind) if k in complex_results else p for k, p in enumerate(plan if many else (plan,))]
            else:
                found = function(*args, **kwargs)
                shown = list(found) if many else [found]
            return type(plan)(shown) if many else shown[0]

        return call

    return decorate


def _stand_in(x: Tensor) -> Tensor:
    dtype = x.dtype.to_real() if x.is_complex() else x.dtype
    return ops.empty(x.shape, dtype=dtype, device="meta")


def as_array(x: Tensor) -> Any:
    return x.detach().numpy()


def as_tensor(a: Any) -> Tensor:
    return _C.from_buffer(np.ascontiguousarray(a).reshape(np.shape(a)))


def refuse(op: str, info: Tensor, text: str) -> None:
    """Raises for the first matrix that failed, as the kernels of real matrices do."""
    while hasattr(info, "_value"):  # inside of vmap: the numbers of all samples
        info = info._value
    failed = as_array(info).reshape(-1)
    for i in np.flatnonzero(failed)[:1]:
        raise LinAlgError(f"{op}: {f'(Batch element {i}): ' if info.ndim else ''}{text.format(failed[i])}")


def eye_like(x: Tensor) -> Tensor:
    return ops.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def as_column(x: Tensor) -> Tensor:
    return x.unsqueeze(-1)


def scaled(scale: Tensor, X: Tensor) -> Tensor:
    """Each matrix times its own number."""
    return scale.unsqueeze(-1).unsqueeze(-1) * X


def with_diagonal(X: Tensor, d: Tensor) -> Tensor:
    return X + as_column(d).to(X.dtype) * eye_like(X)


def halved_hermitian(X: Tensor) -> Tensor:
    """X + X^H with its diagonal halved: the real part of X's."""
    both = X + X.mH
    return both - eye_like(X) * both / 2


def over(X: Tensor, gaps: Tensor) -> Tensor:
    """X / gaps beside the diagonal, and 0 on it or where both are 0."""
    diagonal = ops.eye(X.shape[-1], dtype=_C.bool, device=X.device)
    X, gaps = ops.masked_fill(X, diagonal, 0), ops.masked_fill(gaps, diagonal, 1)
    return X / ops.masked_fill(gaps, (gaps == 0) & (X == 0), 1)


def gaps_of(v: Tensor) -> Tensor:
    """v_j - v_i."""
    return v.unsqueeze(-2) - as_column(v)


def check_gauge(op: str, what: str, phases: Tensor) -> None:
    """Refuses a loss that depends on the phases of vectors, which are arbitrary: its derivative by them has to vanish."""
    size = float(phases.detach().abs().max()) if phases.numel() else 0.0
    if size > 1e-2:
        raise AutogradError(
            f"{op}: {what} are specified up to multiplication by e^(i phi), and the loss depends on phi (its derivative is {size:.3g}), "
            "so that it is ill-defined; expected a loss of magnitudes or of products in which phi cancels"
        )


class Solve(OverLeadingAxes):
    """X and info of A X = B, for batches of one shape."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor) -> Any:
        x, info = (as_tensor(a) for a in arrays.solve(as_array(A), as_array(B)))
        ctx.save_for_backward(A, x)
        ctx.mark_non_differentiable(info)
        return x, info

    @staticmethod
    def backward(ctx: Any, dx: Tensor, _: Any) -> Any:
        A, x = ctx.saved_tensors
        g = Solve.apply(A.mH, dx)[0]
        return -(g @ x.mH) if ctx.needs_input_grad[0] else None, g


def broadcast(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the batch of both."""
    batch = np.broadcast_shapes(tuple(A.shape[:-2]), tuple(B.shape[:-2]))
    return A.expand((*batch, *A.shape[-2:])), B.expand((*batch, *B.shape[-2:]))


def solved(A: Tensor, B: Tensor, left: bool = True) -> tuple[Tensor, Tensor]:
    if not left:
        x, info = solved(A.mT, B.mT)
        return x.mT, info
    return Solve.apply(*broadcast(A, B))  # type: ignore[no-any-return]
