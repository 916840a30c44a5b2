"""The Python array API standard, version 2024.12, over flambeau's tensors: `x.__array_namespace__()`.

Libraries that are written for the standard (SciPy, scikit-learn, einops) find the functions of a tensor's own library by this
namespace. Its functions have the standard's names, arguments and types, and are ours underneath, gradients included. The extensions
`linalg` and `fft` are there. What differs: functions of uint64 that depend on an order (`less`, `maximum`, `floor_divide`, ...) and
products of matrices of uint16 to uint64 are refused; the operators and attributes of a tensor are PyTorch's (`x.size` is a method, and
0-d tensors stay weak in `x + y`, not in `add(x, y)`).

Example:
    >>> import flambeau as fl
    >>> x = fl.tensor([[1.0, 2.0], [3.0, 5.0]])
    >>> xp = x.__array_namespace__()
    >>> xp.sum(x, axis=0)
    tensor([4., 7.])
    >>> xp.linalg.det(x)
    tensor(-1.0000)
"""

from flambeau._C import (
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from flambeau._no_tensor import explains_functions as _explains_functions
from flambeau.array_api import fft, linalg
from flambeau.array_api._creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from flambeau.array_api._dtypes import (
    astype,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from flambeau.array_api._elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    conj,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    real,
    reciprocal,
    remainder,
    round,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from flambeau.array_api._info import (
    __array_namespace_info__,
)
from flambeau.array_api._manipulation import (
    broadcast_arrays,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    take,
    take_along_axis,
    tile,
    unstack,
)
from flambeau.array_api._reductions import (
    all,
    any,
    argmax,
    argmin,
    argsort,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    max,
    mean,
    min,
    nonzero,
    prod,
    searchsorted,
    sort,
    std,
    sum,
    var,
    where,
)
from flambeau.array_api._sets import (
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from flambeau.array_api.linalg import (
    matmul,
    tensordot,
    vecdot,
)

__array_api_version__ = "2024.12"
e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin",
    "argsort", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bool", "broadcast_arrays", "broadcast_to", "can_cast", "ceil", "clip",
    "complex128", "complex64", "concat", "conj", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum",
    "diff", "divide", "e", "empty", "empty_like", "equal", "exp", "expand_dims", "expm1", "eye", "fft", "finfo", "flip", "float32",
    "float64", "floor", "floor_divide", "from_dlpack", "full", "full_like", "greater", "greater_equal", "hypot", "iinfo", "imag", "inf",
    "int16", "int32", "int64", "int8", "isdtype", "isfinite", "isinf", "isnan", "less", "less_equal", "linalg", "linspace", "log",
    "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "matrix_transpose",
    "max", "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis", "multiply", "nan", "negative", "newaxis", "nextafter",
    "nonzero", "not_equal", "ones", "ones_like", "permute_dims", "pi", "positive", "pow", "prod", "real", "reciprocal", "remainder",
    "repeat", "reshape", "result_type", "roll", "round", "searchsorted", "sign", "signbit", "sin", "sinh", "sort", "sqrt", "square",
    "squeeze", "stack", "std", "subtract", "sum", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "tril", "triu",
    "trunc", "uint16", "uint32", "uint64", "uint8", "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack", "var",
    "vecdot", "where", "zeros", "zeros_like",
]  # fmt: skip

_explains_functions(globals())
