"""Windows of M elements, as `scipy.signal.windows` has them.

A symmetric window (`sym`) is for filters. One that is not is a period of a function whose element M + 1 would be the first again, as
spectra want it.

>>> import flambeau as fl
>>> fl.signal.windows.hann(5)
tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
>>> fl.signal.windows.hann(4, sym=False)
tensor([0.0000, 0.5000, 1.0000, 0.5000])
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._no_tensor import explains_functions

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser",
    "nuttall",
]  # fmt: skip


class _Window:
    """The arguments that all windows have, checked, and positions."""

    def __init__(self, name: str, M: Any, sym: bool, dtype: Any, layout: Any, device: Any, requires_grad: bool) -> None:
        self.name, self.dtype, self.requires_grad = name, _C.get_default_dtype() if dtype is None else dtype, requires_grad
        if isinstance(M, bool) or not isinstance(M, (int, Integral, Tensor)) or (isinstance(M, Tensor) and M.is_floating_point()):
            raise TypeError(f"{name}: M = {M!r}; expected an int")
        M = int(M)
        if M < 0:
            raise _C.ArgumentError(f"{name}: M = {M}; expected at least 0")
        if self.dtype not in (_C.float32, _C.float64):
            raise _C.ArgumentError(f"{name}: dtype = {self.dtype}; expected float32 or float64")
        if layout is not None and str(layout).rpartition(".")[2] != "strided":
            raise _C.ArgumentError(f"{name}: layout = {layout}; expected a strided one")
        self.M, self.n = M, M - 1 if sym else M  # n: steps of a period
        self.k = ops.arange(M, dtype=_C.float64, device=device)

    def finished(self, window: Tensor) -> Tensor:
        made = (ops.ones_like(window) if self.M == 1 else window).to(self.dtype)
        return made.requires_grad_() if self.requires_grad else made


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """a[0] - a[1] cos(x) + a[2] cos(2 x) - ..., x = 2 pi k / (M - 1).

    Shape:
        [M]

    Raises:
        ValueError: there is no weight in `a`.
    """
    return _cosines("general_cosine", M, a, sym, dtype, layout, device, requires_grad)


def _cosines(name: str, M: int, a: Iterable[float], sym: bool, dtype: Any, layout: Any, device: Any, requires_grad: bool) -> Tensor:
    w = _Window(name, M, sym, dtype, layout, device, requires_grad)
    if not isinstance(a, Iterable):
        raise TypeError(f"{name}: a is a {type(a).__name__}; expected weights")
    weights = [float(v) for v in a]
    if not weights:
        raise _C.ArgumentError(f"{name}: a is empty; expected at least one weight")
    angle = w.k * (2 * math.pi / max(w.n, 1))
    total = ops.full_like(angle, weights[0])
    for i, weight in enumerate(weights[1:], 1):
        total = total + (-1) ** i * weight * (angle * i).cos()
    return w.finished(total)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi k / (M - 1)).

    Shape:
        [M]
    """
    return _cosines("general_hamming", M, (alpha, 1.0 - alpha), sym, dtype, layout, device, requires_grad)


def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """0.54 - 0.46 cos(2 pi k / (M - 1)).

    Shape:
        [M]
    """
    return _cosines("hamming", M, (0.54, 0.46), sym, dtype, layout, device, requires_grad)


def hann(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """sin(pi k / (M - 1))^2.

    Shape:
        [M]
    """
    return _cosines("hann", M, (0.5, 0.5), sym, dtype, layout, device, requires_grad)


def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """0.42 - 0.5 cos(x) + 0.08 cos(2 x), x = 2 pi k / (M - 1).

    Shape:
        [M]
    """
    return _cosines("blackman", M, (0.42, 0.5, 0.08), sym, dtype, layout, device, requires_grad)


def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The four-term window with the smallest side lobes whose derivative is continuous (Nuttall, 1981).

    Shape:
        [M]
    """
    return _cosines("nuttall", M, (0.3635819, 0.4891775, 0.1365995, 0.0106411), sym, dtype, layout, device, requires_grad)


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A triangle: 1 - |2 k / (M - 1) - 1|.

    Shape:
        [M]
    """
    w = _Window("bartlett", M, sym, dtype, layout, device, requires_grad)
    return w.finished(1 - (w.k * (2 / max(w.n, 1)) - 1).abs())


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Half a period of a sine: sin(pi (k + 1/2) / M).

    Shape:
        [M]
    """
    w = _Window("cosine", M, sym, dtype, layout, device, requires_grad)
    return w.finished(((w.k + 0.5) * (math.pi / max(w.n + 1, 1))).sin())


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-|k - center| / tau).

    Args:
        center: by default the middle; symmetric windows have no other.

    Shape:
        [M]

    Raises:
        ValueError: tau <= 0, or a center of a symmetric window.
    """
    w = _Window("exponential", M, sym, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise _C.ArgumentError(f"exponential: tau = {tau}; expected more than 0")
    if sym and center is not None:
        raise _C.ArgumentError(f"exponential: center = {center} of a symmetric window; expected None, or sym=False")
    if center is None:
        return w.finished((-(w.k - w.n / 2).abs() / tau).exp())
    made = (-(w.k - float(center)).abs() / tau).exp().to(w.dtype)  # not 1 where there is one element: it may lie away from the center
    return made.requires_grad_() if requires_grad else made


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """exp(-((k - (M - 1) / 2) / std)^2 / 2).

    Shape:
        [M]

    Raises:
        ValueError: std <= 0.
    """
    w = _Window("gaussian", M, sym, dtype, layout, device, requires_grad)
    if std <= 0:
        raise _C.ArgumentError(f"gaussian: std = {std}; expected more than 0")
    return w.finished((-0.5 * ops.square((w.k - w.n / 2) / std)).exp())


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """i0(beta sqrt(1 - (2 k / (M - 1) - 1)^2)) / i0(beta).

    Shape:
        [M]

    Raises:
        ValueError: beta < 0.
    """
    w = _Window("kaiser", M, sym, dtype, layout, device, requires_grad)
    if beta < 0:
        raise _C.ArgumentError(f"kaiser: beta = {beta}; expected at least 0")
    inside = (1 - ops.square(w.k * (2 / max(w.n, 1)) - 1)).clamp(min=0).sqrt() * beta
    scale = ops.special_i0e(ops.full((), float(beta), dtype=_C.float64, device=w.k.device))
    return w.finished(ops.special_i0e(inside) / scale * (inside - beta).exp())


explains_functions(globals())
