"""The functions of `flambeau.special`: each is an op of the table under its public name, with `out=`."""

from __future__ import annotations

from typing import Any, Protocol

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._info import whole_number
from flambeau._out import deliver


class Fn(Protocol):
    def __call__(self, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...


class Fn2(Protocol):
    def __call__(self, input: Tensor | float, other: Tensor | float, *, out: Tensor | None = None) -> Tensor: ...


class Poly(Protocol):
    def __call__(self, input: Tensor | float, n: Tensor | float, *, out: Tensor | None = None) -> Tensor: ...


def _unary(name: str, op: str, doc: str) -> Fn:
    compute = getattr(ops, op)

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        return deliver(f"special.{name}", compute(input), out)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}\n\nShape:\n    input [...] -> [...]; integers become the default float type.\n"
    return function


def _binary(name: str, op: str, doc: str) -> Fn2:
    compute = getattr(ops, op)

    def function(input: Tensor | float, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
        if not isinstance(input, Tensor) and not isinstance(other, Tensor):
            raise TypeError(f"special.{name}: input = {input!r}, other = {other!r}; expected a tensor among them")
        return deliver(f"special.{name}", compute(input, other), out)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    shape = "input, other: tensors that broadcast, or one of them a number; integers become the default float type."
    function.__doc__ = f"{doc}\n\nShape:\n    {shape}\n"
    return function


def _polynomial(name: str, what: str) -> Poly:
    compute = getattr(ops, f"special_{name}")

    def function(input: Tensor | float, n: Tensor | float, *, out: Tensor | None = None) -> Tensor:
        if not isinstance(input, Tensor) and not isinstance(n, Tensor):
            raise TypeError(f"special.{name}: input = {input!r}, n = {n!r}; expected a tensor among them")
        return deliver(f"special.{name}", compute(input, n), out)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{what} of degree n, by its recurrence in double; 0 of negative degrees.\n\n"
        "A degree with a fraction counts as the integer towards 0, and one beyond 2^20 gives NaN.\n\n"
        "Shape:\n    input, n: tensors that broadcast, or one of them a number.\n"
    )
    return function


airy_ai: Fn = _unary("airy_ai", "special_airy_ai", "The Airy function Ai.")
bessel_j0: Fn = _unary("bessel_j0", "special_bessel_j0", "Bessel function of the first kind, order 0.")
bessel_j1: Fn = _unary("bessel_j1", "special_bessel_j1", "Bessel function of the first kind, order 1.")
bessel_y0: Fn = _unary("bessel_y0", "special_bessel_y0", "Bessel function of the second kind, order 0.")
bessel_y1: Fn = _unary("bessel_y1", "special_bessel_y1", "Bessel function of the second kind, order 1.")
digamma: Fn = _unary("digamma", "digamma", "The derivative of gammaln.")
entr: Fn = _unary("entr", "special_entr", "-x log(x), 0 at 0, and -inf below.")
erf: Fn = _unary("erf", "erf", "The error function.")
erfc: Fn = _unary("erfc", "erfc", "1 - erf(x), exact for large x.")
erfcx: Fn = _unary("erfcx", "special_erfcx", "e^(x^2) erfc(x), which does not underflow for large x.")
erfinv: Fn = _unary("erfinv", "erfinv", "The inverse of erf.")
exp2: Fn = _unary("exp2", "exp2", "2 to the power of x.")
expit: Fn = _unary("expit", "sigmoid", "1 / (1 + e^-x).")
expm1: Fn = _unary("expm1", "expm1", "e^x - 1, exact near 0.")
gammaln: Fn = _unary("gammaln", "lgamma", "Logarithm of the absolute value of the gamma function.")
i0: Fn = _unary("i0", "i0", "Modified Bessel function of the first kind, order 0.")
i0e: Fn = _unary("i0e", "special_i0e", "e^-|x| i0(x), which does not overflow.")
i1: Fn = _unary("i1", "i1", "Modified Bessel function of the first kind, order 1.")
i1e: Fn = _unary("i1e", "special_i1e", "e^-|x| i1(x), which does not overflow.")
log1p: Fn = _unary("log1p", "log1p", "log(1 + x), exact near 0.")
log_ndtr: Fn = _unary("log_ndtr", "special_log_ndtr", "Logarithm of ndtr, finite far below zero.")
modified_bessel_i0: Fn = _unary("modified_bessel_i0", "i0", "Modified Bessel function of the first kind, order 0: i0.")
modified_bessel_i1: Fn = _unary("modified_bessel_i1", "i1", "Modified Bessel function of the first kind, order 1: i1.")
modified_bessel_k0: Fn = _unary("modified_bessel_k0", "special_modified_bessel_k0", "Modified Bessel function of the second kind, order 0.")
modified_bessel_k1: Fn = _unary("modified_bessel_k1", "special_modified_bessel_k1", "Modified Bessel function of the second kind, order 1.")
ndtr: Fn = _unary("ndtr", "special_ndtr", "The distribution function of the standard normal distribution.")
ndtri: Fn = _unary("ndtri", "special_ndtri", "The inverse of ndtr; NaN outside of [0, 1].")
psi: Fn = _unary("psi", "digamma", "The derivative of gammaln: digamma.")
scaled_modified_bessel_k0: Fn = _unary("scaled_modified_bessel_k0", "special_scaled_modified_bessel_k0", "e^x modified_bessel_k0(x).")
scaled_modified_bessel_k1: Fn = _unary("scaled_modified_bessel_k1", "special_scaled_modified_bessel_k1", "e^x modified_bessel_k1(x).")
sinc: Fn = _unary("sinc", "sinc", "sin(pi x) / (pi x), 1 at 0.")
spherical_bessel_j0: Fn = _unary("spherical_bessel_j0", "special_spherical_bessel_j0", "sin(x) / x, 1 at 0.")

