"""Each function of the array API standard beside array-api-strict: values, shapes and types over calls that are drawn from descriptions.

A call is text over `xp`, in which `i32(2, 3)` is a random array of a type and shape, the same for both libraries. Arrays of float
types have special values among their elements where the description says `f64s`.
"""

from __future__ import annotations

import re

import array_api_strict as strict
import numpy as np
import pytest

import flambeau as fl

xp = fl.array_api
strict.set_array_api_strict_flags(api_version="2024.12")
TYPES = {"b1": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f32": "float32", "f64": "float64",
         "c64": "complex64", "c128": "complex128"}  # fmt: skip
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-310, 1e300, -1e300, 2.0, 1.5])


class Draw:
    """Makes the arrays of a call: each gets the next numbers of one generator."""

    def __init__(self, namespace, seed):
        self.namespace, self.rng = namespace, np.random.default_rng(seed)

    def make(self, dtype, shape, special=False, least=None):
        kind = np.dtype(dtype)
        if kind.kind == "b":
            x = self.rng.random(shape) < 0.5
        elif kind.kind in "iu":
            x = self.rng.integers(0 if kind.kind == "u" or least is not None else -9, 10, shape)
            x = x if least is None else x + least
        else:
            x = self.rng.standard_normal(shape) * 2
            x = np.abs(x) + least if least is not None else x
            if kind.kind == "c":
                x = x + 1j * self.rng.standard_normal(shape)
            if special:
                x = self.rng.choice(SPECIAL.astype("float32" if kind == np.float32 else "float64"), shape)
        with np.errstate(over="ignore"):
            return self.namespace.asarray(np.asarray(x, dtype=kind))

    def names(self):
        def one(dtype, **how):
            return lambda *shape: self.make(dtype, shape, **how)

        found = {}
        for short, dtype in TYPES.items():
            found |= {short: one(dtype), short + "s": one(dtype, special=True), short + "p": one(dtype, least=1)}
        return found | {"index": lambda n, *shape: self.namespace.asarray(self.rng.integers(0, n, shape))}


def run(namespace, call, seed=0):
    with np.errstate(all="ignore"):
        return eval(call, {"xp": namespace, **Draw(namespace, seed).names()})


def flat(result):
    if isinstance(result, (tuple, list)):
        return [r for part in result for r in flat(part)]
    return [result]


def same(call, seed=0, scale=1.0):
    ours, theirs = flat(run(xp, call, seed)), flat(run(strict, call, seed))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        if not hasattr(b, "dtype") or not hasattr(b, "shape"):
            assert a == b
            continue
        name = str(b.dtype).rsplit(".", 1)[-1]
        assert a.dtype.name == name, f"{call}: {a.dtype} and {b.dtype}"
        want = np.asarray(b)
        assert tuple(a.shape) == want.shape, call
        eps = 3e-6 if name in ("float32", "complex64") else 1e-12
        with np.errstate(all="ignore"):
            got = a.numpy()
            if np.dtype(name).kind in "biu":
                np.testing.assert_array_equal(got, want, err_msg=call)
            else:
                np.testing.assert_allclose(got, want, rtol=eps * scale, atol=eps * scale, err_msg=call)


REAL, FLOATS = ["u8", "i8", "i16", "i32", "i64", "f32", "f64"], ["f32", "f64", "c64", "c128"]
NUMERIC = REAL + ["c64", "c128"]
UNARY = {
    "acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 reciprocal sin sinh sqrt tan tanh": FLOATS,
    "abs negative positive sign square isfinite isinf isnan round conj real": NUMERIC,
    "ceil floor trunc": REAL, "signbit": ["f32", "f64"], "imag": ["c64", "c128"], "logical_not": ["b1"],
    "bitwise_invert": ["b1", "u8", "i8", "i32", "i64"],
}  # fmt: skip
UNARY_CASES = [(n, t) for names, types in UNARY.items() for n in names.split() for t in types]


@pytest.mark.parametrize("name, t", UNARY_CASES, ids=lambda v: v)
def test_unary(name, t):
    if name in ("real", "conj") and t in REAL:
        pytest.skip("array-api-strict refuses real numbers there")
    domain = {"acosh": "p", "log": "p", "log10": "p", "log2": "p", "log1p": "p", "sqrt": "p"}.get(name, "") if t in ("f32", "f64") else ""
    for shape in ("3, 4", "", "0", "2, 0, 3"):
        same(f"xp.{name}({t}{domain}({shape}))", scale=10)


