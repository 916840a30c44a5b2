"""Places in sorted sequences: numbers beside tensors, `side`, `sorter`, and both batched."""

import numpy as np
import pytest

import flambeau as fl

B = [1.0, 2.0, 4.0, 4.0]


@pytest.mark.parametrize(
    "call, want",
    [
        (lambda b: fl.searchsorted(b, 2.0), 1),
        (lambda b: fl.searchsorted(b, 4, side="right"), 4),
        (lambda b: fl.searchsorted(b, 4, side="left"), 2),
        (lambda b: fl.searchsorted(b, 4, right=True), 4),
        (lambda b: fl.bucketize(2, b), 1),
        (lambda b: fl.bucketize(2.0, b, right=True), 2),
        (lambda b: fl.searchsorted(b.to(fl.int64), 3.5), 2),  # not cut to 3, which 4 is not below either: see the next
        (lambda b: fl.searchsorted(fl.tensor([1, 3, 4]), 3.5), 2),
    ],
)
def test_numbers(call, want):
    y = call(fl.tensor(B))
    assert (y.item(), y.dtype, y.shape) == (want, fl.int64, ())


def test_a_number_is_compared_in_the_type_of_the_sequence():
    # 0.1 as float32 is more than 0.1: found at its place all the same, as beside any op.
    assert fl.searchsorted(fl.tensor([0.1, 0.2]), 0.1, right=True).item() == 1
    assert fl.searchsorted(fl.tensor([0.1, 0.2], dtype=fl.float64), 0.1, right=True).item() == 1


def test_an_unsorted_sequence_with_what_sorts_it():
    rng = np.random.default_rng(0)
    a, v = rng.standard_normal((3, 7)).astype("f4"), rng.standard_normal((3, 5)).astype("f4")
    x = fl.tensor(a)
    for side in ("left", "right"):
        got = fl.searchsorted(x, fl.tensor(v), side=side, sorter=x.argsort())
        want = [np.searchsorted(row, value, side, np.argsort(row)) for row, value in zip(a, v, strict=True)]
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.filterwarnings("error")  # no rule: a call per sample, and a warning
def test_batched():
    x, v = fl.randn(3, 7).sort().values, fl.randn(3, 5)
    want = fl.searchsorted(x, v)
    assert fl.func.vmap(fl.searchsorted)(x, v).equal(want)
    flipped = fl.func.vmap(lambda x, v, i: fl.searchsorted(x, v, sorter=i))(x.flip(-1), v, x.flip(-1).argsort())
    assert flipped.equal(want)
    assert fl.func.vmap(lambda v: fl.bucketize(v, x[0]))(v).equal(fl.bucketize(v, x[0]))


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.float16, fl.int32, fl.uint8])
@pytest.mark.parametrize("right", [False, True])
def test_random_sequences_of_many_lengths(dtype, right):
    rng = np.random.default_rng(1)
    floats = dtype.is_floating_point
    for n in [0, 1, 2, 3, 7, 8, 9, 31, 100]:
        for keys in [1, 5, 8, 19]:
            a, v = rng.integers(0, 20, (2, n)).astype("f4"), rng.integers(0, 20, (2, keys)).astype("f4")
            if floats:
                v[0, 0], v[1, -1] = np.nan, np.inf
                a[:, : n // 8] = np.nan
            a.sort(-1)
            got = fl.searchsorted(fl.tensor(a).to(dtype), fl.tensor(v).to(dtype), right=right, out_int32=True)
            want = [np.searchsorted(row, of, "right" if right else "left") for row, of in zip(a, v)]
            assert got.dtype == fl.int32 and np.array_equal(got.numpy(), np.stack(want)), (n, keys)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_blocks_of_keys(dtype):
    """Rows and keys of lengths about those of blocks, with NaN among both; rows that are in no order are searched as few keys at a time are."""
    rng = np.random.default_rng(7)
    for n in (1, 2, 3, 17, 64, 1000):
        row = np.sort(rng.integers(-50, 50, n)).astype(dtype)
        if dtype.startswith("float"):
            row[n - n // 9 :] = np.nan
        for m in (1, 15, 16, 17, 64, 65, 200, 1100):
            keys = rng.integers(-60, 60, m).astype(dtype)
            if dtype.startswith("float"):
                keys[::7] = np.nan
            for right in (False, True):
                got = fl.searchsorted(fl.tensor(row), fl.tensor(keys), right=right)
                np.testing.assert_array_equal(got.numpy(), np.searchsorted(row, keys, side="right" if right else "left"))
                odd, given = fl.tensor(rng.permutation(row)), fl.tensor(keys)
                by_few = fl.cat([fl.searchsorted(odd, part, right=right) for part in given.split(8)])
                assert fl.equal(fl.searchsorted(odd, given, right=right), by_few)
                assert fl.equal(fl.searchsorted(odd, given, right=right, out_int32=True).long(), by_few)
