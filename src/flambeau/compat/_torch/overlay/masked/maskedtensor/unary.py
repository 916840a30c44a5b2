"""`torch.masked.maskedtensor.unary`: functions of one masked tensor, element by element."""

from __future__ import annotations

from flambeau.compat._torch.overlay.ops import aten

__all__: list[str] = []

UNARY_NAMES = (
    "abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil clamp clip "
    "conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma log log10 log1p log2 logit i0 isnan "
    "nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn signbit sin sinc sinh sqrt square tan tanh trunc"
).split()
INPLACE_UNARY_NAMES = [f"{name}_" for name in UNARY_NAMES if name not in "angle positive signbit isnan".split()]

NATIVE_UNARY_FNS = [getattr(aten, name) for name in UNARY_NAMES]
NATIVE_INPLACE_UNARY_FNS = [getattr(aten, name) for name in INPLACE_UNARY_NAMES]
