"""How loops go through memory: order of results, broadcasting, transposes, flips, slices, scans, outputs that no cache holds, joins, row sums."""

from __future__ import annotations

import numpy as np
import pytest
from support.compare import array, bits

import flambeau as fl

TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
LARGE = (1 << 25) // 4 + 7777  # float32 elements of an output past every cache


# ---------------------------------------------------------------- cast


@pytest.mark.parametrize("dtype", TYPES)
def test_a_cast_keeps_the_order_of_dense_memory(dtype):
    x = fl.arange(24).reshape(2, 3, 4).permute(2, 0, 1)
    y = x.to(getattr(fl, dtype))
    assert y.stride() == x.stride() and np.array_equal(array(y), array(x).astype(array(y).dtype))


@pytest.mark.parametrize(
    "view",
    [lambda x: x[:, ::2], lambda x: x[1:].t()[::3], lambda x: x[:1].expand(3, 8), lambda x: x[0, 0], lambda x: x[:0]],
    ids=["step", "t and step", "expanded", "0d", "empty"],
)
def test_a_cast_of_what_is_not_dense_is_dense(view):
    x = view(fl.arange(64).reshape(8, 8))
    y = x.double()
    assert y.stride() == fl.empty_like(x).stride() and y.tolist() == x.tolist()
    assert y.numel() == 0 or sum((n - 1) * s for n, s in zip(y.shape, y.stride())) == y.numel() - 1


def test_a_cast_of_a_transposed_matrix_has_its_gradient():
    x = fl.randn(3, 5, requires_grad=True)
    weight = fl.arange(15.0, dtype=fl.float64).reshape(5, 3)
    (x.t().double() * weight).sum().backward()
    assert x.grad.tolist() == weight.t().tolist()


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("dtype", ["int16", "int64", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 40), (70, 33), (5, 2500), (300, 700)], ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "transposed"])
def test_a_row_and_a_column_broadcast_over_a_matrix(dtype, shape, transposed):
    rng = np.random.default_rng(0)
    kind = getattr(fl, dtype)
    x = fl.tensor(rng.integers(-50, 50, shape)).to(kind)
    x = x.t() if transposed else x
    row, column = (fl.tensor(rng.integers(-50, 50, n)).to(kind) for n in (x.shape[1], (x.shape[0], 1)))
    assert np.array_equal(array(x + row), array(x) + array(row))
    assert np.array_equal(array(column - x), array(column) - array(x))
    assert np.array_equal(array(x * 3), array(x) * 3)


BROADCAST = {
    "add": (fl.add, np.add), "sub": (fl.sub, np.subtract), "mul": (fl.mul, np.multiply), "div": (fl.div, np.true_divide), "pow": (fl.pow, np.power),
    "maximum": (fl.maximum, np.maximum), "less": (fl.lt, np.less), "equal": (fl.eq, np.equal), "hypot": (fl.hypot, np.hypot),
    "where": (fl.where, np.where), "lerp": (fl.lerp, lambda a, b, w: a + w * (b - a)), "addcmul": (fl.addcmul, lambda x, a, b: x + a * b),
}  # fmt: skip


def operand_of_rows(rng, shape, dtype):
    """A tensor that is repeated over some axes, has others of a larger tensor, or runs backwards in memory."""
    kept = [n if rng.random() < 0.65 else 1 for n in shape][int(rng.integers(0, len(shape))) if rng.random() < 0.3 else 0 :]
    way = rng.integers(0, 4)
    wide = [2 * n if way == 1 and i == len(kept) - 1 else n + 3 if way == 2 else n for i, n in enumerate(kept)]
    x = fl.tensor(rng.integers(1, 9, wide)).to(dtype)
    if way == 1:
        x = x[..., ::2]
    elif way == 2:
        x = x[tuple(slice(3, None) if i % 2 else slice(0, n) for i, n in enumerate(kept))]
    elif way == 3 and x.ndim > 1:
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    return x


