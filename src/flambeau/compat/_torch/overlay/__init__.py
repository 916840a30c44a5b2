"""What `torch` itself has and `flambeau` has not, or has otherwise. The other files of this tree are below `torch` as they are named here."""

from __future__ import annotations

from typing import Any

from flambeau import _C as _core
from flambeau import _tensor
from flambeau._memory_format import layout as _layout
from flambeau.compat._torch.overlay.serialization import load, save
from flambeau.compat._torch.overlay.torch_version import __version__

__all__ = ["load", "save"]


# ---- checks that PyTorch's tracers understand


def _assert(condition: Any, message: Any) -> None:
    """`assert`, as a function."""
    assert condition, message


def _checker(name: str, kind: type[Exception]) -> Any:
    def check(cond: Any, message: Any = None) -> None:
        if not cond:
            raise kind("Expected cond to be True" if message is None else message() if callable(message) else str(message))

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raises {kind.__name__} with what `message()` returns unless `cond` is true."
    return check


_check = _checker("_check", RuntimeError)
_check_index = _checker("_check_index", IndexError)
_check_value = _checker("_check_value", ValueError)
_check_type = _checker("_check_type", TypeError)
_check_not_implemented = _checker("_check_not_implemented", NotImplementedError)
_check_tensor_all = _checker("_check_tensor_all", RuntimeError)


def _check_with(error_type: type[Exception], cond: Any, message: Any = None) -> None:
    """Raises `error_type` unless `cond` is true."""
    _checker("_check_with", error_type)(cond, message)


def _check_is_size(i: Any, message: Any = None, *, max: Any = None) -> None:
    """Raises RuntimeError unless 0 <= i (<= max)."""
    _check(i >= 0 and (max is None or i <= max), message)


# ---- symbolic numbers: shapes are plain numbers here, which these functions take as they are


class SymInt:
    """The class of PyTorch's symbolic integers; sizes here are ints, so that nothing is an instance."""


class SymFloat:
    """The class of PyTorch's symbolic floats; nothing is an instance."""


class SymBool:
    """The class of PyTorch's symbolic truth values; nothing is an instance."""


def sym_int(a: Any) -> int:
    """`int(a)`."""
    return int(a)


def sym_float(a: Any) -> float:
    """`float(a)`."""
    return float(a)


def sym_max(a: Any, b: Any) -> Any:
    """`max(a, b)`, a float where one is."""
    return float(max(a, b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """`min(a, b)`, a float where one is."""
    return float(min(a, b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


def sym_not(a: Any) -> bool:
    """`not a`."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t if b else f`."""
    return t if b else f


def sym_sum(args: Any) -> Any:
    """`sum(args)`."""
    return sum(args)


def _shape_as_tensor(x: Any) -> Any:
    """The shape as an int64 tensor."""
    return _tensor.tensor(list(x.shape), dtype=_core.int64)


# ---- settings that are questions here


def are_deterministic_algorithms_enabled() -> bool:
    """True: all results are the same from run to run."""
    return True


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """False: there is nothing to warn of."""
    return False


def get_deterministic_debug_mode() -> int:
    """2: what is not deterministic would be an error, and nothing is."""
    return 2


def is_warn_always_enabled() -> bool:
    """False."""
    return False


def get_device_module(device: Any = None) -> Any:
    """The module of a kind of device: `torch.cpu`, `torch.cuda`.

    Raises:
        RuntimeError: there is no such module.
    """
    import importlib

    kind = "cpu" if device is None else str(device).partition(":")[0]
    if kind not in ("cpu", "cuda", "xpu", "mps", "mtia"):
        raise RuntimeError(f"get_device_module: device = {device!r}; expected 'cpu', 'cuda', 'xpu', 'mps' or 'mtia'")
    return importlib.import_module(f"torch.{kind}")


class OutOfMemoryError(RuntimeError):
    """What PyTorch raises when a GPU's memory is used up; never raised here."""


class Stream:
    """A queue of a GPU; none can be made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise _core.DeviceError("Stream: this build of flambeau computes on the CPU, where a call has finished when it returns")


class PyTorchFileReader:
    """PyTorch's reader of zip files; `torch.load` reads them here."""

    def __init__(self, *args: Any) -> None:
        raise NotImplementedError("PyTorchFileReader: use torch.load, which reads PyTorch's files")


class Event(Stream):
    """A mark in a queue of a GPU; none can be made."""


# ---- element types of PyTorch's that are not here: they can be named and compared, and no tensor has one

# Layouts of PyTorch's that are not here: `x.layout == torch.sparse_csc` is a question that has an answer.
sparse_csc, sparse_bsr, sparse_bsc, jagged = (_layout(name) for name in ("sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"))

# (bytes, largest, eps, smallest normal) of the floats.
_ABSENT: dict[str, Any] = {
    "float8_e4m3fn": (1, 448.0, 0.125, 2.0**-6), "float8_e5m2": (1, 57344.0, 0.25, 2.0**-14), "float8_e4m3fnuz": (1, 240.0, 0.125, 2.0**-7),
    "float8_e5m2fnuz": (1, 57344.0, 0.125, 2.0**-15), "float8_e8m0fnu": (1, 2.0**127, 1.0, 2.0**-127), "float4_e2m1fn_x2": None,
    "uint16": None, "uint32": None, "uint64": None, "complex32": None, "chalf": None, "qint8": None, "quint8": None, "qint32": None,
    "quint4x2": None, "quint2x4": None, **{f"{kind}{bits}": None for kind in ("int", "uint") for bits in range(1, 8)},
}  # fmt: skip


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


def finfo(type: Any = None) -> Any:  # noqa: A002
    """`flambeau.finfo`, which for 8-bit floats, of which no tensor is made, tells their limits."""
    from types import SimpleNamespace

    import flambeau

    if isinstance(type, AbsentDType) and _ABSENT[type.name] is not None:
        size, largest, eps, tiny = _ABSENT[type.name]
        return SimpleNamespace(bits=8 * size, max=largest, min=-largest, eps=eps, tiny=tiny, smallest_normal=tiny, resolution=1.0, dtype=type.name)
    return flambeau.finfo() if type is None else flambeau.finfo(type)


def _sample_dirichlet(concentration: Any, generator: Any = None) -> Any:
    """Draws of Dirichlet distributions."""
    from flambeau.distributions import Dirichlet

    return Dirichlet(concentration).sample()


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
        import flambeau

        if name in vars(flambeau):
            return getattr(flambeau, name)
        return _absent.setdefault(name, AbsentDType(name))
    if name in ("legacy_contiguous_format",):
        from flambeau import contiguous_format

        return contiguous_format
    if name in ("ScriptModule", "ScriptFunction"):
        from flambeau.compat._torch.overlay import jit

        return getattr(jit, name)
    raise AttributeError(name)
