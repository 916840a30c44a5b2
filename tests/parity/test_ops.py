"""Element-wise, reductions, matmul, indexing, shapes, promotion, errors: values and gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from beside import assert_same, beside, both_raise, dtype_name, randn, torch

import flambeau as fl

SHAPES = [(), (7,), (3, 4), (2, 3, 5), (0, 3), (1, 1)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)

UNARY = (
    "abs neg exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh sigmoid erf erfc square floor ceil trunc round sign relu sinc i0 frac positive deg2rad rad2deg "
    "isnan isinf isfinite signbit logical_not"
).split()
POSITIVE = "log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma".split()


@shapes
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", UNARY + POSITIVE)
def test_unary(name, dtype, shape):
    x = np.asarray(randn(*shape, dtype=dtype))
    if name in POSITIVE:
        x = np.asarray(np.abs(x) + dtype(0.1))
    beside(lambda lib, x: getattr(lib, name)(x), x)


@pytest.mark.parametrize("name", [n for n in UNARY + POSITIVE + ["asin", "acos", "atanh", "acosh", "erfinv"] if n not in ("i0", "sinc", "sign")])  # sign(NaN) is NaN here, as in NumPy, and 0 there
def test_unary_at_special_values(name):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 88.0, -88.0, 1e-30, 1e30])
    if name in ("lgamma", "digamma", "sin", "cos", "tan"):
        x = x[np.abs(np.nan_to_num(x, posinf=0, neginf=0)) < 1e20]
    beside(lambda lib, x: getattr(lib, name)(x), x, grad=False)


@pytest.mark.parametrize("name", ["exp", "sin", "sqrt", "reciprocal", "sigmoid", "abs", "neg", "floor", "square", "logical_not", "sign"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_unary_of_integers(name, dtype):
    if dtype == "bool" and name in ("neg", "floor", "sign", "abs", "square"):
        pytest.skip("refused, or of no use, for bool")
    beside(lambda lib, x: getattr(lib, name)(x), np.array([0, 1, 1, 3]).astype(dtype), grad=False)


BINARY = "add sub mul div maximum minimum atan2 hypot logaddexp fmod remainder floor_divide pow eq ne lt le gt ge fmax fmin copysign xlogy logical_and logical_xor".split()


@pytest.mark.parametrize("a, b", [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 0), (1, 0)), ((5,), ())], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, a, b):
    x, y = np.asarray(randn(*a)), np.asarray(randn(*b, seed=3))
    if name in ("pow", "xlogy"):
        x, y = np.asarray(np.abs(x) + 0.1), np.asarray(np.abs(y) + 0.1)
    beside(lambda lib, x, y: getattr(lib, name)(x, y), x, y, grad=name != "floor_divide")


@pytest.mark.parametrize("name", ["add", "div", "maximum", "fmod", "remainder", "floor_divide", "pow", "atan2", "fmax", "eq", "lt", "logaddexp"])
def test_binary_at_special_values(name):
    v = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5])
    x, y = np.meshgrid(v, v)
    beside(lambda lib, x, y: getattr(lib, name)(x, y), x.copy(), y.copy(), grad=False)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "pow", "bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"])
def test_binary_of_integers(name):
    x, y = np.meshgrid(np.array([-7, -1, 0, 1, 2, 9]), np.array([1, 2, 3, 4]))
    beside(lambda lib, x, y: getattr(lib, name)(x, y), x.copy(), y.copy(), grad=False)


NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
WAYS = {
    "tensors": lambda lib, a, b: lib.ones(2, dtype=a) * lib.ones(2, dtype=b),
    "scalar_tensor": lambda lib, a, b: lib.ones(2, dtype=a) + lib.tensor(1, dtype=b),
    "two_scalar_tensors": lambda lib, a, b: lib.tensor(1, dtype=a) + lib.tensor(1, dtype=b),
    "div": lambda lib, a, b: lib.ones(2, dtype=a) / lib.ones(2, dtype=b),
    "where": lambda lib, a, b: lib.where(lib.tensor([True, False]), lib.ones(2, dtype=a), lib.ones(2, dtype=b)),
    "cat": lambda lib, a, b: lib.cat([lib.ones(2, dtype=a), lib.ones(2, dtype=b)]),
    "sum": lambda lib, a, b: lib.ones(2, dtype=a).sum(dtype=b),
    "promote_types": lambda lib, a, b: lib.zeros(1, dtype=lib.promote_types(a, b)),
    "full_like": lambda lib, a, b: lib.full_like(lib.ones(2, dtype=a), 1, dtype=b),
}


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("a, b", list(itertools.product(NAMES, NAMES)), ids=lambda n: n)
def test_promotion(a, b, way):
    assert_same(WAYS[way](fl, getattr(fl, a), getattr(fl, b)), WAYS[way](torch, getattr(torch, a), getattr(torch, b)))


@pytest.mark.parametrize("value", [True, 2, 1.5], ids=str)
@pytest.mark.parametrize("op", ["add", "mul", "div", "pow", "maximum_", "eq", "floor_divide"])
@pytest.mark.parametrize("name", NAMES)
def test_promotion_with_python_numbers(name, op, value):
    def run(lib):
        x = lib.ones(2, dtype=getattr(lib, name))
        return lib.clamp(x, min=value) if op == "maximum_" else getattr(lib, op)(x, value)

    try:
        want = run(torch)
    except RuntimeError:
        return  # not made by PyTorch
    assert_same(run(fl), want)


REDUCTIONS = {
    "sum": {}, "mean": {}, "prod": {}, "amax": {}, "amin": {}, "var": {}, "std": {}, "logsumexp": {}, "norm": {}, "nansum": {}, "count_nonzero": {}, "all": {}, "any": {},
}  # fmt: skip


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2), (1,)], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", list(REDUCTIONS))
def test_reductions(name, dim, keepdim):
    if name == "prod" and isinstance(dim, tuple) or name == "logsumexp" and dim is None or name == "count_nonzero" and keepdim:
        pytest.skip("PyTorch has no such form")
    x = randn(2, 3, 4)

    def run(lib, x):
        if dim is None:
            return getattr(lib, name)(x)
        return lib.count_nonzero(x, dim) if name == "count_nonzero" else getattr(lib, name)(x, dim=dim, keepdim=keepdim)

    beside(run, x, grad=name not in ("all", "any", "count_nonzero"))


@pytest.mark.parametrize("name", ["max", "min", "median", "sort", "cummax", "cummin", "mode", "kthvalue", "topk", "argmax", "argmin", "cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_along_a_dimension(name, dim):
    x = randn(3, 5, 4)

    def run(lib, x):
        if name in ("kthvalue", "topk"):
            return tuple(getattr(lib, name)(x, 2, dim))
        r = getattr(lib, name)(x, dim)
        return tuple(r) if isinstance(r, tuple) else r

    beside(run, x)


def test_reductions_of_ties_and_nan():
    x = np.array([[1.0, 3.0, 3.0], [np.nan, 2.0, np.nan], [5.0, 5.0, 5.0]])
    for name in ("max", "min", "argmax", "argmin", "amax", "amin"):
        beside(lambda lib, x: tuple(r) if isinstance(r := getattr(lib, name)(x, 1), tuple) else r, x)
    for name in ("max", "min", "amax", "sum", "mean", "prod"):
        beside(lambda lib, x: getattr(lib, name)(x), x)
    beside(lambda lib, x: tuple(lib.sort(x, 1)), x)
    beside(lambda lib, x: tuple(lib.sort(x, 1, descending=True)), x)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "all", "any", "amax", "argmax"])
def test_reductions_of_nothing(name):
    def run(lib, shape, *args):
        return getattr(lib, name)(lib.zeros(*shape), *args)

    for shape, args in [((0,), ()), ((0, 3), (0,)), ((0, 3), (1,))]:
        try:
            want = run(torch, shape, *args)
        except (RuntimeError, IndexError):
            with pytest.raises(Exception):
                run(fl, shape, *args)
        else:
            assert_same(run(fl, shape, *args), want)


MATMULS = [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 6)), ((4,), (2, 4, 5)), ((0, 4), (4, 3)), ((3, 0), (0, 4)), ((70, 33), (33, 65))]


@pytest.mark.parametrize("a, b", MATMULS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_matmul(a, b, dtype):
    beside(lambda lib, x, y: lib.matmul(x, y), randn(*a, dtype=dtype), randn(*b, seed=2, dtype=dtype), scale=3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("a, b", [((3, 4), (4, 5)), ((2, 30, 40), (2, 40, 5))], ids=str)
def test_matmul_of_halves(a, b, dtype):
    beside(lambda lib, x, y: lib.matmul(x.to(getattr(lib, dtype)), y.to(getattr(lib, dtype))), randn(*a), randn(*b, seed=2), grad=False, scale=8)


def test_other_products():
    a, b, c = randn(3, 4), randn(4, 5), randn(3, 5)
    beside(lambda lib, a, b, c: lib.addmm(c, a, b, beta=0.5, alpha=2), a, b, c)
    beside(lambda lib, a, b: lib.einsum("ij,jk->ik", a, b), a, b)
    beside(lambda lib, a: lib.einsum("ij->j", a), a)
    beside(lambda lib, a: lib.einsum("ii->i", a), randn(4, 4))
    beside(lambda lib, a, b: lib.einsum("bij,bjk->bik", a, b), randn(2, 3, 4), randn(2, 4, 5))
    beside(lambda lib, a, b: lib.tensordot(a, b, 1), a, b)
    beside(lambda lib, a, b: lib.outer(a, b), randn(3), randn(4))
    beside(lambda lib, a, b: lib.bmm(a, b), randn(2, 3, 4), randn(2, 4, 5))


L = list
INDICES = {
    "int": 1, "negative": -1, "slice": slice(1, 3), "step": slice(None, None, 2), "none": None, "dots": (Ellipsis, 0), "pair": (1, slice(0, 2)),
    "list": [0, 2], "two_lists": ([0, 2], [1, 3]), "list_slice": ([0, 2], slice(1, 3)), "slice_list": (slice(None), [0, 0, 3]), "apart": ([0, 1], slice(None), [1, 2]),
    "apart_none": ([0, 1], None, [1, 2]), "int_and_list": (0, slice(None), [0, 1]), "list_int_between": ([0, 1], slice(None), 1), "grid": ([[0], [1]], [[0, 1]]),
    "bool_list": [True, False, True, False], "true": True, "false": False, "dots_list": (Ellipsis, [0, 1]), "int_none_list": (0, None, [0, 1]), "empty": ([],),
    "slice_none_list_int": (slice(None), [0, 1], None, 0), "everything": (None, [1, 0], Ellipsis, slice(0, 2)), "unit": (),
}  # fmt: skip


@pytest.mark.parametrize("name", list(INDICES))
def test_indexing(name):
    index = INDICES[name]
    beside(lambda lib, x: x[index], randn(4, 5, 3))

    def write(lib, x):
        y = x * 1
        y[index] = 7.0
        return y

    beside(write, randn(4, 5, 3))


def test_indexing_with_masks():
    x, m = randn(4, 5), randn(4, 5) > 0
    beside(lambda lib, x, m: x[m], x, m)
    beside(lambda lib, x, m: x[m[:, 0]], x, m)
    beside(lambda lib, x, m: x[:, m[0]], x, m)
    beside(lambda lib, x, m: lib.where(m, x, -x), x, m)
    beside(lambda lib, x, m: x.masked_fill(m, 2.0), x, m)
    beside(lambda lib, x, m: lib.nonzero(m), x, m, grad=False)
    beside(lambda lib, x, m: x[lib.tensor([0, 1]), m[:2, 0].long()], x, m)


VIEWS = {
    "t": lambda x: x.transpose(0, 1), "permute": lambda x: x.permute(2, 0, 1), "slice": lambda x: x[:, 1::2], "select": lambda x: x.select(1, 2), "unfold": lambda x: x.unfold(1, 2, 2),
    "diagonal": lambda x: x.diagonal(0, 1, 2), "expand": lambda x: x[:, :1].expand(2, 6, 5), "squeeze": lambda x: x[:, :1].squeeze(), "view": lambda x: x.view(4, 10), "flatten": lambda x: x.flatten(1),
    "narrow": lambda x: x.narrow(2, 1, 3), "unsqueeze": lambda x: x.unsqueeze(-1), "movedim": lambda x: x.movedim(0, 2), "as_strided": lambda x: x.as_strided((2, 3), (4, 2), 1),
    "unbind": lambda x: tuple(x.unbind(1)), "split": lambda x: tuple(x.split(3, 1)), "chunk": lambda x: tuple(x.chunk(4, 1)), "swapaxes": lambda x: x.transpose(1, -1), "reshape": lambda x: x.reshape(-1, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", list(VIEWS))
def test_views_and_their_strides(name):
    beside(lambda lib, x: VIEWS[name](x), randn(2, 4, 5), strides=True)


ARRANGE = {
    "flip": lambda lib, x: x.flip(0, 2), "roll": lambda lib, x: x.roll((1, 2), (0, 2)), "repeat": lambda lib, x: x.repeat(2, 1, 1, 3), "tile": lambda lib, x: x.tile(2, 2),
    "repeat_interleave": lambda lib, x: x.repeat_interleave(2, 1), "tril": lambda lib, x: x.tril(-1), "triu": lambda lib, x: x.triu(1), "diff": lambda lib, x: lib.diff(x),
    "cat": lambda lib, x: lib.cat([x, x * 2], 1), "stack": lambda lib, x: lib.stack([x, x * 2], 1), "gather": lambda lib, x: x.gather(1, lib.tensor([[[0, 1, 2, 3, 3]]] * 2)),
    "index_select": lambda lib, x: x.index_select(1, lib.tensor([3, 0])), "take": lambda lib, x: lib.take(x, lib.tensor([0, 39])),
    "index_add": lambda lib, x: x.index_add(1, lib.tensor([0, 0]), x[:, :2] * 2), "scatter": lambda lib, x: x.scatter(1, lib.tensor([[[0, 1, 2, 3, 3]]] * 2), x[:, :1] * 3),
    "scatter_add": lambda lib, x: x.scatter_add(1, lib.tensor([[[0, 1, 2, 3, 3]]] * 2), x[:, :1] * 3), "where": lambda lib, x: lib.where(x > 0, x, x * x), "clamp": lambda lib, x: x.clamp(-0.5, 0.5),
    "lerp": lambda lib, x: lib.lerp(x, x * x, 0.3), "addcmul": lambda lib, x: lib.addcmul(x, x, x, value=2), "meshgrid": lambda lib, x: tuple(lib.meshgrid(x[0, 0], x[0, 1], indexing="ij")),
    "diag": lambda lib, x: lib.diag(x[0, 0]), "nan_to_num": lambda lib, x: lib.nan_to_num(x), "cumsum": lambda lib, x: x.cumsum(1), "tensor_split": lambda lib, x: tuple(lib.tensor_split(x, 3, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(ARRANGE))
def test_arranging(name):
    beside(ARRANGE[name], randn(2, 4, 5))


CREATE = [
    lambda lib: lib.arange(5), lambda lib: lib.arange(1, 10, 3), lambda lib: lib.arange(0, 1, 0.3), lambda lib: lib.linspace(0, 1, 7), lambda lib: lib.eye(3, 4), lambda lib: lib.full((2,), 3),
    lambda lib: lib.full((2,), 3.5), lambda lib: lib.full((2,), True), lambda lib: lib.tensor([1, 2.5]), lambda lib: lib.tensor([True, 2]), lambda lib: lib.tensor([]), lambda lib: lib.logspace(0, 2, 5),
    lambda lib: lib.ones_like(lib.tensor([1])), lambda lib: lib.zeros(2, 0), lambda lib: lib.tril_indices(3, 3), lambda lib: lib.arange(5.0), lambda lib: lib.linspace(5, -5, 4, dtype=lib.float64),
    lambda lib: lib.bincount(lib.tensor([1, 3, 1])), lambda lib: lib.tensor([1.0, 2.0]).to(lib.int64), lambda lib: lib.tensor(2**40), lambda lib: lib.histc(lib.tensor([1.0, 2.0, 1.0]), 4, 0, 3),
    lambda lib: lib.unique(lib.tensor([3, 1, 3])), lambda lib: lib.searchsorted(lib.tensor([1.0, 2.0, 3.0]), lib.tensor([2.0, 2.5])), lambda lib: lib.tensor([1.9, -1.9]).int(),
]  # fmt: skip


@pytest.mark.parametrize("make", CREATE, ids=[str(i) for i in range(len(CREATE))])
def test_creation(make):
    assert_same(make(fl), make(torch))


ERRORS = [
    lambda lib: lib.ones(2) + lib.ones(3), lambda lib: lib.ones(2, 3) @ lib.ones(2, 3), lambda lib: lib.ones(2)[5], lambda lib: lib.ones(2)[0, 0], lambda lib: lib.ones(2).sum(3),
    lambda lib: lib.ones(2).view(3), lambda lib: lib.ones(2, 3).t().view(6), lambda lib: lib.cat([lib.ones(2, 3), lib.ones(2, 2)]), lambda lib: lib.stack([lib.ones(2), lib.ones(3)]),
    lambda lib: lib.ones(2, requires_grad=True).add_(1), lambda lib: lib.ones(2, requires_grad=True).exp().backward(), lambda lib: lib.ones(2).sum().backward(), lambda lib: lib.ones(2).item(),
    lambda lib: bool(lib.ones(2)), lambda lib: lib.ones(2, dtype=lib.int64).add_(0.5), lambda lib: lib.tensor([[1], [1, 2]]), lambda lib: lib.zeros(-1), lambda lib: lib.ones(2).expand(3),
    lambda lib: lib.ones(2).gather(0, lib.tensor([3])), lambda lib: lib.ones(2).index_select(0, lib.tensor([2])), lambda lib: lib.tensor([1, 2], requires_grad=True), lambda lib: lib.ones(2).softmax(2),
    lambda lib: lib.ones(2, 2).transpose(0, 3), lambda lib: lib.arange(0, 3, -1), lambda lib: lib.arange(0, 3, 0), lambda lib: lib.zeros(0).max(), lambda lib: lib.ones(2, requires_grad=True).numpy(),
    lambda lib: lib.mm(lib.ones(2, 2), lib.ones(2, 2, dtype=lib.float64)), lambda lib: lib.ones(2)[::-1], lambda lib: lib.ones(2) & lib.ones(2), lambda lib: len(lib.tensor(1)), lambda lib: iter(lib.tensor(1)),
    lambda lib: lib.from_numpy(np.arange(3)[::-1]), lambda lib: lib.ones(3).masked_fill(lib.ones(2, dtype=lib.bool), 0), lambda lib: lib.ones(2).chunk(0), lambda lib: lib.ones(2).expand(3, 2).add_(1),
    lambda lib: lib.nn.functional.cross_entropy(lib.ones(2, 3), lib.tensor([0, 5])), lambda lib: lib.nn.functional.conv2d(lib.ones(1, 3, 4, 4), lib.ones(1, 2, 3, 3)), lambda lib: lib.ones(2).permute(0, 0),
    lambda lib: lib.nn.functional.layer_norm(lib.ones(2, 3), (4,)), lambda lib: lib.nn.functional.max_pool2d(lib.ones(1, 1, 2, 2), 5), lambda lib: lib.nn.functional.embedding(lib.tensor([9]), lib.ones(3, 2)),
    lambda lib: lib.full((2,), 300, dtype=lib.uint8).clamp_(lib.ones(3)), lambda lib: lib.multinomial(lib.ones(2), 3), lambda lib: lib.eye(-1), lambda lib: lib.randperm(-1),
]  # fmt: skip


@pytest.mark.parametrize("call", ERRORS, ids=[str(i) for i in range(len(ERRORS))])
def test_both_raise(call):
    both_raise(call)


PRINT = [
    [], 3, 2.5, True, -1.5, [1, 22, 333], [-1, 5], [1.0, 2.0], [1.0, 2.5], [-1.0, 2.5], [True, False], [1e-8, 1.0], [1e10, 1.0], [1e-5, 1e-4], [0.0001, 0.1], [123456.0], [1234567.5], [99999999.0], [1e9],
    [float("nan")], [float("nan"), 1.0], [float("inf"), 1.5], [-float("inf"), 1.5], [[1, 2], [3, 4]], [[[1.0]]], [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [0.0], [-0.0], [0.1, 0.2, 0.30001], [1000.0, 0.5], [10000.0, 0.5],
    [1e5, 1.5], [1e-3, 1.0], [1.00001], [1e20], [0.00001], [2**40], [-(2**40), 1], [[True], [False]], [1e-40], [0.5] * 30, list(range(100)), [[0.5] * 12] * 3, 1e-10, 1e10, float("nan"), float("inf"), [1e3, 1e4], [1e8], [1.5e8],
    [100000000.0, 1.0], [0.0, 1e-9], [3.0, float("nan"), float("inf")], [[1.5, float("nan")], [-2.25, 1e3]],
]  # fmt: skip


@pytest.mark.parametrize("data", PRINT, ids=[str(i) for i in range(len(PRINT))])
@pytest.mark.parametrize("dtype", [None, "float64", "float16", "int32"])
def test_printing(data, dtype):
    def run(lib):
        try:
            x = lib.tensor(data, dtype=None if dtype is None else getattr(lib, dtype))
        except (RuntimeError, OverflowError, ValueError, TypeError):
            return None
        return repr(x)

    theirs = run(torch)
    if dtype == "int32" and any(c in str(data) for c in ("nan", "inf", "e")) or theirs is None:
        pytest.skip("no integer")
    assert run(fl) == theirs.replace("torch.", "flambeau.")


BIG = [
    lambda lib: lib.arange(2000), lambda lib: lib.arange(2000.0).reshape(40, 50), lambda lib: lib.zeros(11, 11, 11), lambda lib: lib.zeros(2, 0, 3), lambda lib: lib.zeros(0, dtype=lib.int64),
    lambda lib: lib.arange(10000).reshape(10, 10, 10, 10), lambda lib: lib.ones(2, requires_grad=True), lambda lib: lib.zeros(3, 1001), lambda lib: lib.arange(1001) * 1000, lambda lib: lib.zeros(1, 1, 1, 1),
    lambda lib: lib.linspace(0, 1, 33), lambda lib: lib.linspace(-1e6, 1e-6, 9), lambda lib: lib.eye(20), lambda lib: lib.ones(1001, dtype=lib.bool), lambda lib: lib.zeros(2, 3).to(lib.bfloat16), lambda lib: lib.full((3, 3), -1e-7),
]  # fmt: skip


@pytest.mark.parametrize("make", BIG, ids=[str(i) for i in range(len(BIG))])
def test_printing_of_large_and_empty_tensors(make):
    assert repr(make(fl)) == repr(make(torch)).replace("torch.", "flambeau.")


def test_dtype_names():
    assert dtype_name(fl.ones(1)) == "float32"


QUANTILES = [dict(), dict(dim=0), dict(dim=1, keepdim=True), dict(dim=-1), dict(keepdim=True)]


@pytest.mark.parametrize("how", QUANTILES, ids=str)
@pytest.mark.parametrize("kind", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles(name, kind, how):
    x = randn(5, 4, 6)
    q = np.array([0.0, 0.25, 0.5, 0.83, 1.0])
    beside(lambda lib, x: getattr(lib, name)(x, 0.37, interpolation=kind, **how), x)
    beside(lambda lib, x, q: getattr(lib, name)(x, q, interpolation=kind, **how), x, q)
    x.reshape(-1)[[0, 7, 8, 9, 10, 50]] = np.nan
    x[2] = np.inf
    beside(lambda lib, x, q: getattr(x, name)(q, interpolation=kind, **how), x, q, grad=False)