@pytest.mark.parametrize("name", BROADCAST)
@pytest.mark.parametrize("threads", [1, 3])
def test_random_rows_are_broadcast_as_by_numpy(name, threads):
    ours, theirs = BROADCAST[name]
    rng = np.random.default_rng(len(name) + 100 * threads)
    before = fl.get_num_threads()
    fl.set_num_threads(threads)
    try:
        for _ in range(60):
            inner = int(rng.choice([31, 32, 33, 64, 100, 257, 511, 512, 600, 1025]))
            shape = [*rng.integers(1, 9, int(rng.integers(1, 4))), inner]
            dtypes = [getattr(fl, str(d)) for d in rng.choice(["float32", "float64", "float32"], 3)]
            if name in ("add", "sub", "mul", "less", "equal", "where") and rng.random() < 0.5:
                dtypes = [getattr(fl, str(d)) for d in rng.choice(["int64", "int32", "uint8", "int16"], 3)]
            if name in ("add", "sub", "mul", "div") and rng.random() < 0.2:
                dtypes = [getattr(fl, str(d)) for d in rng.choice(["complex64", "complex128", "float64"], 3)]
            count = 3 if name in ("where", "lerp", "addcmul") else 2
            xs = [operand_of_rows(rng, [int(n) for n in shape], dtypes[0] if name == "lerp" else d) for d in dtypes[:count]]
            if name == "where":
                xs[0] = xs[0] > 4
            arrays = [array(x) for x in xs]
            with np.errstate(over="ignore"):
                want = theirs(*arrays)
            got = ours(*xs)
            assert got.shape == want.shape
            if "int" in str(got.dtype):
                assert np.array_equal(array(got), want.astype(array(got).dtype))
            else:
                np.testing.assert_allclose(array(got), want, rtol=2e-6, atol=0)
            if name in ("add", "sub", "mul") and got.dtype == xs[0].dtype:
                into = fl.zeros(*got.shape[:-1], 2 * got.shape[-1], dtype=got.dtype)[..., : got.shape[-1]]
                into.copy_(xs[0].expand(got.shape))
                getattr(into, name + "_")(xs[1])
                assert fl.equal(into, got)
    finally:
        fl.set_num_threads(before)


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("outer", [1, 3])
def test_rows_of_a_slice_that_threads_share_out_unevenly(outer, rows):
    whole = fl.arange(float(outer * rows * 2 * 20011)).reshape(outer, rows * 2, 20011)
    x = whole[:, ::2]
    assert np.array_equal(array(x + 1.0), array(x) + 1)
    assert np.array_equal(array(x + x[:1, :1]), array(x) + array(x[:1, :1]))


# ---------------------------------------------------------------- a last operand of one element


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int16", "int64", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 5), (70, 33), (3, 2500), (300, 700), (2, 9, 40)], ids=str)
def test_one_element_has_the_bits_of_an_expanded_one(dtype, shape):
    rng = np.random.default_rng(0)
    x = fl.tensor(rng.integers(1, 50, shape)).to(getattr(fl, dtype))
    x = x / 7 if dtype.startswith(("float", "bf")) else x
    ops = [fl.add, fl.sub, fl.mul, fl.div, fl.maximum, fl.lt, fl.atan2, fl.remainder, fl.pow, lambda a, b: fl.add(a, b, alpha=3)]
    for one in (fl.tensor(3), fl.full((1,) * len(shape), 3), fl.full((*shape[:-1], 1), 3)):
        one = one.to(x.dtype)
        whole = one.expand(shape).contiguous()
        for y in (x, x.transpose(-1, -2).contiguous().transpose(-1, -2), fl.stack([x, x], -1)[..., 0]):
            for op in ops:
                assert bits(op(y, one)) == bits(op(y, whole)), op
            z = y.clone()
            assert bits(z.mul_(one)) == bits(y * whole)


def test_a_factor_is_rounded_with_the_sum_whether_it_is_expanded_or_not():
    x, b = fl.randn(1000), fl.tensor(0.3)
    assert bits(x.add(b, alpha=0.7)) == bits(x.add(b.expand(1000).contiguous(), alpha=0.7))
    assert bits(x.sub(b, alpha=0.7)) == bits(x.sub(b.expand(1000).contiguous(), alpha=0.7))


def test_one_element_of_the_written_tensor_itself():
    x = fl.arange(1.0, 3001.0)
    x.mul_(x[1])
    assert x.tolist() == [2.0 * i for i in range(1, 3001)]


# ---------------------------------------------------------------- elements of one byte


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8"])
@pytest.mark.parametrize("shape", [(3, 5), (70, 33), (2, 2500)], ids=str)
def test_elements_of_one_byte(dtype, shape):
    rng = np.random.default_rng(0)
    low, high = {"bool": (0, 2), "uint8": (0, 256), "int8": (-128, 128)}[dtype]
    a, b = (rng.integers(low, high, shape).astype(dtype) for _ in range(2))
    b[0, :3] = a[0, :3]
    x, y = fl.tensor(a), fl.tensor(b)
    ops = [np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.multiply, np.equal, np.not_equal, np.logical_and, np.logical_or, np.logical_xor]
    ops += [] if dtype == "bool" else [np.add, np.subtract]
    names = {"equal": "eq", "not_equal": "ne", "multiply": "mul", "subtract": "sub"}
    for op in ops:
        f = getattr(fl, names.get(op.__name__, op.__name__))
        for u, v, w, z in ((x, y, a, b), (x[:, ::2], y[:, ::2], a[:, ::2], b[:, ::2]), (x, y[:1], a, b[:1]), (x, y[:, :1], a, b[:, :1])):
            assert f(u, v).dtype == fl.tensor(op(w, z)).dtype and np.array_equal(array(f(u, v)), op(w, z)), op
        assert np.array_equal(array(f(x, y[0, 0])), op(a, b[0, 0])), op
    assert np.array_equal(array(~x), ~a) and np.array_equal(array(fl.logical_not(x)), np.logical_not(a))
    assert np.array_equal(array(x.clone().mul_(y)), a * b)