@pytest.mark.parametrize("name", [n for n, t in UNARY_CASES if t == "f64"])
def test_special_values(name):
    same(f"xp.{name}(f64s(300))", scale=10)


BINARY = {
    "add subtract multiply equal not_equal": NUMERIC,
    "divide": FLOATS, "atan2 copysign hypot logaddexp nextafter": ["f32", "f64"],
    "greater greater_equal less less_equal maximum minimum": REAL,
    "logical_and logical_or logical_xor": ["b1"],
    "bitwise_and bitwise_or bitwise_xor": ["b1", "u8", "i8", "i32", "i64"],
}  # fmt: skip
BINARY_CASES = [(n, t) for names, types in BINARY.items() for n in names.split() for t in types]


@pytest.mark.parametrize("name, t", BINARY_CASES, ids=lambda v: v)
def test_binary(name, t):
    for shapes in (("3, 4", "4"), ("", "2"), ("2, 1", "0, 2, 5"), ("", "")):
        same(f"xp.{name}({t}({shapes[0]}), {t}({shapes[1]}))")
    if not name.startswith(("logical", "nextafter")):
        number = "True" if t == "b1" else "2" if t in REAL[:5] else "1.5"
        same(f"xp.{name}({t}(3), {number})")
        same(f"xp.{name}({number}, {t}(3))")


@pytest.mark.parametrize("name", sorted({n for n, t in BINARY_CASES if t == "f64"} | {"pow", "floor_divide", "remainder"}))
def test_special_values_of_two(name):
    call = f"xp.{name}(f64s(400), f64s(400))"
    if name == "floor_divide":  # infinite quotients: NumPy has NaN, the standard leaves both
        call = "xp.floor_divide(f64s(400), f64p(400))"
    same(call)


@pytest.mark.parametrize("t", REAL, ids=str)
def test_division_and_powers(t):
    for name in ("floor_divide", "remainder"):
        same(f"xp.{name}({t}(40), {t}p(40))")
        if t != "u8":
            same(f"xp.{name}({t}(40), xp.negative({t}p(40)))")
    same(f"xp.pow({t}p(10), {t}p(10) // 4)" if t in REAL[:5] else f"xp.pow({t}p(10), {t}(10))", scale=10)
    if t in REAL[:5]:
        same(f"xp.bitwise_left_shift({t}(10), {t}p(10) // 4)")
        same(f"xp.bitwise_right_shift({t}(10), {t}p(10) // 4)")


MIXED = [(a, b) for group in (REAL[:5], ["f32", "f64", "c64", "c128"]) for a in group for b in group if a != b]


@pytest.mark.parametrize("a, b", MIXED, ids=str)
def test_promotion(a, b):
    """0-d arrays count like others."""
    same(f"xp.add({a}(2, 3), {b}(3))")
    same(f"xp.multiply({a}(2), {b}())")
    same(f"xp.where(b1(4), {a}(4), {b}())")
    same(f"xp.concat([{a}(2), {b}(3)])")
    ours, theirs = (ns.result_type(*(getattr(ns, TYPES[t]) for t in (a, b))) for ns in (xp, strict))
    assert ours.name == str(theirs).rsplit(".", 1)[-1]
    assert xp.can_cast(getattr(xp, TYPES[a]), getattr(xp, TYPES[b])) == strict.can_cast(getattr(strict, TYPES[a]), getattr(strict, TYPES[b]))


KINDS = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]


@pytest.mark.parametrize("kind", [*KINDS, ("bool", "integral"), ()], ids=str)
def test_kinds(kind):
    for name in TYPES.values():
        assert xp.isdtype(getattr(xp, name), kind) == strict.isdtype(getattr(strict, name), kind)
    with pytest.raises(ValueError, match="isdtype: kind = 'float'; expected a type, or one of 'bool'"):
        xp.isdtype(xp.float32, "float")
    assert xp.isdtype(xp.int8, (xp.int8, "bool"))


REDUCED = [
    f"xp.{name}({t}{shape}{how})"
    for names, types in (("sum prod", NUMERIC), ("max min", REAL), ("mean std var", ["f32", "f64"]), ("all any", ["b1", "i32", "f64"]),
                         ("argmax argmin", REAL), ("count_nonzero", ["b1", *NUMERIC]))
    for name in names.split()
    for t in types
    for shape, how in (("(3, 4)", ""), ("(3, 4)", ", axis=-1"), ("(2, 3, 4)", ", axis=1, keepdims=True"), ("()", ""), ("(2, 3)", ", keepdims=True"))
]  # fmt: skip


