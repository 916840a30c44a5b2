"""flambeau: an imperative deep-learning library with PyTorch's names.

Example:
    >>> import flambeau as fl
    >>> x = fl.ones(2, 3, requires_grad=True)
    >>> (x * 2).sum().backward()
    >>> x.grad
    tensor([[2., 2., 2.],
            [2., 2., 2.]])
"""

from __future__ import annotations

import importlib as _importlib
import math as _math
import typing as _typing

from flambeau import _imports, _openmp  # noqa: F401  (before anything else is imported; before the extension is loaded)

# isort: split
from flambeau import _C, _functions, _late, _tensor, _whole_calls
from flambeau._C import (
    ArgumentError,
    AutogradError,
    DeviceError,
    DTypeError,
    Generator,
    NoDataError,
    OutOfMemoryError,
    RangeError,
    ShapeError,
    Size,
    Tensor,
    bfloat16,
    cdouble,
    cfloat,
    chalf,
    complex32,
    complex64,
    complex128,
    default_generator,
    device,
    double,
    dtype,
    empty_cache,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    get_default_dtype,
    get_num_threads,
    half,
    int8,
    int16,
    int32,
    int64,
    long,
    memory_stats,
    promote_types,
    reset_peak_memory_stats,
    result_type,
    set_default_dtype,
    set_num_threads,
    short,
    uint8,
    uint16,
    uint32,
    uint64,
)

_C.profiler.set_own_folder(__file__.removesuffix("__init__.py"))  # errors and profiles name lines outside of it

# Every public op of the table under its own name.
for _name in _C.public_op_names:
    globals()[_name] = getattr(_C.ops, _name)

# The names of Python types come after the functions above, which use them.
bool = _C.bool
float = _C.float32
int = _C.int32