xlog1py: Fn2 = _binary("xlog1py", "special_xlog1py", "input log(1 + other), 0 where input is 0 and other no NaN.")
xlogy: Fn2 = _binary("xlogy", "xlogy", "input log(other), 0 where input is 0 and other no NaN.")
zeta: Fn2 = _binary("zeta", "special_zeta", "Hurwitz' zeta function: the sum of (other + k)^-input over k >= 0; NaN for input < 1.")

chebyshev_polynomial_t: Poly = _polynomial("chebyshev_polynomial_t", "Chebyshev polynomial of the first kind")
chebyshev_polynomial_u: Poly = _polynomial("chebyshev_polynomial_u", "Chebyshev polynomial of the second kind")
chebyshev_polynomial_v: Poly = _polynomial("chebyshev_polynomial_v", "Chebyshev polynomial of the third kind")
chebyshev_polynomial_w: Poly = _polynomial("chebyshev_polynomial_w", "Chebyshev polynomial of the fourth kind")
shifted_chebyshev_polynomial_t: Poly = _polynomial("shifted_chebyshev_polynomial_t", "Chebyshev polynomial of the first kind at 2 x - 1")
shifted_chebyshev_polynomial_u: Poly = _polynomial("shifted_chebyshev_polynomial_u", "Chebyshev polynomial of the second kind at 2 x - 1")
shifted_chebyshev_polynomial_v: Poly = _polynomial("shifted_chebyshev_polynomial_v", "Chebyshev polynomial of the third kind at 2 x - 1")
shifted_chebyshev_polynomial_w: Poly = _polynomial("shifted_chebyshev_polynomial_w", "Chebyshev polynomial of the fourth kind at 2 x - 1")
hermite_polynomial_h: Poly = _polynomial("hermite_polynomial_h", "Physicists' Hermite polynomial")
hermite_polynomial_he: Poly = _polynomial("hermite_polynomial_he", "Probabilists' Hermite polynomial")
laguerre_polynomial_l: Poly = _polynomial("laguerre_polynomial_l", "Laguerre polynomial")
legendre_polynomial_p: Poly = _polynomial("legendre_polynomial_p", "Legendre polynomial")


def gammainc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised lower incomplete gamma function P(input, other); with a gradient by `other` alone.

    Shape:
        input, other: tensors that broadcast
    """
    return deliver("special.gammainc", ops.igamma(input, other), out)  # type: ignore[no-any-return]


def gammaincc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised upper incomplete gamma function Q = 1 - P; with a gradient by `other` alone.

    Shape:
        input, other: tensors that broadcast
    """
    return deliver("special.gammaincc", ops.igammac(input, other), out)  # type: ignore[no-any-return]


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma.

    Shape:
        input [...] -> [...]

    Raises:
        ValueError: n < 0.

    Example:
        >>> import flambeau as fl
        >>> fl.special.polygamma(1, fl.tensor([1.0, 0.5]))
        tensor([1.6449, 4.9348])
    """
    order = whole_number("special.polygamma", "n", n)
    return deliver("special.polygamma", ops.polygamma_of(input, order), out)  # type: ignore[no-any-return]


def multigammaln(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the multivariate gamma function: p (p - 1) / 4 log(pi) + the sum of gammaln(input - k / 2), k < p.

    Shape:
        input [...], above (p - 1) / 2 -> [...]
    """
    p = whole_number("special.multigammaln", "p", p)
    if p < 1:
        raise _C.ArgumentError(f"special.multigammaln: p = {p}; expected p >= 1")
    x = input if input.is_floating_point() else input.to(_C.get_default_dtype())
    steps = ops.arange(p, dtype=x.dtype, device=x.device) * -0.5
    total = ops.lgamma(x.unsqueeze(-1) + steps).sum(-1) + p * (p - 1) * 0.28618247146235004  # log(pi) / 4
    return deliver("special.multigammaln", total, out)  # type: ignore[no-any-return]


def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), x limited to [eps, 1 - eps] where eps is given."""
    return deliver("special.logit", ops.logit(input) if eps is None else ops.logit(input, eps), out)  # type: ignore[no-any-return]


def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """Nearest integer, halves to even; or with that many decimals."""
    decimals = whole_number("special.round", "decimals", decimals)
    return deliver("special.round", ops.round(input, decimals=decimals) if decimals else ops.round(input), out)  # type: ignore[no-any-return]


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """log(sum(exp(x))) along `dim`."""
    return deliver("special.logsumexp", ops.logsumexp(input, dim, keepdim), out)  # type: ignore[no-any-return]


def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """e^x, divided by its sum along `dim`."""
    return ops.softmax(input, dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Logarithm of softmax."""
    return ops.log_softmax(input, dim, dtype=dtype)


__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t", "chebyshev_polynomial_u",
    "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1",
    "gammainc", "gammaincc", "gammaln", "hermite_polynomial_h", "hermite_polynomial_he", "i0", "i0e", "i1", "i1e", "laguerre_polynomial_l",
    "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "modified_bessel_i0", "modified_bessel_i1",
    "modified_bessel_k0", "modified_bessel_k1", "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "sinc", "softmax", "spherical_bessel_j0", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
