"""What `torch` itself has and `flambeau` has not, or has otherwise. The other files of this tree are below `torch` as they are named here."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau import _C as _core
from flambeau import _from_data
from flambeau._memory_format import layout as _layout
from flambeau.compat._torch.overlay import _scripts
from flambeau.compat._torch.overlay.serialization import save
from flambeau.compat._torch.overlay.torch_version import __version__

__all__ = ["save"]


def _shape_as_tensor(x: Any) -> Any:
    """The shape as an int64 tensor."""
    return _from_data.tensor(list(x.shape), dtype=_core.int64)


def _softmax(input: Any, dim: int, half_to_float: bool) -> Any:  # noqa: A002
    """`torch.softmax`, in single precision of half ones where `half_to_float`."""
    return _core.ops.softmax(input, dim, dtype=_core.float32 if half_to_float else None)


def _log_softmax(input: Any, dim: int, half_to_float: bool) -> Any:  # noqa: A002
    """The same of `torch.log_softmax`."""
    return _core.ops.log_softmax(input, dim, dtype=_core.float32 if half_to_float else None)


def _softmax_backward_data(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    """The gradient of a softmax's input, given that of its output: what functions of packages with a backward of their own call."""
    weighed = grad_output * output
    return (weighed - output * weighed.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    """The same of a logarithm of it."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def _int_mm(self: Any, mat2: Any) -> Any:
    """The product of two matrices of int8, in int32: what layers with quantised weights compute."""
    for name, x in (("self", self), ("mat2", mat2)):
        if x.dtype != _core.int8 or x.dim() != 2:
            raise RuntimeError(f"_int_mm: {name} is {x.dtype} of shape {tuple(x.shape)}; expected a matrix of int8 (int8_t)")
    return self.to(_core.int32) @ mat2.to(_core.int32)


def _has_compatible_shallow_copy_type(input: Any, other: Any) -> bool:  # noqa: A002
    """Whether `input.data = other` is allowed by their kinds: both are dense, or both sparse, and on one device."""
    return bool(input.layout == other.layout and input.device == other.device)


def dequantize(tensor: Any) -> Any:
    """In float32: nothing is quantised."""
    if not isinstance(tensor, _core.Tensor):
        raise NotImplementedError(f"dequantize: got a {type(tensor).__name__}; expected a tensor")
    return tensor.dequantize()


def is_vulkan_available() -> bool:
    """False: there is no such backend."""
    return False


class PyTorchFileReader:
    """Refused: it is PyTorch's own reader of zip files; `torch.load` reads them."""

    def __init__(self, *args: Any) -> NoReturn:
        raise NotImplementedError("PyTorchFileReader: use torch.load, which reads PyTorch's files")


# ---- element types of PyTorch's that are not here: they can be named and compared, and no tensor has one

# A layout of PyTorch's that is not here: `x.layout == torch.jagged` is a question that has an answer.
jagged = _layout("jagged")


class qscheme:
    """The name of a way to quantise, which observers of packages take as an option; no tensor is quantised."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


per_tensor_affine, per_channel_affine = qscheme("per_tensor_affine"), qscheme("per_channel_affine")
per_tensor_symmetric, per_channel_symmetric = qscheme("per_tensor_symmetric"), qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")

has_lapack = has_openmp = has_spectral = True
has_mkl = False


def set_vital(vital: str, attr: str, value: str, force: bool = False) -> bool:
    """False: nothing is noted of what a process uses. PyTorch is rid of it, too, and warns."""
    from flambeau._warn import warn

    warn("'set_vital' is deprecated, please do not call")
    return False


def compiled_with_cxx11_abi() -> bool:
    """True: the C++ library's strings are those of C++11."""
    return True


_ABSENT = frozenset((
    "float4_e2m1fn_x2", "qint8", "quint8", "qint32", "quint4x2", "quint2x4",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in range(1, 8)),
))  # fmt: skip


class AbsentDType:
    """The name of an element type that is not here."""

    is_complex = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_floating_point = name.startswith("float")
        self.is_signed = not name.startswith(("uint", "quint"))
        self.itemsize = 1 if "8" in name or "4" in name or name[-1] in "1234567" else 2

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


_absent: dict[str, AbsentDType] = {}


def _standard_gamma(input: Any, generator: Any = None) -> Any:  # noqa: A002
    """Draws of gamma distributions of these shapes and rate 1, with gradients."""
    return _core.ops.standard_gamma(input, generator=generator)


def _sample_dirichlet(concentration: Any, generator: Any = None) -> Any:
    """Draws of Dirichlet distributions."""
    draws = _core.ops.standard_gamma(concentration, generator=generator)
    return draws / draws.sum(-1, keepdim=True)


def _convolution(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int,  # noqa: A002
    benchmark: bool, deterministic: bool, cudnn_enabled: bool, allow_tf32: bool = True,
) -> Any:  # fmt: skip
    """`torch.convolution`; the last four choose between algorithms of a GPU."""
    from flambeau._older import convolution

    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def native_norm(input: Any, p: Any = 2) -> Any:  # noqa: A002
    """The norm of all elements of a sparse tensor."""
    from flambeau import norm

    return norm(input, 2 if p is None else p)


def _segment_reduce(data: Any, reduce: str, **options: Any) -> Any:
    """`torch.segment_reduce`."""
    from flambeau._segments import segment_reduce

    return segment_reduce(data, reduce, **options)


# ---- the two ways to say in which row each element of a matrix lies


def _convert_indices_from_coo_to_csr(input: Any, size: int, *, out_int32: bool = False) -> Any:  # noqa: A002
    """Where each of `size` rows begins, and the last ends, among ascending row numbers.

    Shape: input [N], result [size + 1].
    """
    return _core.ops.searchsorted(input, _core.ops.arange(size + 1, dtype=input.dtype), out_int32=out_int32)


def _convert_indices_from_csr_to_coo(crow_indices: Any, col_indices: Any, *, out_int32: bool = False, transpose: bool = False) -> Any:
    """Row and column numbers of elements, the columns first where `transpose`.

    Shape: crow_indices [R + 1], col_indices [N], result [2, N].
    """
    rows = _core.ops.repeat_interleave(_core.ops.arange(crow_indices.shape[0] - 1), crow_indices.diff())
    columns = col_indices.to(rows.dtype)
    both = _core.ops.stack([columns, rows] if transpose else [rows, columns])
    return both.to(_core.int32 if out_int32 else crow_indices.dtype)


def __getattr__(name: str) -> Any:
    if name.startswith("_foreach_"):
        from flambeau.compat._torch.overlay import _foreach

        return getattr(_foreach, name)
    if name in _ABSENT:
        return _absent.setdefault(name, AbsentDType(name))
    if name in _scripts.JIT_TYPES:
        return getattr(_scripts, name)
    if name == "StorageBase":
        from flambeau.storage import UntypedStorage

        return UntypedStorage
    if name in ("has_cuda", "has_cudnn", "has_mkldnn", "has_mps"):
        from flambeau import backends
        from flambeau._warn import warn

        part = name.removeprefix("has_")
        asked = "is_built" if part in ("cuda", "mps") else "is_available"
        warn(f"{name} is deprecated; ask torch.backends.{part}.{asked}()")
        return getattr(getattr(backends, part), asked)()
    if name in ("legacy_contiguous_format",):
        from flambeau import contiguous_format

        return contiguous_format
    if name in ("ScriptModule", "ScriptFunction"):
        from flambeau import jit

        return getattr(jit, name)
    raise AttributeError(name)