def test_numbers_beside_elements_of_one_byte():
    x, y = fl.tensor([[0, 1, 200, 255]] * 40, dtype=fl.uint8), fl.tensor([[-128, -3, 0, 127]] * 40, dtype=fl.int8)
    assert (x + 100)[0].tolist() == [100, 101, 44, 99] and (y - 3)[0].tolist() == [125, -6, -3, 124]
    assert (y * -3)[0].tolist() == [-128, 9, 0, -125] and (x & 15)[0].tolist() == [0, 1, 8, 15]
    assert (y == -3)[0].tolist() == [False, True, False, False] and (x == 255)[0].tolist() == [False, False, False, True]
    # What one byte can not hold is compared, not wrapped.
    assert not (x == 456).any() and (x != -1).all() and not (y == 253).any() and (y != 200).all()
    assert y.add(y, alpha=-1).tolist() == [[0] * 4] * 40 and x.sub(x, alpha=3)[0].tolist() == [0, 254, 112, 2]
    assert (x + y).dtype == fl.int16 and (x + y)[0].tolist() == [-128, -2, 200, 382]
    assert (x + fl.tensor(100)).dtype == fl.uint8 and (x + fl.tensor(100))[0].tolist() == [100, 101, 44, 99]
    assert (x + 300)[0].tolist() == [44, 45, 244, 43] and (y * 300)[0].tolist() == [0, 124, 0, -44]
    with pytest.raises((ValueError, OverflowError)):
        x // 300
    mask = x > 0
    assert (mask * mask).dtype == fl.bool and (mask + mask).tolist() == mask.tolist() and (mask & x)[0].tolist() == [0, 1, 0, 1]
    assert mask.logical_and(2).tolist() == mask.tolist() and x.logical_or(0)[0].tolist() == mask[0].tolist()


# ---------------------------------------------------------------- transposes


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 5000), (65, 67), (64, 96), (130, 47), (3, 70, 50)], ids=str)
def test_copies_of_transposed_memory(dtype, shape):
    x = fl.tensor(np.random.default_rng(0).integers(0, 100, shape)).to(getattr(fl, dtype))
    t = x.transpose(-1, -2)
    assert np.array_equal(array(t.contiguous()), array(x).swapaxes(-1, -2))
    wide = fl.zeros(*t.shape[:-1], t.shape[-1] * 2, dtype=x.dtype)
    wide[..., ::2].copy_(t)
    assert np.array_equal(array(wide[..., ::2]), array(x).swapaxes(-1, -2)) and not wide[..., 1::2].any()
    assert np.array_equal(array(t.contiguous() == t), np.ones(t.shape, bool))


# ---------------------------------------------------------------- flips and quarter turns


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 5000), (65, 67), (64, 96), (130, 47), (3, 70, 50), (5000, 3), (0, 4)], ids=str)
def test_flips_and_turns_of_every_size(dtype, shape):
    x = fl.tensor(np.random.default_rng(0).integers(0, 100, shape)).to(getattr(fl, dtype))
    for view, a in ((x, array(x)), (x.transpose(-1, -2), array(x).swapaxes(-1, -2)), (x[..., ::2], array(x)[..., ::2])):
        for dims in ([0], [-1], [0, -1], [-1, -2]):
            assert np.array_equal(array(view.flip(dims)), np.flip(a, dims))
        for k in range(-1, 5):
            turned = fl.rot90(view, k, (0, -1))
            assert np.array_equal(array(turned), np.rot90(a, k, (0, -1))) and turned.shape == np.rot90(a, k, (0, -1)).shape


def test_a_flipped_operand_of_a_sum_and_its_gradient():
    x = fl.randn(70, 90, requires_grad=True)
    weight = fl.randn(90, 70)
    (x.rot90() * weight).sum().backward()
    assert np.array_equal(array(x.grad), np.rot90(array(weight), -1))


# ---------------------------------------------------------------- few columns


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("cols", [1, 2, 3, 4, 5, 7, 8, 9])
@pytest.mark.parametrize("rows", [1, 3, 9, 40, 2000])
def test_copies_whose_rows_are_short(dtype, rows, cols):
    x = fl.tensor(np.random.default_rng(0).integers(0, 100, (3, cols, rows))).to(getattr(fl, dtype))
    a = array(x).swapaxes(1, 2)
    assert np.array_equal(array(x.transpose(1, 2).contiguous()), a)
    assert np.array_equal(array(x[:, :, ::2].transpose(1, 2).contiguous()), a[:, ::2])
    wide = fl.zeros(3, rows, 2 * cols, dtype=x.dtype)
    wide[..., ::2].copy_(x.transpose(1, 2))
    assert np.array_equal(array(wide[..., ::2]), a) and not wide[..., 1::2].any()
    joined = fl.stack([x[0, c] for c in range(cols)], 1)
    assert np.array_equal(array(joined), a[0])
    assert np.array_equal(array(fl.cat([joined, joined[:, :1], joined], 1)), np.concatenate([a[0], a[0][:, :1], a[0]], 1))


