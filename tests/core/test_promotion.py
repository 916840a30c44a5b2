"""Result types: all pairs against PyTorch's table, weak Python numbers, 0-d tensors."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau as fl

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
# Row and column in the order of NAMES; b bool, B uint8, c s i l: int8 .. int64, h float16, g bfloat16, f float32, d float64
TABLE = """
b B c s i l h g f d
B B s s i l h g f d
c s c s i l h g f d
s s s s i l h g f d
i i i i i l h g f d
l l l l l l h g f d
h h h h h h h f f d
g g g g g g f g f d
f f f f f f f f f d
d d d d d d d d d d
"""
CODES = dict(zip("bBcsilhgfd", NAMES, strict=True))
EXPECTED = {
    (NAMES[r], NAMES[c]): CODES[code]
    for r, row in enumerate(TABLE.split("\n")[1:-1])
    for c, code in enumerate(row.split())
}
PAIRS = list(itertools.product(NAMES, NAMES))
pair = pytest.mark.parametrize("a, b", PAIRS, ids=lambda n: n)


def category(name):
    return 0 if name == "bool" else 1 if "int" in name else 2


@pair
def test_pairs(a, b):
    ta, tb = getattr(fl, a), getattr(fl, b)
    want = getattr(fl, EXPECTED[a, b])
    assert fl.promote_types(ta, tb) is want
    x, y = fl.ones(2, dtype=ta), fl.ones(2, dtype=tb)
    assert (x * y).dtype is want and fl.result_type(x, y) is want
    assert fl.maximum(x, y).dtype is want and fl.where(x > 0, x, y).dtype is want
    assert (x == y).dtype is fl.bool
    assert (x / y).dtype is (want if want.is_floating_point else fl.float32)
    assert fl.cat([x, y]).dtype is want


@pair
def test_zero_dimensional_tensors_are_weaker_within_a_category(a, b):
    x, y = fl.ones(2, dtype=getattr(fl, a)), fl.tensor(1, dtype=getattr(fl, b))
    want = EXPECTED[a, b] if category(b) > category(a) else a
    if category(b) > category(a) :
        want = b
    assert (x * y).dtype is getattr(fl, want)
    assert (y * x).dtype is getattr(fl, want)


@pytest.mark.parametrize("value", [True, 3, 2.5], ids=["bool", "int", "float"])
@pytest.mark.parametrize("name", NAMES)
def test_python_numbers_are_weak(name, value):
    x = fl.ones(2, dtype=getattr(fl, name))
    kind = {bool: 0, int: 1, float: 2}[type(value)]
    want = name if kind <= category(name) else {1: "int64", 2: "float32"}[kind]
    assert (x * value).dtype is getattr(fl, want)
    assert (value * x).dtype is getattr(fl, want)
    assert fl.result_type(x, value) is getattr(fl, want)


@pytest.mark.parametrize("name", NAMES)
def test_inplace_refuses_a_lower_category_and_changes_nothing(name):
    x = fl.ones(2, dtype=getattr(fl, name))
    for value, kind in ((1, 1), (0.5, 2)):
        if kind > category(name):
            with pytest.raises(fl.DTypeError, match="mul_"):
                x.mul_(value)
            assert x.tolist() == [1, 1] and x.dtype is getattr(fl, name)
        else:
            assert x.clone().mul_(value).dtype is x.dtype
    assert x.clone().mul_(fl.ones(2, dtype=getattr(fl, name))).dtype is x.dtype


def test_inplace_keeps_its_type_with_a_wider_operand():
    assert fl.ones(2, dtype=fl.float16).add_(fl.ones(2, dtype=fl.float64)).dtype is fl.float16
    assert fl.ones(2, dtype=fl.int8).add_(fl.ones(2, dtype=fl.int64)).dtype is fl.int8


def test_sums_of_integers_are_int64():
    for name in NAMES[:6]:
        assert fl.ones(3, dtype=getattr(fl, name)).sum().dtype is fl.int64
        assert fl.ones(3, dtype=getattr(fl, name)).cumsum(0).dtype is fl.int64


def test_values_wrap_like_the_machine_s_integers():
    assert (fl.tensor([200], dtype=fl.uint8) + fl.tensor([100], dtype=fl.uint8)).tolist() == [44]
    assert (fl.tensor([127], dtype=fl.int8) + 1).tolist() == [-128]
    assert fl.tensor([300.7, -1.2]).to(fl.int32).tolist() == [300, -1]
    assert (fl.tensor([2**53 + 1]) * 1).tolist() == [2**53 + 1]
    assert (fl.tensor([2**62]) + 2**61).tolist() == [2**62 + 2**61]


names = st.sampled_from(NAMES)


@pytest.mark.slow
@given(names, names, names)
def test_promotion_is_commutative_idempotent_and_bounded(a, b, c):
    ta, tb, tc = (getattr(fl, n) for n in (a, b, c))
    ab = fl.promote_types(ta, tb)
    assert ab is fl.promote_types(tb, ta)
    assert fl.promote_types(ta, ta) is ta
    assert fl.promote_types(ab, ta) is ab and fl.promote_types(ab, tb) is ab
    assert category(ab.name) == max(category(a), category(b))
    assert category(fl.promote_types(ab, tc).name) == category(fl.promote_types(ta, fl.promote_types(tb, tc)).name)


@pytest.mark.parametrize(
    "op, expected",
    [("maximum", [252, 252, 252]), ("floor_divide", [0, 0, 0]), ("remainder", [0, 8, 3]), ("fmod", [0, 8, 3]), ("gcd", [252, 4, 3]), ("add", [252, 4, 255])],
)
def test_a_0d_integer_wraps_into_the_type_of_the_result(op, expected):
    x, y = fl.tensor([0, 8, 3], dtype=fl.uint8), fl.tensor(-4, dtype=fl.int32)
    z = getattr(fl, op)(x, y)
    assert z.dtype == fl.uint8
    assert z.tolist() == expected


@pytest.mark.parametrize("limit", ["min", "max"])
def test_clamp_takes_a_0d_tensor_as_a_tensor(limit):
    x = fl.tensor(9, dtype=fl.uint8)
    assert fl.clamp(x, **{limit: fl.tensor(0.5, dtype=fl.float16)}).dtype == fl.float16
    bound = fl.tensor(0.5, requires_grad=True)
    fl.clamp(fl.tensor([0.0, 1.0, -1.0]), **{limit: bound}).sum().backward()
    assert bound.grad.item() == {"min": 2.0, "max": 1.0}[limit]
