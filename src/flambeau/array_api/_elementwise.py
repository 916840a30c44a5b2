"""Element-wise functions: ours, with the standard's names, types and promotion.

Arguments are tensors, of which one may be a Python number. Tensors of different types meet in the type that holds both, 0-d tensors
too, which is where operators between tensors differ (there 0-d tensors stay weak, as PyTorch's do).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau.array_api._dtypes import dtype_of, isdtype, together


def _refuse(name: str, dtype: Any, kinds: Any) -> None:
    raise _C.DTypeError(f"{name}: x is {dtype}; expected {' or '.join(kinds)}")


def _unary(name: str, kinds: tuple[str, ...], doc: str, function: Callable[[Tensor], Tensor] | None = None) -> Callable[[Tensor], Tensor]:
    compute = getattr(ops, name) if function is None else function

    def call(x: Tensor, /) -> Tensor:
        if not isdtype(x.dtype, kinds):
            _refuse(name, x.dtype, kinds)
        return compute(x)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{doc} Takes {' and '.join(kinds)} types."
    return call


def _binary(
    name: str, kinds: tuple[str, ...], doc: str, function: Callable[[Tensor, Tensor], Tensor] | None = None
) -> Callable[[Any, Any], Tensor]:
    compute = getattr(ops, name) if function is None else function

    def call(x1: Any, x2: Any, /) -> Tensor:
        for x in (x1, x2):
            if isinstance(x, Tensor) and not isdtype(dtype_of(x), kinds):
                _refuse(name, x.dtype, kinds)
        return compute(*together(x1, x2))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{doc} Takes {' and '.join(kinds)} types."
    return call


_BOOL, _BITS, _REAL = ("bool",), ("bool", "integral"), ("integral", "real floating")
_FLOAT, _FLOATS, _NUMERIC, _ALL = ("real floating",), ("real floating", "complex floating"), ("numeric",), ("bool", "numeric")


def _sign(x: Tensor) -> Tensor:
    if x.is_complex():
        return ops.sgn(x)
    return ops.where(x != x, x, ops.sign(x)) if x.is_floating_point() else ops.sign(x)


def _same(x: Tensor) -> Tensor:
    return x.clone()


acos = _unary("acos", _FLOATS, "Inverse cosine.")
acosh = _unary("acosh", _FLOATS, "Inverse hyperbolic cosine.")
asin = _unary("asin", _FLOATS, "Inverse sine.")
asinh = _unary("asinh", _FLOATS, "Inverse hyperbolic sine.")
atan = _unary("atan", _FLOATS, "Inverse tangent.")
atanh = _unary("atanh", _FLOATS, "Inverse hyperbolic tangent.")
bitwise_invert = _unary("bitwise_invert", _BITS, "Each bit turned round.", ops.bitwise_not)
ceil = _unary("ceil", _REAL, "The smallest whole number that is not less.")
conj = _unary("conj", _NUMERIC, "The conjugate.")
cos = _unary("cos", _FLOATS, "Cosine.")
cosh = _unary("cosh", _FLOATS, "Hyperbolic cosine.")
exp = _unary("exp", _FLOATS, "e^x.")
expm1 = _unary("expm1", _FLOATS, "e^x - 1.")
floor = _unary("floor", _REAL, "The largest whole number that is not greater.")
imag = _unary("imag", ("complex floating",), "The imaginary part.")
isfinite = _unary("isfinite", _NUMERIC, "Neither infinite nor NaN.")
isinf = _unary("isinf", _NUMERIC, "Infinite.")
isnan = _unary("isnan", _NUMERIC, "NaN.")
log = _unary("log", _FLOATS, "Natural logarithm.")
log10 = _unary("log10", _FLOATS, "Logarithm to base 10.")
log1p = _unary("log1p", _FLOATS, "log(1 + x).")
log2 = _unary("log2", _FLOATS, "Logarithm to base 2.")
logical_not = _unary("logical_not", _BOOL, "Not.")
negative = _unary("negative", _NUMERIC, "-x.", ops.neg)
positive = _unary("positive", _NUMERIC, "A copy.", _same)
real = _unary("real", _NUMERIC, "The real part.", lambda x: x.real)
reciprocal = _unary("reciprocal", _FLOATS, "1 / x.")
round = _unary("round", _NUMERIC, "The nearest whole number, the even one of two; of complex numbers, of both parts.",
               lambda x: ops.complex(ops.round(x.real), ops.round(x.imag)) if x.is_complex() else ops.round(x))  # fmt: skip
sign = _unary("sign", _NUMERIC, "-1, 0 or 1, and NaN of NaN; x / |x| of complex numbers.", _sign)
signbit = _unary("signbit", _FLOAT, "Whether the sign is minus, of -0.0 too.")
sin = _unary("sin", _FLOATS, "Sine.")
sinh = _unary("sinh", _FLOATS, "Hyperbolic sine.")
sqrt = _unary("sqrt", _FLOATS, "Square root.")
square = _unary("square", _NUMERIC, "x * x.", lambda x: x * x)
tan = _unary("tan", _FLOATS, "Tangent.")
tanh = _unary("tanh", _FLOATS, "Hyperbolic tangent.")
trunc = _unary("trunc", _REAL, "The whole part.")
abs = _unary("abs", _NUMERIC, "The magnitude.")

add = _binary("add", _NUMERIC, "x1 + x2.")
atan2 = _binary("atan2", _FLOAT, "The angle of the point (x2, x1).")
bitwise_and = _binary("bitwise_and", _BITS, "Bits of both.")
bitwise_left_shift = _binary("bitwise_left_shift", ("integral",), "x1 with its bits moved to the left by x2.")
bitwise_or = _binary("bitwise_or", _BITS, "Bits of either.")
bitwise_right_shift = _binary("bitwise_right_shift", ("integral",), "x1 with its bits moved to the right by x2, with its sign.")
bitwise_xor = _binary("bitwise_xor", _BITS, "Bits of one alone.")
copysign = _binary("copysign", _FLOAT, "|x1| with the sign of x2.")
divide = _binary("divide", _FLOATS, "x1 / x2.", ops.div)
equal = _binary("equal", _ALL, "x1 == x2.", ops.eq)
floor_divide = _binary("floor_divide", _REAL, "The largest whole number that is not greater than x1 / x2.")
greater = _binary("greater", _REAL, "x1 > x2.", ops.gt)
greater_equal = _binary("greater_equal", _REAL, "x1 >= x2.", ops.ge)
hypot = _binary("hypot", _FLOAT, "The square root of x1^2 + x2^2.")
less = _binary("less", _REAL, "x1 < x2.", ops.lt)
less_equal = _binary("less_equal", _REAL, "x1 <= x2.", ops.le)
logaddexp = _binary("logaddexp", _FLOAT, "log(e^x1 + e^x2).")
logical_and = _binary("logical_and", _BOOL, "And.")
logical_or = _binary("logical_or", _BOOL, "Or.")
logical_xor = _binary("logical_xor", _BOOL, "One alone.")
maximum = _binary("maximum", _REAL, "The larger; NaN where one is.")
minimum = _binary("minimum", _REAL, "The smaller; NaN where one is.")
multiply = _binary("multiply", _NUMERIC, "x1 * x2.", ops.mul)
nextafter = _binary("nextafter", _FLOAT, "The next number after x1 towards x2.")
not_equal = _binary("not_equal", _ALL, "x1 != x2.", ops.ne)
pow = _binary("pow", _NUMERIC, "x1 to the power of x2.")
remainder = _binary("remainder", _REAL, "What floor_divide leaves, with the sign of x2.")
subtract = _binary("subtract", _NUMERIC, "x1 - x2.", ops.sub)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """x, at least `min` and at most `max`, numbers or tensors that broadcast. The type is x's.

    Raises:
        DTypeError: x is neither of an integer type nor a float.
    """
    if not isdtype(x.dtype, _REAL):
        _refuse("clip", x.dtype, _REAL)
    for bound, choose in ((min, ops.maximum), (max, ops.minimum)):
        if bound is not None:
            x = choose(x, bound.to(x.dtype) if isinstance(bound, Tensor) else ops.full((), bound, dtype=x.dtype, device=x.device))
    return x.clone() if min is None and max is None else x
