"""uint16, uint32, uint64 and complex32: made, stored, cast, moved, compared and computed with as far as they go; what they refuse."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import flambeau as fl

UNSIGNED = [fl.uint16, fl.uint32, fl.uint64]
NARROW = UNSIGNED[:2]
TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32", "float64"]


def top(dtype):
    return 2 ** (8 * dtype.itemsize) - 1


def some(dtype, shape=(3, 5), seed=0):
    """Numbers over the whole range."""
    n = np.random.default_rng(seed).integers(0, top(dtype), shape, dtype=np.dtype(dtype.name), endpoint=True)
    return n, fl.from_numpy(n.copy())


def same(x, n):
    assert x.dtype.name == n.dtype.name and tuple(x.shape) == n.shape
    assert x.tolist() == n.tolist()


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
class TestUnsigned:
    def test_creation_and_items(self, dtype):
        x = fl.tensor([0, 1, top(dtype)], dtype=dtype)
        assert x.tolist() == [0, 1, top(dtype)] and x[2].item() == top(dtype) and int(x[2]) == top(dtype)
        assert float(x[2]) == float(top(dtype)) and bool(x[1]) and not bool(x[0]) and [10, 20][x[1]] == 20
        assert fl.zeros(2, dtype=dtype).tolist() == [0, 0] and fl.ones(2, dtype=dtype).tolist() == [1, 1]
        assert fl.full((2,), 7, dtype=dtype).tolist() == [7, 7] and fl.empty(0, dtype=dtype).tolist() == []
        for wrong in (-top(dtype) - 1 if dtype != fl.uint64 else -1, top(dtype) + 1):
            with pytest.raises(ValueError, match="does not fit|not fit into|into 64 bits|holds"):
                fl.tensor([wrong], dtype=dtype)
        assert fl.iinfo(dtype).max == top(dtype) and fl.iinfo(dtype).min == 0 and not dtype.is_signed and not dtype.is_floating_point

    def test_printing(self, dtype):
        assert repr(fl.tensor([1, top(dtype)], dtype=dtype)) == f"tensor([{'1':>{len(str(top(dtype)))}}, {top(dtype)}], dtype=flambeau.{dtype.name})"
        assert repr(fl.empty(0, dtype=dtype)) == f"tensor([], dtype=flambeau.{dtype.name})"
        assert fl.zeros(1, dtype=dtype).type() == f"flambeau.UInt{8 * dtype.itemsize}Tensor"

    @pytest.mark.parametrize("other", TYPES)
    def test_casts_are_numpys(self, dtype, other):
        n, x = some(dtype, (600,))
        with np.errstate(over="ignore"):
            same(x.to(getattr(fl, other)), n.astype(other))
        with np.errstate(over="ignore", invalid="ignore"):
            back = np.random.default_rng(1).integers(0, 100, 600).astype(other)
            same(fl.from_numpy(back.copy()).to(dtype), back.astype(dtype.name))

    def test_floats_beyond_the_signed_range(self, dtype):
        v = float(2 ** (8 * dtype.itemsize - 1) + 2 ** (8 * dtype.itemsize - 6))
        assert fl.tensor([v, 1.9, 0.0], dtype=fl.float64).to(dtype).tolist() == [int(v), 1, 0]
        assert fl.tensor([v], dtype=fl.float32).to(dtype).tolist() == [int(v)]

    def test_numpy_and_dlpack_share_memory(self, dtype):
        n, x = some(dtype)
        y = fl.from_numpy(n)
        n[0, 0] = 3
        assert y[0, 0].item() == 3 and np.shares_memory(y.numpy(), n) and y.numpy().dtype == n.dtype
        z = fl.from_dlpack(n)
        assert z.dtype == dtype and z.data_ptr() == y.data_ptr()
        assert np.from_dlpack(x).dtype == n.dtype
        assert fl.frombuffer(n.tobytes(), dtype=dtype).tolist() == n.reshape(-1).tolist()

    def test_saving(self, dtype, tmp_path):
        n, x = some(dtype)
        fl.save({"x": x, "view": x[:, 1:]}, tmp_path / "f")
        loaded = fl.load(tmp_path / "f")
        same(loaded["x"], n)
        same(loaded["view"], n[:, 1:])
        same(pickle.loads(pickle.dumps(x)), n)
        same(copy.deepcopy(x), n)

    def test_views_and_moves(self, dtype):
        n, x = some(dtype, (4, 6))
        i = fl.tensor([2, 0])
        m = n > np.median(n)
        mask = fl.from_numpy(m)
        for got, want in (
            (x.t().contiguous(), n.T), (x[1:, ::2], n[1:, ::2]), (x.reshape(3, 8), n.reshape(3, 8)), (x[i], n[[2, 0]]), (x[:, i], n[:, [2, 0]]),
            (x[mask], n[m]), (x.masked_select(mask), n[m]), (x.index_select(1, i), n[:, [2, 0]]), (x.gather(0, fl.tensor([[1, 0]])), n[[1, 0], [0, 1]][None]),
            (x.take(i), n.reshape(-1)[[2, 0]]), (fl.cat([x, x], 1), np.concatenate([n, n], 1)), (fl.stack([x, x]), np.stack([n, n])),
            (x.flip(0), n[::-1]), (x.roll(1, 0), np.roll(n, 1, 0)), (x.repeat(2, 1), np.tile(n, (2, 1))), (x.tril(), np.tril(n)), (x.clone(), n),
            (fl.nn.functional.pad(x, (1, 2)), np.pad(n, ((0, 0), (1, 2)))), (x.repeat_interleave(2, 0), np.repeat(n, 2, 0)),
            (fl.where(mask, x, x + 1), np.where(m, n, n + n.dtype.type(1))), (x.masked_fill(mask, 3), np.where(m, n.dtype.type(3), n)),
        ):  # fmt: skip
            same(got, np.ascontiguousarray(want))
        assert x.view(fl.uint8).numpy().tobytes() == n.tobytes()

    def test_writes(self, dtype):
        n, x = some(dtype, (4, 6))
        x[1, 2], n[1, 2] = 9, 9
        x[0], n[0] = x[3].clone(), n[3]
        x[:, fl.tensor([0])] = 5
        n[:, [0]] = 5
        x[fl.from_numpy(n > 100)] = 1
        n[n > 100] = 1
        x.scatter_(0, fl.tensor([[2]]), fl.full((1, 1), 8, dtype=dtype))
        n[2, 0] = 8
        x.index_fill_(1, fl.tensor([3]), 4)
        n[:, 3] = 4
        same(x, n)
        same(x.zero_(), n * 0)
        x.copy_(fl.full((4, 6), 2.9))
        same(x, np.full_like(n, 2))
        with pytest.raises(ValueError, match="-1"):
            x.floor_divide_(-1) if dtype != fl.uint64 else x.add_(-1)

    def test_arithmetic_wraps_round(self, dtype):
        a, x = some(dtype, (7,), 1)
        b, y = some(dtype, (7,), 2)
        with np.errstate(over="ignore"):
            for got, want in (
                (x + y, a + b), (x - y, a - b), (x * y, a * b), (x + 1, a + a.dtype.type(1)), (x * 2, a * a.dtype.type(2)), (3 - x, a.dtype.type(3) - a),
                (x & y, a & b), (x | y, a | b), (x ^ y, a ^ b), (x == y, a == b), (x != y, a != b), (x == 7, a == 7), (x == x, a == a),
            ):  # fmt: skip
                same(got, want)
            x += y
            same(x, a + b)

    def test_reductions(self, dtype):
        n, x = some(dtype, (5, 9))
        with np.errstate(over="ignore"):
            assert x.sum().dtype == fl.int64 and x.sum(0).tolist() == n.astype(np.int64).sum(0).tolist()
            assert x.prod(1).tolist() == n.astype(np.int64).prod(1).tolist()
        small = fl.tensor([[0, 3], [0, 0]], dtype=dtype)
        assert small.any(1).tolist() == [True, False] and small.all().item() is False and small.count_nonzero().item() == 1
        assert small.nonzero().tolist() == [[0, 1]] and fl.allclose(x.float().mean(), fl.tensor(n.astype(np.float32).mean()))
        assert fl.equal(x, x.clone())

    def test_types_of_results(self, dtype):
        x = fl.tensor([1, 2], dtype=dtype)
        assert (x + 1.5).dtype == fl.float32 and (x / x).dtype == fl.float32 and (x + fl.ones(2)).dtype == fl.float32
        assert (x + fl.tensor([True, False])).dtype == dtype and (x + fl.ones(2, dtype=fl.uint8)).dtype == dtype
        assert (x.double() / 2).tolist() == [0.5, 1.0]

    def test_what_kernels_do_not_take_is_refused(self, dtype):
        x = fl.tensor([3, 1, 2], dtype=dtype)
        for name, call in (("kthvalue", lambda: x.kthvalue(1)), ("cummax", lambda: x.cummax(0)), ("bincount", lambda: fl.bincount(x))):
            with pytest.raises(TypeError, match=rf"{name}.*not defined for {dtype.name}, which is stored, cast and moved; cast to \w+ first"):
                call()
        for call in (lambda: x @ x, lambda: fl.searchsorted(x, x), lambda: x.median(), lambda: x.put_(fl.tensor([0]), x[:1])):
            with pytest.raises(TypeError, match=dtype.name):
                call()
        assert x.tolist() == [3, 1, 2]

    def test_order(self, dtype):
        n, x = some(dtype, (6, 50))
        for got, want in (
            (x.sort(1)[0], np.sort(n, 1)), (x.sort(0, descending=True)[0], np.sort(n, 0)[::-1]), (x.argsort(1), np.argsort(n, 1, kind="stable")),
            (x.t().sort(0)[0], np.sort(n.T, 0)), (x.topk(3, 1)[0], np.sort(n, 1)[:, ::-1][:, :3]), (x.max(1)[0], n.max(1)), (x.min(0)[0], n.min(0)),
            (x.max(), n.max()), (x.min(), n.min()), (x.amax((0, 1)), n.max()), (x.t().amin(1), n.min(0)), (x.argmax(), n.argmax()), (x.argmin(1), n.argmin(1)),
            (x.max(1)[1], n.argmax(1)), (x[:0].sort(1)[0], n[:0]), (x.cumsum(1), n.astype(np.int64).cumsum(1)),
        ):  # fmt: skip
            same(got, np.array(want))
        m = fl.from_numpy(n % 5)
        for got, want in zip(m.unique(return_inverse=True, return_counts=True), np.unique(n % 5, return_inverse=True, return_counts=True), strict=True):
            assert got.tolist() == want.reshape(got.shape).tolist()
        assert fl.tensor([1, 1, 0, 1], dtype=dtype).unique_consecutive().tolist() == [1, 0, 1]
        same(x, n)

    def test_sums_at_places(self, dtype):
        x, i = fl.tensor([top(dtype)] * 3, dtype=dtype), fl.tensor([0, 0, 2])
        ones = fl.ones(3, dtype=dtype)
        assert x.index_add(0, i, ones).tolist() == [1, top(dtype), 0] and x.scatter_add(0, i, ones).tolist() == [1, top(dtype), 0]
        assert x.index_put((i,), ones, accumulate=True).tolist() == [1, top(dtype), 0]

    def test_draws(self, dtype):
        fl.manual_seed(0)
        x = fl.randint(0, 5, (1000,), dtype=dtype)
        assert x.dtype == dtype and sorted(set(x.tolist())) == [0, 1, 2, 3, 4]
        x.random_()
        assert max(x.tolist()) > top(dtype) // 4

    def test_lazy_and_meta(self, dtype):
        _, x = some(dtype)
        with fl.lazy():
            y = (x + x) * x
        assert fl.equal(y, (x + x) * x)
        m = x.to("meta")
        assert (m + m).dtype == dtype and m.sum().dtype == fl.int64
        assert m.sort()[0].dtype == dtype
        with pytest.raises(TypeError, match=dtype.name):
            m.kthvalue(1)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_narrow_ones_compute_all_that_integers_do(dtype):
    a, x = some(dtype, (50,), 1)
    b, y = some(dtype, (50,), 2)
    b[b == 0], y[y == 0] = 1, 1
    for got, want in (
        (x < y, a < b), (x >= 7, a >= 7), (x // y, a // b), (x % y, a % b), (fl.maximum(x, y), np.maximum(a, b)), (fl.minimum(x, y), np.minimum(a, b)),
        (x.clamp(5, 60), a.clip(5, 60)), (fl.gcd(x, y), np.gcd(a, b)), (x >> 3, a >> 3), (abs(x), a), (x.sign(), np.sign(a)),
    ):  # fmt: skip
        same(got, want)


def test_uint64_refuses_what_depends_on_the_sign():
    x = fl.tensor([1, 2**63], dtype=fl.uint64)
    for call in (lambda: x < x, lambda: x // x, lambda: x.clamp(1, 2), lambda: fl.maximum(x, x), lambda: abs(x)):
        with pytest.raises(TypeError, match=r"not defined for uint64; cast to int64 \(numbers below 2\*\*63\) or float64 first"):
            call()
    assert x.to(fl.float64).tolist() == [1.0, 2.0**63] and x.sqrt().dtype == fl.float32
    with pytest.raises(ValueError, match="-1"):
        x == -1  # noqa: B015


def test_promotion():
    p = fl.promote_types
    assert p(fl.uint16, fl.int8) == p(fl.int16, fl.uint16) == fl.int32 and p(fl.uint16, fl.int32) == fl.int32
    assert p(fl.uint32, fl.int32) == fl.int64 and p(fl.uint16, fl.uint64) == fl.uint64 and p(fl.uint32, fl.complex64) == fl.complex64
    assert p(fl.uint64, fl.float16) == fl.float16 and p(fl.bool, fl.uint32) == fl.uint32
    for signed in (fl.int8, fl.int64):
        with pytest.raises(TypeError, match="no integer type holds both"):
            p(signed, fl.uint64)


# ---------------------------------------------------------------- complex32


def test_complex32_is_stored_and_cast(tmp_path):
    x = fl.tensor([1 + 2j, -0.5j, 3], dtype=fl.complex32)
    assert x.dtype == fl.chalf == fl.complex32 and x.element_size() == 4 and x.is_complex() and x.tolist() == [1 + 2j, -0.5j, 3 + 0j]
    assert x[0].item() == 1 + 2j and x.dtype.to_real() == fl.float16
    assert repr(x) == "tensor([1.+2.0000j, -0.-0.5000j, 3.+0.0000j], dtype=flambeau.complex32)"
    for other in (fl.complex64, fl.complex128):
        assert x.to(other).tolist() == x.tolist() and x.to(other).chalf().tolist() == x.tolist()
    assert fl.tensor([1.5, 2.0]).to(fl.complex32).tolist() == [1.5, 2.0] and fl.tensor([3], dtype=fl.uint16).to(fl.complex32).tolist() == [3]
    assert fl.tensor([7e4 + 1j]).to(fl.complex32).tolist() == [complex("inf+1j")]
    with pytest.warns(UserWarning):
        assert x.to(fl.float32).tolist() == [1.0, 0.0, 3.0]
    fl.save({"x": x.view(3, 1)}, tmp_path / "f")
    loaded = fl.load(tmp_path / "f")["x"]
    assert loaded.dtype == fl.complex32 and loaded.shape == (3, 1) and loaded.tolist() == x.view(3, 1).tolist()
    assert fl.equal(copy.deepcopy(x), x)


def test_parts_of_complex32():
    x = fl.tensor([1 + 2j, -0.5j], dtype=fl.complex32)
    assert x.real.dtype == fl.float16 and x.imag.tolist() == [2.0, -0.5] and fl.view_as_real(x).shape == (2, 2)
    parts = fl.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=fl.float16)
    y = fl.view_as_complex(parts)
    assert y.dtype == fl.complex32 and y.tolist() == [1 + 2j, 3 + 4j] and y.data_ptr() == parts.data_ptr()
    x.real.fill_(9.0)
    assert x.tolist() == [9 + 2j, 9 - 0.5j]


def test_moves_and_sums_of_complex32():
    x = fl.tensor([[1 + 2j, 3j], [4, 5]], dtype=fl.complex32)
    assert x.t().contiguous().tolist() == [[1 + 2j, 4], [3j, 5]] and x[fl.tensor([1])].tolist() == [[4, 5]] and fl.cat([x, x]).shape == (4, 2)
    assert (x + x).dtype == fl.complex32 and (x * x).tolist() == [[-3 + 4j, -9], [16, 25]] and (x == x).all().item()
    assert (x + fl.ones(2, dtype=fl.complex64)).dtype == fl.complex64 and (x + fl.ones(2, dtype=fl.float16)).dtype == fl.complex32
    with pytest.raises(TypeError, match="complex32"):
        x @ x
    with pytest.raises(BufferError, match="complex32 has no buffer format"):
        memoryview(x)


def test_numbers_of_numpy_that_have_no_sign():
    most = 2**64 - 1
    x = fl.tensor([[np.uint64(most), np.uint64(3)], [np.uint64(0), np.uint64(2**63)]])
    assert x.dtype is fl.uint64 and x.tolist() == [[most, 3], [0, 2**63]]
    assert fl.tensor([np.uint64(most), True, np.int8(5)], dtype=fl.uint64).tolist() == [most, 1, 5]
    with pytest.raises(ValueError, match="element = -1 does not fit into uint64"):
        fl.tensor([np.int64(-1)], dtype=fl.uint64)