@pytest.mark.parametrize("call", REDUCED)
def test_reduction(call):
    same(call, scale=10)


CALLS = """
xp.sum(f32(2, 3, 4), axis=(0, 2))           xp.sum(f64(2, 3), axis=())        xp.sum(i8(5), dtype=xp.int16)      xp.sum(f64(0, 3), axis=0)
xp.prod(f32(2, 3, 4), axis=(0, 2))          xp.prod(u8(5), dtype=xp.float64)  xp.prod(f64(0))                    xp.max(f64(2, 3, 4), axis=(0, -1))
xp.max(f64s(40))                            xp.min(f64s(40))                  xp.argmax(f64s(40))                xp.argmin(f64s(40))
xp.var(f64(3, 4), axis=0, correction=1)     xp.std(f64(5), correction=5)      xp.var(f32(3, 4), correction=0.5)  xp.mean(f64(3, 0, 2), axis=2)
xp.cumulative_sum(f32(4))                   xp.cumulative_sum(i32(2, 3), axis=1)    xp.cumulative_sum(f64(2, 3), axis=0, include_initial=True)
xp.cumulative_sum(u8(5), dtype=xp.int16)    xp.cumulative_prod(f64(4))        xp.cumulative_prod(i16(2, 3), axis=-1, include_initial=True)
xp.all(b1(2, 3, 4), axis=(0, 1))            xp.any(f64(0, 3), axis=0)         xp.all(f64(0))                     xp.any(c64(3))
xp.diff(f64(3, 5))                          xp.diff(i32(4), n=2)              xp.diff(f32(3, 4), axis=0, prepend=f32(1, 4), append=f32(2, 4))
xp.count_nonzero(i32(2, 3, 4), axis=(0, 2), keepdims=True)                    xp.nonzero(i32(3, 4))              xp.nonzero(b1(0, 3))
xp.searchsorted(xp.sort(f64(9)), f64(2, 3))  xp.searchsorted(xp.sort(i64(20)), i64(9), side="right")
xp.searchsorted(f64(3), f64(4), sorter=xp.asarray([1, 0, 2]))
xp.sort(f64(3, 4))                          xp.sort(i32(3, 4), axis=0, descending=True)   xp.sort(f64s(60))      xp.sort(f64(9), stable=False)
xp.argsort(i8(30))                          xp.argsort(i8(30), descending=True)     xp.argsort(f32(3, 4), axis=0)
xp.unique_all(i32(4, 5))                    xp.unique_counts(f64(30))         xp.unique_inverse(u8(3, 10))       xp.unique_values(b1(5))
xp.unique_all(f64s(60))                     xp.unique_values(i32(0))          xp.unique_all(i32())               xp.unique_values(c128(6))
xp.take(f64(3, 4), index(4, 6), axis=1)     xp.take(i32(5), index(5, 3))      xp.take(f64(3, 4), xp.asarray([-1, 0]), axis=0)
xp.take_along_axis(f64(3, 4), index(4, 3, 2), axis=1)     xp.take_along_axis(f64(3, 4), index(3, 6, 4), axis=0)
xp.where(b1(3, 1), f64(4), f64())           xp.where(b1(3), i32(3), 2)        xp.where(b1(3), 1.5, f32(3))
xp.broadcast_to(i32(3, 1), (2, 3, 4))       xp.broadcast_arrays(f32(3, 1), i32(4))
xp.concat([f64(2, 3), f64(1, 3)])           xp.concat([i32(2, 3), i32(2, 1)], axis=-1)    xp.concat([f32(2), f32(2, 2)], axis=None)
xp.stack([f64(2, 3), f64(2, 3)], axis=-1)   xp.unstack(i32(3, 4), axis=1)     xp.expand_dims(f64(3), axis=-1)    xp.squeeze(i32(1, 3, 1), axis=(0, 2))
xp.flip(f64(3, 4))                          xp.flip(f64(3, 4), axis=1)        xp.moveaxis(f64(2, 3, 4), 0, -1)   xp.moveaxis(f64(2, 3, 4), (0, 1), (2, 0))
xp.permute_dims(i32(2, 3, 4), (2, 0, 1))    xp.reshape(f64(3, 4), (2, -1))    xp.reshape(f64(3, 4), (12,), copy=True)   xp.matrix_transpose(f64(2, 3, 4))
xp.roll(i32(3, 4), 2)                       xp.roll(i32(3, 4), (1, -1), axis=(0, 1))      xp.roll(f64(5), 7, axis=0)   xp.roll(f64(3, 4), 1, axis=(0, 1))
xp.repeat(i32(3), 2)                        xp.repeat(f64(2, 3), 3, axis=1)   xp.repeat(f64(2, 3), xp.asarray([1, 2]), axis=0)   xp.repeat(i32(2, 2), 2)
xp.tile(i32(2, 3), (2, 1, 2))               xp.tile(f64(3), ())               xp.clip(f64(9), -1, 1)             xp.clip(i32(3, 4), min=i32(4))
xp.clip(f32(5), max=0.5)                    xp.clip(u8(5))                    xp.astype(f64(4), xp.int32)        xp.astype(i32(4), xp.complex64)
xp.astype(f64(4), xp.bool)                  xp.astype(u8(3), xp.uint8, copy=False)
xp.arange(5)                                xp.arange(2, 9, 3)                xp.arange(5, 1, -2)                xp.arange(3, 1)     xp.arange(0, 1, 0.25, dtype=xp.float64)
xp.linspace(0, 1, 5, dtype=xp.float64)      xp.linspace(-1, 2, 4, dtype=xp.float32, endpoint=False)    xp.linspace(0, 1, 1, dtype=xp.float64)
xp.linspace(0, 1 + 2j, 3, dtype=xp.complex128)            xp.eye(3, dtype=xp.int32)    xp.eye(2, 4, k=1, dtype=xp.float64)    xp.eye(3, k=-1, dtype=xp.complex64)
xp.full((2, 3), 7)                          xp.full((), True)                 xp.full(3, 1.5, dtype=xp.float64)  xp.zeros((2, 0), dtype=xp.int8)  xp.ones(3, dtype=xp.bool)
xp.zeros_like(i32(3))                       xp.ones_like(f64(2, 2))           xp.full_like(f32(2), 3)            xp.full_like(i32(2), 3, dtype=xp.float64)
xp.meshgrid(i32(2), i32(3))                 xp.meshgrid(f64(2), f64(3), f64(4), indexing="ij")    xp.tril(f64(3, 4), k=1)    xp.triu(i32(2, 3, 3), k=-1)
xp.empty((2, 3), dtype=xp.int16).shape      xp.empty_like(f64(2)).shape       xp.asarray([[1, 2], [3, 4]])       xp.asarray(True)
xp.isdtype(f32().dtype, "numeric")          xp.finfo(xp.float32).eps          xp.finfo(c128()).bits              xp.iinfo(xp.int16).max
xp.matmul(f64(2, 3), f64(3, 4))             xp.matmul(i32(3), i32(3))         xp.matmul(f32(2, 1, 3, 4), f64(5, 4, 2))      xp.matmul(c64(2, 2), f32(2))
xp.tensordot(f64(2, 3, 4), f64(3, 4, 5))    xp.tensordot(f64(2, 3), f64(3, 2), axes=((0, 1), (1, 0)))     xp.tensordot(i32(2), i32(3), axes=0)
xp.vecdot(f64(2, 3), f64(3))                xp.vecdot(c128(2, 3), c128(2, 3))  xp.vecdot(f64(3, 2), f64(3, 1), axis=-2)      xp.vecdot(i32(3), i32(3))
"""
LINALG = """
xp.linalg.cholesky(f64(2, 3, 1) * f64(1) + xp.eye(3, dtype=xp.float64) * 9)   xp.linalg.cholesky(xp.eye(3, dtype=xp.complex64), upper=True)
xp.linalg.cross(f64(2, 3), f64(2, 3))       xp.linalg.cross(f64(3, 2), f64(3, 2), axis=-2)      xp.linalg.det(f64(2, 3, 3))        xp.linalg.det(c128(3, 3))
xp.linalg.diagonal(i32(2, 3, 4), offset=1)  xp.linalg.eigvalsh(f64(3, 3))     xp.linalg.eigh(c64(3, 3))[0]       xp.linalg.inv(f64(2, 3, 3))
xp.linalg.matrix_norm(f64(2, 3, 4))         xp.linalg.matrix_norm(f64(3, 4), ord="nuc", keepdims=True)    xp.linalg.matrix_norm(c128(3, 4), ord=1)
xp.linalg.matrix_power(f64(3, 3), 3)        xp.linalg.matrix_power(f64(2, 3, 3), -1)    xp.linalg.matrix_rank(f64(4, 2))    xp.linalg.matrix_rank(xp.ones((3, 3), dtype=xp.float64), rtol=1e-3)
xp.linalg.outer(i32(2), i32(3))             xp.linalg.pinv(f64(2, 4, 3))      xp.linalg.pinv(f64(3, 3), rtol=1e-3)   xp.linalg.slogdet(f64(2, 3, 3))
xp.linalg.solve(f64(3, 3), f64(3))          xp.linalg.solve(f64(2, 3, 3), f64(3, 2))    xp.linalg.solve(f64(3, 3), f64(2, 3, 1))    xp.linalg.solve(c128(2, 3, 3), c128(3))
xp.linalg.svdvals(f32(3, 4))                xp.linalg.svd(f64(3, 4), full_matrices=False).S    xp.linalg.trace(f64(2, 3, 3))    xp.linalg.trace(i8(3, 4), offset=1)
xp.linalg.vector_norm(f64(3, 4))            xp.linalg.vector_norm(c64(3, 4), axis=0, ord=1)    xp.linalg.vector_norm(f64(2, 3, 4), axis=(0, 2), keepdims=True, ord=float("inf"))
xp.linalg.qr(f64(4, 3))                     xp.linalg.qr(f64(3, 3), mode="complete")    xp.linalg.matmul(f64(2, 3), f64(3))    xp.linalg.matrix_transpose(f64(2, 3))
xp.linalg.vecdot(f64(3), f64(3))            xp.linalg.tensordot(f64(2, 3), f64(3, 4), axes=1)
xp.fft.fft(c128(5))                         xp.fft.fft(c64(3, 4), n=6, axis=0, norm="ortho")   xp.fft.ifft(c128(3, 4))   xp.fft.fftn(c128(2, 3, 4), axes=(0, 2))
xp.fft.ifftn(c128(2, 3), s=(3, 2), axes=(0, 1))     xp.fft.rfft(f64(3, 5))    xp.fft.irfft(c128(3, 4), n=6)      xp.fft.rfftn(f32(2, 3, 4))
xp.fft.irfftn(c128(3, 4))                   xp.fft.hfft(c128(4))              xp.fft.ihfft(f64(6))               xp.fft.fftshift(f64(3, 4))
xp.fft.ifftshift(f64(3, 4), axes=1)         xp.fft.fftfreq(5, d=0.5, dtype=xp.float64)      xp.fft.rfftfreq(6, dtype=xp.float64)
"""
SPLIT = [c.strip() for line in (CALLS + LINALG).strip().splitlines() for c in re.split(r"\s{2,}(?=xp\.)", line) if c]