@pytest.mark.parametrize("factor", [2, 3])
def test_pixels_are_shuffled_and_back(factor):
    x = fl.randn(2, 3 * factor**2, 17, 33)
    y = fl.nn.functional.pixel_shuffle(x, factor)
    want = array(x).reshape(2, 3, factor, factor, 17, 33).transpose(0, 1, 4, 2, 5, 3).reshape(2, 3, 17 * factor, 33 * factor)
    assert np.array_equal(array(y), want)
    assert bits(fl.nn.functional.pixel_unshuffle(y, factor)) == bits(x)


# ---------------------------------------------------------------- slices at indices


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("inner", [1, 2, 3, 8, 40])
def test_slices_at_indices_in_any_order(dtype, inner):
    n = 37
    x = fl.tensor(np.random.default_rng(0).integers(0, 100, (5, n, inner))).to(getattr(fl, dtype))
    rng = np.random.default_rng(1)
    mixed = [0, 1, 2, 3, 9, 8, 20, 21, 22, 23, 24, 36, 36, 0]
    for index in (rng.integers(0, n, 400), np.arange(n), np.arange(n)[::-1].copy(), np.repeat(np.arange(n), 2), mixed, [5], []):
        i = fl.tensor(index, dtype=fl.int64)
        want = array(x)[:, np.asarray(index, np.int64)]
        assert np.array_equal(array(x.index_select(1, i)), want) and np.array_equal(array(x[:, i]), want)
        assert np.array_equal(array(x[1:].index_select(1, i)), want[1:])
        assert np.array_equal(array(x.transpose(0, 2)[:, i]), want.transpose(2, 1, 0))
        assert np.array_equal(array(x.transpose(0, 2).index_select(1, i)), want.transpose(2, 1, 0))


