"""The values that calls are made with: tensors in every state, and objects that lie.

A call is text (`fl.add(T((2, 3), 'int8', 'meta'), 2**63 - 1)`), so that it can be printed, replayed and shrunk. `NAMES` is
what its names mean; all of them are made anew from the text, and the same text makes the same values.
"""

from __future__ import annotations

import copy
import ctypes
import math
import pickle

import numpy as np

import flambeau as fl
from flambeau import _C

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
    "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu",
)  # fmt: skip
WITHOUT_ARRAYS = ("bfloat16", "complex32", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")  # NumPy has no such type
HOWS = ("", "meta", "transposed", "strided", "offset", "expanded", "overlap", "deferred", "numpy", "read-only", "view", "written", "half of numpy",
        "sparse", "rows", "uncoalesced", "shared")
FILLS = ("normal", "positive", "zeros", "nan", "inf", "extreme", "index", "negative")

_MOST = 1 << 22


def _numbers(count, dtype, fill):
    rng = np.random.default_rng(count + len(fill))
    if dtype.startswith("complex"):
        parts = [_numbers(count, "float64", fill) for _ in range(2)]
        return parts[0] + 1j * np.roll(parts[1], 1)
    floating = dtype in ("float16", "bfloat16", "float32", "float64")
    if fill.startswith("below "):
        return rng.integers(0, int(fill[6:]), count)
    if fill == "zeros":
        return np.zeros(count)
    if fill == "index":
        return rng.integers(0, 3, count)
    if fill == "negative":
        return -rng.integers(1, 4, count)
    if fill == "positive":
        return rng.uniform(0.05, 0.95, count) if floating else rng.integers(0, 5, count)
    if floating:
        out = rng.standard_normal(count)
        if fill in ("nan", "inf", "extreme") and count:
            special = {"nan": [math.nan], "inf": [math.inf, -math.inf], "extreme": [3e38, -3e38, 1e-45, -0.0, 65504.0]}[fill]
            out[:: 1 + count // 3] = np.resize(special, len(out[:: 1 + count // 3]))
        return out
    if fill == "extreme" and dtype not in ("bool",):
        info = np.iinfo(dtype)
        return np.resize(np.array([info.max, info.min, 0], dtype=dtype), count)
    return rng.integers(-5, 6, count)


def _plain(shape, dtype, fill):
    count = math.prod(shape)
    if _MOST < count < 1 << 34:
        raise MemoryError(f"{count} elements are left out: there is memory for them, but no patience")
    if count > _MOST:
        return fl.zeros(shape, dtype=getattr(fl, dtype))
    with np.errstate(all="ignore"):
        values = _numbers(count, dtype, fill)
        array = values.astype({name: "complex64" if name == "complex32" else "float32" for name in WITHOUT_ARRAYS}.get(dtype, dtype)).reshape(shape)
    return fl.tensor(array).to(getattr(fl, dtype))


def T(shape=(), dtype="float32", how="", fill="normal", grad=False):
    """A tensor: of `shape` and `dtype`, with its memory as `how` says and numbers as `fill` says."""
    shape = tuple(shape)
    kind = getattr(fl, dtype)
    if how == "meta":
        x = fl.empty(shape, dtype=kind, device="meta")
    elif how == "transposed":
        x = _plain(shape[::-1], dtype, fill).permute(tuple(reversed(range(len(shape)))))
    elif how == "strided" and shape:
        x = _plain((*shape[:-1], 2 * shape[-1]), dtype, fill)[..., ::2]
    elif how == "offset":
        x = _plain((math.prod(shape) + 3,), dtype, fill)[3:].view(shape)
    elif how == "expanded" and shape:
        x = _plain((1, *shape[1:]), dtype, fill).expand(shape)
    elif how == "overlap" and shape:
        x = _plain((sum(shape) + 1,), dtype, fill).as_strided(shape, (1,) * len(shape))
    elif how == "deferred" and len(shape) == 4 and 0 < math.prod(shape) < _MOST:
        x = fl.nn.functional.conv2d(_plain((shape[0], 2, *shape[2:]), "float32", "normal"), fl.ones(shape[1], 2, 1, 1)).to(kind)
    elif how == "numpy" and dtype not in WITHOUT_ARRAYS:
        x = fl.from_numpy(np.asfortranarray(_plain(shape, dtype, fill).numpy().copy()))
    elif how == "half of numpy" and dtype not in WITHOUT_ARRAYS and shape:
        x = fl.from_numpy(_plain((2, *shape), dtype, fill).numpy().copy()[1])
    elif how == "read-only" and dtype not in WITHOUT_ARRAYS:
        array = _plain(shape, dtype, fill).numpy().copy()
        array.flags.writeable = False
        x = fl.from_numpy(array)
    else:
        x = _plain(shape, dtype, fill)
    if how == "shared":
        x = x.share_memory_()
    if grad and x.is_floating_point():
        x = x.detach().requires_grad_(True)
        if how in ("view", "written"):
            x = (x * 1).view(shape)
    if how == "written":
        x.add_(0)
    return _sparse(x, how) if how in ("sparse", "rows", "uncoalesced") else x


def _sparse(x, how):
    """The same numbers as a sparse tensor: by places, by rows, or by places that stand there twice."""
    if not 0 < x.dim() or x.is_meta or (how == "rows" and x.dim() != 2):
        return x
    if how == "rows":
        return x.to_sparse_csr()
    y = x.to_sparse()
    return fl.sparse_coo_tensor(fl.cat([y.indices()] * 2, 1), fl.cat([y.values()] * 2), y.shape) if how == "uncoalesced" else y


def _tensors(value):
    leaves = value if isinstance(value, (tuple, list)) else [value]
    return [x for x in leaves if isinstance(x, fl.Tensor)]


def batched(call, make=T, count=3):
    """What `vmap` makes of a call: each tensor has another axis inside."""

    def one(i):
        def tensor(*args, **kwargs):
            x = make(*args, **kwargs)
            return fl.where(i >= 0, x, x)

        return call(tensor)

    return fl.func.vmap(one, randomness="different")(fl.arange(count))


def dual(call, make=T):
    """Results of a call with their forward derivatives: each floating tensor has a tangent."""
    ad = fl.autograd.forward_ad

    def tensor(*args, **kwargs):
        x = make(*args, **kwargs)
        return ad.make_dual(x, fl.ones_like(x)) if x.is_floating_point() or x.is_complex() else x

    with ad.dual_level():
        return [part for x in _tensors(call(tensor)) for part in ad.unpack_dual(x) if part is not None]


def graded(call, make=T):
    """The gradient of a call by a number that its tensors are multiplied with, by `func.grad`."""

    def total(scale):
        def tensor(*args, **kwargs):
            x = make(*args, **kwargs)
            return x * scale.to(x.dtype) if x.is_floating_point() else x

        return sum((x.sum().to(fl.float64) for x in _tensors(call(tensor)) if x.is_floating_point()), 0.0 * scale)

    return fl.func.grad(total)(fl.ones((), dtype=fl.float64))


class Itself:
    """Its `__array__` returns itself."""

    def __array__(self, *args, **kwargs):
        return self


class Liar:
    """A sequence that is shorter than it says, and an index that fails."""

    def __len__(self):
        return 5

    def __getitem__(self, i):
        if i > 2:
            raise IndexError(i)
        return i

    def __index__(self):
        raise ValueError("no index")

    def __float__(self):
        raise ValueError("no float")


class Endless:
    """A sequence of itself, without a last level."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i > 1:
            raise IndexError(i)
        return self


class Shrinking:
    """An index that empties the list it lies in."""

    def __init__(self):
        self.home = [1, self, 3, 4]

    def __index__(self):
        self.home.clear()
        return 1


def shrinking():
    return Shrinking().home


def cyclic():
    out = [1]
    out.append(out)
    return out


def pickled(x):
    return pickle.loads(pickle.dumps(x))


class _Buffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]  # fmt: skip


def memory(x, flags):
    """The bytes of a buffer request, read by what was promised: without strides they are C-contiguous."""
    view = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(x), ctypes.byref(view), flags)
    try:
        shape = view.shape[: view.ndim] if view.shape else None
        strides = view.strides[: view.ndim] if view.strides else None
        if strides is None or flags & 0x20 == 0x20 or flags & 0x40 == 0x40:  # C_CONTIGUOUS, F_CONTIGUOUS
            seen = ctypes.string_at(view.buf, view.len)
            if isinstance(x, fl.Tensor):
                want = x.numpy().tobytes(order="F" if flags & 0x40 == 0x40 else "C")
                if seen != want:
                    raise AssertionError(f"a buffer by flags {flags} holds other bytes than the tensor in that order")
            return seen
        reach = sum((n - 1) * s for n, s in zip(shape, strides)) + view.itemsize if view.len else 0
        return ctypes.string_at(view.buf, reach)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))


NAMES = {
    "fl": fl, "ops": _C.ops, "ctypes": ctypes, "F": fl.nn.functional, "np": np, "T": T, "inf": math.inf, "nan": math.nan, "pickled": pickled, "copy": copy,
    "Itself": Itself, "Liar": Liar, "Endless": Endless, "shrinking": shrinking, "cyclic": cyclic, "memory": memory,
    "batched": batched, "dual": dual, "graded": graded,
}  # fmt: skip