@pytest.mark.parametrize("call", SPLIT)
def test_call(call):
    for seed in range(3):
        same(call, seed, scale=30)


EXTENSIONS = {"linalg": strict.linalg, "fft": strict.fft}
NOT_HERE: set[str] = set()
LATER = {"broadcast_shapes", "isin"}  # 2025.12


def test_every_name_of_the_standard_is_there_and_compared():
    wanted = set(strict.__all__) - {n for n in strict.__all__ if n.startswith(("Array", "get_", "set_", "reset_", "Device", "__array_api_strict"))}
    wanted -= {"ALL_DEVICES", "__version__"}
    missing = {n for n in wanted if not hasattr(xp, n)}
    for name, module in EXTENSIONS.items():
        missing |= {f"{name}.{n}" for n in module.__all__ if not hasattr(getattr(xp, name), n)}
    assert missing <= NOT_HERE | LATER, missing
    text = " ".join([*SPLIT, *REDUCED, *(f"xp.{n}(" for n, _ in UNARY_CASES + BINARY_CASES)])
    text += " xp.pow( xp.floor_divide( xp.remainder( xp.bitwise_left_shift( xp.bitwise_right_shift( xp.result_type( xp.can_cast( xp.from_dlpack("
    called = {n for n in wanted if n not in LATER and callable(getattr(xp, n, None)) and not n.startswith("__") and not isinstance(getattr(xp, n), type(xp.float32))}
    assert {n for n in called if f"xp.{n}(" not in text} == set()