from flambeau._default_device import get_default_device, set_default_device  # noqa: E402
from flambeau._einsum import einsum, tensordot  # noqa: E402
from flambeau._from_data import (  # noqa: E402
    as_tensor,
    asarray,
    from_dlpack,
    from_numpy,
    frombuffer,
    is_tensor,
    scalar_tensor,
    tensor,
    to_dlpack,
)
from flambeau._functions import (  # noqa: E402
    allclose,
    argwhere,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_tensors,
    can_cast,
    cartesian_prod,
    cdist,
    column_stack,
    cross,
    detach,
    diag,
    diag_embed,
    dist,
    dsplit,
    dstack,
    equal,
    hsplit,
    hstack,
    is_complex,
    is_conj,
    is_floating_point,
    is_neg,
    is_nonzero,
    isin,
    meshgrid,
    movedim,
    nonzero,
    numel,
    ravel,
    rot90,
    tensor_split,
    tril_indices,
    triu_indices,
    unique,
    unique_consecutive,
    vsplit,
    vstack,
)
from flambeau._info import (  # noqa: E402
    finfo,
    get_float32_matmul_precision,
    iinfo,
    set_float32_matmul_precision,
    show_config,
)
from flambeau._memory_format import (  # noqa: E402
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    legacy_contiguous_format,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from flambeau._print import set_printoptions  # noqa: E402
from flambeau._quantile import nanquantile, quantile  # noqa: E402
from flambeau._random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: E402
from flambeau._shapes import broadcast_shapes  # noqa: E402
from flambeau.amp.autocast_mode import (  # noqa: E402
    autocast,
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    get_autocast_gpu_dtype,
    is_autocast_cache_enabled,
    is_autocast_cpu_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_cpu_dtype,
    set_autocast_cpu_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
    set_autocast_gpu_dtype,
)
from flambeau.autograd.modes import (  # noqa: E402
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

__version__ = "0.1.0"

moveaxis = movedim
row_stack = vstack
inf = _math.inf
nan = _math.nan
pi = _math.pi
e = _math.e
newaxis = None

_tensor.attach()
for _name in ("allclose", "equal", "movedim", "diag", "diag_embed", "tensor_split", "unique", "unique_consecutive", "argwhere", "cross",
    "dist", "nonzero", "rot90"):
    setattr(Tensor, _name, getattr(_functions, _name))
for _name in ("dsplit", "hsplit", "vsplit"):
    setattr(Tensor, _name, _functions.takes_places(getattr(_functions, _name)))
setattr(Tensor, "moveaxis", movedim)  # noqa: B010
setattr(Tensor, "quantile", quantile)  # noqa: B010
setattr(Tensor, "nanquantile", nanquantile)  # noqa: B010

# Imported when they are first used.
_LAZY = {
    "__config__", "__future__", "accelerator", "ao", "array_api", "autograd", "backends", "compat", "compiler", "cpu", "cuda", "datasets",
    "distributed", "distributions", "engine", "export", "fft", "func", "futures", "fx", "graph", "hub", "jit", "library", "linalg",
    "masked", "monitor", "mps", "mtia", "multiprocessing", "nn", "onnx", "ops", "optim", "overrides", "pipeline", "profiler", "quasirandom",
    "random", "return_types", "serialization", "signal", "sparse", "special", "storage", "testing", "types", "utils", "version", "xpu",
}  # fmt: skip
_LAZY_NAMES = {
    "GradScaler": "amp.grad_scaler",
    **dict.fromkeys(
        ("Event", "Stream", "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode", "get_device_module",
         "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled", "set_deterministic_debug_mode",
         "set_flush_denormal", "set_warn_always", "use_deterministic_algorithms"),
        "_settings",
    ),
    **dict.fromkeys(
        ("SymBool", "SymFloat", "SymInt", "_assert", "_assert_async", "_check", "_check_index", "_check_is_size",
         "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with", "_check_type", "_check_value", "_check_with",
         "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sum"),
        "_symbolic",
    ),
    "Future": "futures",
    "save": "serialization",
    "load": "serialization",
    "cosine_similarity": "nn.functional",
    "is_anomaly_check_nan_enabled": "autograd.anomaly_mode",
    "is_anomaly_enabled": "autograd.anomaly_mode",
    "compile": "compiler",
    "istft": "_stft",
    "lazy": "compiler",
    **dict.fromkeys(("graph_owners", "memory_owners", "memory_summary", "name_memory"), "_memory"),
    "pairwise_distance": "nn.functional",
    **dict.fromkeys(("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"), "_windows"),
    **dict.fromkeys(("corrcoef", "cov", "cumulative_trapezoid", "gradient", "histogram", "trapezoid", "trapz"), "_statistics"),
    **dict.fromkeys(
        ("as_strided_scatter", "combinations", "diagflat", "diagonal_scatter", "fill", "float_power", "frexp", "get_device",
         "get_num_interop_threads", "index_reduce", "is_distributed", "is_inference", "is_same_size", "is_signed", "mvlgamma", "polygamma",
         "range", "_is_all_true", "_is_any_true", "select_scatter", "set_num_interop_threads", "slice_scatter", "unravel_index"),
        "_more_functions",
    ),
    **dict.fromkeys(
        ("alias_copy", "as_strided_copy", "ccol_indices_copy", "col_indices_copy", "crow_indices_copy", "detach_copy", "diagonal_copy",
         "empty_permuted", "expand_copy", "narrow_copy", "nonzero_static", "permute_copy", "renorm", "resize_as_", "row_indices_copy",
         "select_copy", "slice_copy", "split_copy", "split_with_sizes_copy", "squeeze_copy", "t_copy", "transpose_copy", "unbind_copy",
         "unfold_copy", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "unsqueeze_copy", "view_as_complex_copy",
         "view_as_real_copy", "view_copy", "cauchy_", "geometric_", "log_normal_"),
        "_copies",
    ),
    **dict.fromkeys(
        ("chain_matmul", "cholesky", "cholesky_inverse", "cholesky_solve", "det", "geqrf", "inverse", "logdet", "lu", "lu_solve",
         "lu_unpack", "matrix_exp", "matrix_power", "orgqr", "ormqr", "pinverse", "qr", "slogdet", "svd", "triangular_solve", "vander"),
        "linalg._old",
    ),
    **dict.fromkeys(
        ("abs_", "acos_", "acosh_", "addmv_", "arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan_", "arctanh_", "as_strided_",
         "asin_", "asinh_", "atan_", "atanh_", "ceil_", "clamp_", "clamp_max_", "clamp_min_", "clip_", "conj_physical_", "cos_", "cosh_",
         "deg2rad_", "detach_", "erf_", "erfc_", "exp2_", "exp_", "expm1_", "fix_", "floor_", "frac_", "gcd_", "i0_", "lcm_", "ldexp_",
         "log10_", "log1p_", "log2_", "log_", "logit_", "nan_to_num_", "neg_", "negative_", "rad2deg_", "reciprocal_", "relu_", "round_",
         "rsqrt_", "sigmoid_", "sin_", "sinc_", "sinh_", "sqrt_", "square_", "tan_", "tanh_", "trunc_", "xlogy_", "alpha_dropout",
         "bilinear", "celu_", "channel_shuffle", "feature_alpha_dropout", "max_pool3d", "pdist", "rrelu", "rrelu_", "selu_",
         "threshold_", "cosine_embedding_loss", "ctc_loss", "hinge_embedding_loss", "margin_ranking_loss", "poisson_nll_loss",
         "triplet_margin_loss", "adaptive_max_pool1d", "feature_dropout", "frobenius_norm", "norm_except_dim", "nuclear_norm",
         "affine_grid_generator", "alpha_dropout_", "conv_tbc", "convolution", "dropout_", "dsmm", "embedding_renorm_",
         "feature_alpha_dropout_", "feature_dropout_", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "native_channel_shuffle",
         "native_dropout", "spmm"),
        "_older",
    ),
    "Tag": "library._tags",
    "stft": "_stft",
    "histogramdd": "_statistics",
    "lobpcg": "_lobpcg",
    "pca_lowrank": "_lowrank",
    "svd_lowrank": "_lowrank",
    "vmap": "func",
    **dict.fromkeys(
        ("BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage", "DoubleStorage",
         "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage", "TypedStorage", "UntypedStorage", "is_storage"),
        "storage",
    ),
    "cond": "_control_flow",
    "while_loop": "_control_flow",
    "segment_reduce": "_segments",
    "from_file": "_from_file",
    **dict.fromkeys(
        ("BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor",
         "ShortTensor", "UInt16Tensor", "UInt32Tensor", "UInt64Tensor", "set_default_tensor_type", "typename"),
        "_typed",
    ),
    **dict.fromkeys(
        ("batch_norm", "embedding", "embedding_bag", "gru_cell", "instance_norm", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"),
        "_top_level",
    ),
    **dict.fromkeys(
        ("adaptive_avg_pool1d", "avg_pool1d", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
         "max_pool1d", "max_pool2d"),
        "nn.functional",
    ),
    **dict.fromkeys(
        ("gru", "lstm", "native_batch_norm", "native_group_norm", "native_layer_norm", "rnn_relu", "rnn_tanh"),
        "_sequences",
    ),
    **dict.fromkeys(("fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"), "_fake_quantize"),
    **dict.fromkeys(
        ("sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor",
         "sparse_csr_tensor"),
        "sparse._construct",
    ),
    **dict.fromkeys(("hspmm", "smm", "sspaddmm"), "sparse._products"),
}
# Of these the ones that are methods, too, with the tensor as their first argument.
_LAZY_METHODS = (
    "as_strided_scatter", "cholesky", "cholesky_inverse", "cholesky_solve", "corrcoef", "cov", "det", "diagflat", "diagonal_scatter",
    "float_power", "frexp", "geqrf", "histogram", "index_reduce", "inverse", "logdet", "lu", "lu_solve", "matrix_exp", "matrix_power",
    "mvlgamma", "orgqr", "ormqr", "pinverse", "qr", "select_scatter", "slice_scatter", "slogdet", "svd", "triangular_solve", "cauchy_",
    "geometric_", "log_normal_", "narrow_copy", "nonzero_static", "renorm", "unsafe_chunk", "unsafe_split",
)  # fmt: skip


def _lazy_method(name: str) -> _typing.Any:
    return _late.late_method(name, lambda: __getattr__(name), f"`flambeau.{name}` of this tensor.")


def _lazy_inplace(name: str) -> _typing.Any:
    def method(self: Tensor, *args: _typing.Any, **kwargs: _typing.Any) -> Tensor:
        own = getattr(_importlib.import_module(f"flambeau.{_LAZY_NAMES[name]}"), f"_{name}_", None)
        if own is not None:
            return own(self, *args, **kwargs)  # type: ignore[no-any-return]
        wanting = [x for x in (self, *args, *kwargs.values()) if isinstance(x, Tensor) and x.requires_grad]
        before = self.clone() if is_grad_enabled() and wanting else self  # a derivative may want what is written over
        made = getattr(before, name)(*args, **kwargs)
        if promote_types(made.dtype, self.dtype) != self.dtype:
            what = f"result type {made.dtype} can't be cast to the desired output type {self.dtype}"
            raise DTypeError(f"{name}_: {what}; cast the tensor first")
        return _C.ops.copy_(self, made)

    method.__name__ = method.__qualname__ = name + "_"
    method.__doc__ = f"`{name}` in place."
    return method


for _name in _LAZY_METHODS:
    setattr(Tensor, _name, _lazy_method(_name))
for _name in ("float_power", "index_reduce", "mvlgamma", "renorm"):
    setattr(Tensor, _name + "_", _lazy_inplace(_name))

def __getattr__(name: str) -> _typing.Any:
    if name in _LAZY:
        return _importlib.import_module(f"flambeau.{name}")
    if name in _LAZY_NAMES:
        value = getattr(_importlib.import_module(f"flambeau.{_LAZY_NAMES[name]}"), name)
        globals()[name] = value
        _whole_calls.meet(value)
        return value
    raise AttributeError(f"module 'flambeau' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_LAZY_NAMES})