@pytest.mark.parametrize("dtype", ["bool", "int16", "int64", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("inner", [1, 2, 40])
@pytest.mark.parametrize("dim", [0, 1])
def test_index_add_adds_in_the_order_of_the_index(dtype, inner, dim):
    rng = np.random.default_rng(0)
    shape = [9, 11, inner]
    x = fl.tensor(rng.integers(0, 9, shape)).to(getattr(fl, dtype))
    shape[dim] = 50
    source = fl.tensor(rng.integers(0, 9, shape)).to(getattr(fl, dtype))
    index = fl.tensor(rng.integers(0, x.shape[dim], 50))
    want = array(x).copy()
    for k, i in enumerate(index.tolist()):
        at = (slice(None),) * dim
        want[(*at, i)] = want[(*at, i)] + (1 if dtype == "bool" else 2) * array(source)[(*at, k)]
    assert np.array_equal(array(x.index_add(dim, index, source, alpha=1 if dtype == "bool" else 2)), want)


@pytest.mark.parametrize("index", [[0, 1, 2, 3, 4], [-1], [4, 5]])
def test_an_index_out_of_range_is_refused_before_anything_is_written(index):
    x, i = fl.zeros(3, 4), fl.tensor(index)
    with pytest.raises(IndexError, match="index_select"):
        x.index_select(1, i)
    with pytest.raises(IndexError, match="index_add"):
        x.index_add_(1, i, fl.ones(3, len(index)))
    assert not x.any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("pad", [[1, 2], [0, 3, 2, 0], [1, 1, 2, 2, 3, 3], [-1, 2, 2, -1], [-2, -1], [-6, 4], [0, 0, 0, 0]], ids=str)
def test_padding_by_a_number_around_and_within(dtype, pad):
    a = (np.arange(3 * 5 * 6).reshape(3, 5, 6) % 100 + 1).astype(np.float64)
    x = fl.tensor(a).to(getattr(fl, dtype))
    pairs = [(0, 0)] * (3 - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    want = np.pad(array(x), [(max(b, 0), max(e, 0)) for b, e in pairs])
    want = want[tuple(slice(max(-b, 0), n + min(e, 0)) for (b, e), n in zip(pairs, want.shape, strict=True))]
    assert np.array_equal(array(fl.nn.functional.pad(x, pad)), want)
    assert np.array_equal(array(fl.nn.functional.pad(x[:0], [0, 0, 0, 0, 1, 1], value=1)), np.ones((2, 5, 6), want.dtype))


@pytest.mark.parametrize("shape", [(4, 16, 20, 20), (3, 5, 6), (2, 1, 2, 2)], ids=str)
@pytest.mark.parametrize(("mode", "numpy"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_padding_by_elements_of_the_tensor(shape, mode, numpy):
    x = fl.randn(*shape, requires_grad=True)
    for pad in ([1, 1], [0, 1, 1, 0], [1, 1, 1, 1]):
        pairs = [(0, 0)] * (len(shape) - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
        y = fl.nn.functional.pad(x, pad, mode=mode)
        assert np.array_equal(array(y.detach()), np.pad(array(x.detach()), pairs, mode=numpy))
        places = np.pad(np.arange(x.numel()).reshape(shape), pairs, mode=numpy)
        assert fl.autograd.grad(y.sum(), x)[0].flatten().tolist() == np.bincount(places.ravel(), minlength=x.numel()).tolist()


# ---------------------------------------------------------------- scans


@pytest.mark.parametrize("shape", [(1, 1), (1, 200), (7, 64), (9, 65), (17, 130), (3, 70, 5), (2, 3, 300)], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scans_of_lines_of_any_length(shape, dim):
    x = np.random.default_rng(0).standard_normal(shape)
    t = fl.tensor(x)
    np.testing.assert_allclose(array(t.cumsum(dim)), x.cumsum(dim), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(array((t * 0.1 + 1).cumprod(dim)), (x * 0.1 + 1).cumprod(dim), rtol=1e-12)
    np.testing.assert_allclose(array(t.logcumsumexp(dim)), np.logaddexp.accumulate(x, dim), rtol=1e-12, atol=1e-14)
    for name, fold in (("cummax", np.maximum), ("cummin", np.minimum)):
        values, indices = getattr(t, name)(dim)
        assert np.array_equal(array(values), fold.accumulate(x, dim))
        assert np.array_equal(np.take_along_axis(x, array(indices), dim), array(values))
    t.requires_grad_()
    t.cumsum(dim).backward(t.detach())
    np.testing.assert_allclose(array(t.grad), np.flip(np.flip(x, dim).cumsum(dim), dim), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dim", [0, 1])
def test_scans_of_every_type(dtype, dim):
    x = fl.tensor(np.random.default_rng(0).integers(0, 2, (20, 70))).to(getattr(fl, dtype))
    assert np.array_equal(array(x.cumsum(dim)), array(x).astype(np.float64).cumsum(dim))
    values, indices = x.cummax(dim)
    assert np.array_equal(array(values), np.maximum.accumulate(array(x), dim))
    step = np.arange(x.shape[dim]).reshape((-1, 1) if dim == 0 else (1, -1))  # the last of equals is the place
    want = np.maximum.accumulate(np.where(array(x) >= array(values), step, 0), dim)
    assert np.array_equal(array(indices), want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bfloat16"])
def test_extremes_of_a_line(dtype):
    """Most pieces of a long line hold no better one; those that do, equals and NaN are looked at one by one."""
    rng = np.random.default_rng(0)
    for x in (rng.integers(-50, 50, 1000), np.arange(1000) // 100, -np.arange(1000), np.zeros(1000), np.r_[np.full(300, 5), rng.integers(0, 6, 700)]):
        t = fl.tensor(x).to(getattr(fl, dtype))
        x = array(t.double())
        for name, fold, better in (("cummax", np.maximum, np.greater_equal), ("cummin", np.minimum, np.less_equal)):
            values, indices = getattr(t, name)(0)
            want = fold.accumulate(x)
            assert np.array_equal(array(values.double()), want), name
            assert np.array_equal(array(indices), np.maximum.accumulate(np.where(better(x, want), np.arange(1000), 0))), name
    t = fl.zeros(500, dtype=fl.float32)
    t[[70, 300]] = fl.nan
    values, indices = t.cummax(0)
    assert not values[:70].isnan().any() and values[70:].isnan().all()
    assert indices[[69, 70, 299, 300, 499]].tolist() == [69, 70, 70, 300, 300]


@pytest.mark.parametrize("dim", [0, 1])
def test_scans_carry_nan_and_infinities(dim):
    x = fl.zeros(3, 70)
    x[0, 5], x[1, 5], x[2, 5] = fl.nan, fl.inf, -fl.inf
    x = x if dim == 1 else x.t().contiguous()
    take = (lambda y: y) if dim == 1 else (lambda y: y.t())
    assert [str(v) for v in take(x.cumsum(dim))[:, -1].tolist()] == ["nan", "inf", "-inf"]
    assert [str(v) for v in take(x.cummax(dim)[0])[:, -1].tolist()] == ["nan", "inf", "0.0"]
    assert take(x.cummax(dim)[1])[:, -1].tolist() == [5, 5, 69]
    assert [str(v) for v in take(x.cummin(dim)[0])[:, -1].tolist()] == ["nan", "0.0", "-inf"]
    assert [str(v) for v in take(fl.full_like(x, -fl.inf).logcumsumexp(dim))[:, -1].tolist()] == ["-inf"] * 3
    assert [str(v) for v in take(x.logcumsumexp(dim))[:2, -1].tolist()] == ["nan", "inf"]


# ---------------------------------------------------------------- windows of short rows


@pytest.mark.parametrize("width", [1, 3, 9, 40])
@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), [(2, 2, 0, 1), (3, 2, 1, 1), (2, 1, 1, 2), (3, 3, 0, 2)])
def test_max_pool_of_rows_of_any_length(width, kernel, stride, padding, dilation):
    height, reach = 12, dilation * (kernel - 1) + 1
    x = np.random.default_rng(0).standard_normal((2, 3, height, width)).astype(np.float32)
    if width + 2 * padding < reach:
        with pytest.raises(fl.ShapeError, match="max_pool2d"):
            fl.nn.functional.max_pool2d(fl.tensor(x), kernel, stride, padding, dilation)
        return
    x[0, 0, :2], x[0, 1], x[1, 2, 5] = np.nan, -np.inf, np.inf
    y, indices = fl.nn.functional.max_pool2d(fl.tensor(x), kernel, stride, padding, dilation, return_indices=True)
    wide = np.full((2, 3, height + 2 * padding, width + 2 * padding), -np.inf, np.float32)
    wide[:, :, padding : padding + height, padding : padding + width] = x
    for i in range(y.shape[2]):
        for j in range(y.shape[3]):
            window = wide[:, :, i * stride : i * stride + reach : dilation, j * stride : j * stride + reach : dilation]
            assert np.array_equal(array(y)[:, :, i, j], window.max((2, 3)), equal_nan=True)
    flat, at = array(y).reshape(6, -1), array(indices).reshape(6, -1)
    assert at.min() >= 0 and at.max() < height * width
    # A dilated window may step over the whole width: it holds nothing, and its place is any.
    assert np.array_equal(np.where(flat == -np.inf, flat, np.take_along_axis(x.reshape(6, -1), at, 1)), flat, equal_nan=True)


# ---------------------------------------------------------------- outputs past every cache


@pytest.fixture(scope="module")
def large():
    x = fl.arange(float(LARGE)) % 201 - 100
    return x, array(x)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["relu", "x + x", "x * 2.5", "x + row", "x + short row", "clone", "copy_", "bfloat16", "int32", "float64", "x > 0", "offset", "half + half"]
)
def test_large_results_are_those_of_small_ones(large, name):
    x, a = large
    if name == "half + half":
        half = fl.cat([x, x]).bfloat16()
        return np.testing.assert_array_equal(array(half + half), array(half) * 2)
    got, want = {
        "relu": lambda: (x.relu(), np.maximum(a, 0)),
        "x + x": lambda: (x + x, a + a),
        "x * 2.5": lambda: (x * 2.5, a * np.float32(2.5)),
        "x + row": lambda: (x[: 7606 * 1103].reshape(-1, 1103) + x[:1103], a[: 7606 * 1103].reshape(-1, 1103) + a[:1103]),
        "x + short row": lambda: (x[: 254250 * 33].reshape(-1, 33) + x[:33], a[: 254250 * 33].reshape(-1, 33) + a[:33]),
        "clone": lambda: (x.clone(), a),
        "copy_": lambda: (fl.zeros(LARGE).copy_(x), a),
        "bfloat16": lambda: (fl.cat([x, x]).bfloat16(), np.concatenate([a, a])),
        "int32": lambda: (x.int(), a.astype(np.int32)),
        "float64": lambda: (x.double(), a.astype(np.float64)),
        "x > 0": lambda: (x > 0, a > 0),
        "offset": lambda: (fl.zeros(LARGE + 3)[3:].copy_(x), a),
    }[name]()
    assert np.array_equal(array(got), want)


def test_a_large_tensor_written_in_place(large):
    x, a = large
    y = x.clone()
    y.mul_(2.0).add_(x)
    assert np.array_equal(array(y), a * 3)


# ---------------------------------------------------------------- fill


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [0, 1, 31, 1000, 300001])
def test_fill_writes_every_element_and_no_other(dtype, n):
    whole = fl.zeros(n + 2, dtype=getattr(fl, dtype))
    whole[1 : n + 1].fill_(1)
    assert whole.float().sum().item() == n and not whole[0].item() and not whole[n + 1].item()
    assert fl.full((3, 4), 1, dtype=getattr(fl, dtype)).float().sum().item() == 12


# ---------------------------------------------------------------- cat


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_cat_of_pieces_of_different_sizes(dtype, dim):
    kind = getattr(fl, dtype)
    parts = []
    for i, n in enumerate([3, 0, 1, 7]):
        shape = [4, 5, 6]
        shape[dim] = n
        parts.append((fl.arange(4 * 5 * 6 * n // [4, 5, 6][dim]).reshape(*shape) % 100 + i).to(kind))
    assert np.array_equal(array(fl.cat(parts, dim)), np.concatenate([array(p) for p in parts], dim))


@pytest.mark.parametrize("dim", [0, 1])
def test_cat_that_threads_share_out_anywhere(dim):
    parts = [fl.arange(float(n)).reshape(shape) for n, shape in [(90000, (300, 300)), (90000, (300, 300)), (90000, (300, 300))]]
    assert np.array_equal(array(fl.cat(parts, dim)), np.concatenate([array(p) for p in parts], dim))


def test_cat_of_strided_and_contiguous_pieces():
    x = fl.arange(12.0).reshape(3, 4)
    assert np.array_equal(array(fl.cat([x, x.t().reshape(4, 3).t(), x[:, ::2]], 1)), np.concatenate([array(x), array(x.t().reshape(4, 3).t()), array(x)[:, ::2]], 1))
    assert fl.cat([fl.zeros(0, 3), fl.zeros(0, 3)]).shape == (0, 3)


# ---------------------------------------------------------------- sums of rows


@pytest.mark.parametrize("name", ["sum", "amax", "amin", "prod", "norm"])
@pytest.mark.parametrize("n", [1, 31, 32, 63, 64, 65, 200, 2048, 2111, 5000])
def test_folds_of_rows_of_any_length(name, n):
    x = fl.tensor(np.random.default_rng(n).standard_normal((5, n)), dtype=fl.float64).abs() ** 0.01
    want = {"sum": np.sum, "amax": np.max, "amin": np.min, "prod": np.prod, "norm": np.linalg.norm}[name](array(x), axis=1)
    np.testing.assert_allclose(array(getattr(x, name)(dim=1)), want, rtol=1e-12)


def _halved(lane, n):
    while len(lane) > n:
        lane = lane[: len(lane) // 2] + lane[len(lane) // 2 :]
    return lane


def _in_64_lanes(row):
    """The sum of a row of float32: blocks of 2048, of which whole 64s, and then whole eights, are added in lanes of float32, the rest in double."""
    total = 0.0
    for i in range(0, len(row), 2048):
        block = row[i : i + 2048]
        many, few = len(block) // 64 * 64, len(block) // 8 * 8
        rest = 0.0
        for v in block[few:]:
            rest += float(v)
        if few:
            lane = np.zeros(8, np.float32)
            for k in range(many, few, 8):
                lane += block[k : k + 8]
            if many:
                wide = np.zeros(64, np.float32)
                for k in range(0, many, 64):
                    wide += block[k : k + 64]
                lane += _halved(wide, 8)
            rest += float(_halved(lane, 1)[0])
        total += rest
    return total


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 15, 31, 63, 64, 66, 72, 127, 130, 191, 1000, 2048, 2111, 4103])
def test_sums_of_rows_add_in_an_order_of_their_own(dtype, n):
    rng = np.random.default_rng(n)
    kind = getattr(fl, dtype)
    x = fl.tensor(rng.standard_normal((19, n + 3)) * 10 ** rng.uniform(-3, 2, (19, n + 3)), dtype=fl.float64).to(kind)
    for view in (x[:, :n].contiguous(), x[:, 3:], x[::2, 1 : n + 1]):
        rows = array(view.float())
        want = np.array([_in_64_lanes(row) for row in rows])
        assert np.array_equal(view.sum(1, dtype=fl.float32).numpy(), want.astype(np.float32))
        assert bits(view.mean(1)) == bits(fl.tensor(want / n, dtype=fl.float64).to(kind))
        np.testing.assert_allclose(want, rows.astype(np.float64).sum(1), rtol=0, atol=1e-6 * np.abs(rows).sum(1).max())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("n", [1, 3, 6, 40, 64, 67, 100, 2050])
def test_nan_and_infinities_stay_in_their_row(dtype, n):
    x = fl.ones(17, n, dtype=getattr(fl, dtype))
    for row, (at, value) in {3: (n - 1, fl.nan), 4: (0, fl.inf), 9: (n // 2, -fl.inf), 16: (n - 1, fl.inf)}.items():
        x[row, at] = value
    want = [float(n)] * 17
    want[3], want[4], want[9], want[16] = fl.nan, fl.inf, -fl.inf, fl.inf
    assert np.array_equal(x.sum(1, dtype=fl.float32).numpy(), np.float32(want), equal_nan=True)
    assert x[:, :0].sum(1).tolist() == [0.0] * 17 and x[:0].sum(1).shape == (0,)


@pytest.mark.parametrize("n", [40, 100, 3000])
def test_nan_and_infinities_reach_the_fold_of_a_row(n):
    x = fl.ones(3, n)
    x[0, n - 1], x[1, n // 2], x[2, 0] = fl.nan, fl.inf, -fl.inf
    assert [str(v) for v in x.sum(1).tolist()] == ["nan", "inf", "-inf"]
    assert [str(v) for v in x.amax(1).tolist()] == ["nan", "inf", "1.0"]


# ---------------------------------------------------------------- cross entropy


@pytest.mark.parametrize("n", [1, 15, 32, 33, 64, 100])
@pytest.mark.parametrize("dtype", [fl.float32, fl.float64], ids=str)
def test_softmax_subtracts_the_largest_of_a_row_wherever_it_is(n, dtype):
    """Any other one would overflow."""
    x = fl.full((n, n), -fl.inf, dtype=dtype)
    x.fill_diagonal_(1e4)
    assert fl.equal(x.softmax(1), fl.eye(n, dtype=dtype))


@pytest.mark.parametrize("classes", [1, 10, 3000, 40000])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_any_number_of_rows_and_classes(classes, reduction):
    rows = 2500 if classes < 100 else 9
    rng = np.random.default_rng(0)
    x, target = rng.standard_normal((rows, classes)), rng.integers(0, classes, rows)
    each = np.log(np.exp(x).sum(1)) - x[np.arange(rows), target]
    want = {"mean": each.mean(), "sum": each.sum(), "none": each}[reduction]
    got = fl.nn.functional.cross_entropy(fl.tensor(x), fl.tensor(target), reduction=reduction)
    np.testing.assert_allclose(array(got), want, rtol=1e-9, atol=1e-12)


def test_threads_do_not_change_a_loss():
    x, target = fl.randn(500, 700), fl.arange(500)
    before = fl.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            fl.set_num_threads(threads)
            results.append(bits(fl.nn.functional.cross_entropy(x, target)))
    finally:
        fl.set_num_threads(before)
    assert results[0] == results[1]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 3), (15, 4), (16, 5), (17, 7), (2100, 9), (3, 11, 700), (1030, 2, 3)], ids=str)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_nll_loss_of_any_number_of_elements(dtype, shape, reduction):
    rng = np.random.default_rng(len(shape) + shape[0])
    target = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    target.flat[target.size // 2 :: 5] = -100
    target.flat[0] = shape[1] - 1
    x = fl.tensor(rng.standard_normal(shape)).to(getattr(fl, dtype)).requires_grad_()
    kept = target != -100
    at = np.expand_dims(np.where(kept, target, 0), 1)
    losses = np.where(kept, -np.take_along_axis(array(x.detach().double()), at, 1).squeeze(1), 0)
    scale = 1 / kept.sum() if reduction == "mean" else 1.0
    got = fl.nn.functional.nll_loss(x, fl.tensor(target), reduction=reduction)
    got.sum().backward()
    want = np.zeros(shape)
    np.put_along_axis(want, at, np.expand_dims(np.where(kept, -scale, 0), 1), 1)
    rtol = {"float64": 1e-13, "float32": 1e-6, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(array(got.detach().double()), losses if reduction == "none" else losses.sum() * scale, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(array(x.grad.double()), want, rtol=rtol)


# ---------------------------------------------------------------- rows that are converted


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "uint8", "bool"])
@pytest.mark.parametrize("n", [1, 3, 64, 700, 2048, 2049])
def test_rows_that_are_converted_together_are_those_that_are_converted_one_by_one(dtype, n):
    x = (fl.rand(70, n) * 5).to(getattr(fl, dtype))
    gaps = fl.zeros(70, n + 3, dtype=x.dtype)
    gaps[:, :n] = x
    folds = [lambda t, d: t.sum(d), lambda t, d: t.amax(d), lambda t, d: t.count_nonzero(d)]
    if x.is_floating_point():
        folds += [lambda t, d: t.mean(d), lambda t, d: t.logsumexp(d), lambda t, d: t.norm(3, d)]
    for rows in (x, gaps[:, :n]):
        for fold in folds:
            want = fl.stack([fold(row.clone(), 0) for row in x])
            assert bits(fold(rows, 1)) == bits(want)
        np.testing.assert_allclose(rows.sum(1, dtype=fl.float32).numpy(), array(x.double()).sum(1), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "int64", "float32"])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_largest_so_far_along_rows_of_every_kind(dtype, n):
    """The last of equals; NaN from where it is met. Rows go up, down, stay, or change where a piece of 64 begins."""
    drawn = np.random.default_rng(0).integers(-5, 6, (9, n))
    x = np.stack([np.arange(n), -np.arange(n), np.zeros(n), np.arange(n) // 64, -(np.arange(n) // 64), *drawn]).astype(dtype)
    if dtype != "int64":
        x[-1, n // 2] = x[-2, 0] = x[-3, -1] = np.nan
    for name, better in (("cummax", np.greater_equal), ("cummin", np.less_equal)):
        values, places = x.copy(), np.zeros(x.shape, np.int64)
        for row, place in zip(values, places):
            for i in range(1, n):
                wins = row[i] != row[i] or better(row[i], row[i - 1])
                row[i], place[i] = (row[i], i) if wins else (row[i - 1], place[i - 1])
        found = getattr(fl, name)(fl.tensor(x), 1)
        assert np.array_equal(found.values.numpy(), values, equal_nan=dtype != "int64") and np.array_equal(found.indices.numpy(), places)
