"""Division and powers of integers: no signal, and no wrong number without a word."""

import operator

import pytest

import flambeau as fl

DIVISIONS = {
    "//": operator.floordiv,
    "%": operator.mod,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "floor_divide": fl.floor_divide,
    "remainder": fl.remainder,
    "fmod": fl.fmod,
    "floor_divide_": fl.Tensor.floor_divide_,
    "remainder_": fl.Tensor.remainder_,
    "fmod_": fl.Tensor.fmod_,
    "div floor": lambda a, b: fl.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: fl.div(a, b, rounding_mode="trunc"),
    "div_ trunc": lambda a, b: a.clone().div_(b, rounding_mode="trunc"),
}
SIGNED = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@pytest.mark.parametrize("divide", DIVISIONS.values(), ids=DIVISIONS)
@pytest.mark.parametrize(("dtype", "divisor"), [("uint8", 256), ("int8", 256), ("int16", -(2**16)), ("int32", 2**32), ("int32", -(2**63))])
def test_a_divisor_that_is_0_beside_the_other_operand_is_refused(divide, dtype, divisor):
    x = fl.tensor([7, 8], dtype=getattr(fl, dtype))
    with pytest.raises(ValueError, match=f"a divisor of int64 that is 0 as {dtype}; cast the other"):
        divide(x, fl.tensor(divisor))
    assert x.tolist() == [7, 8]


@pytest.mark.parametrize("divide", DIVISIONS.values(), ids=DIVISIONS)
def test_a_divisor_that_is_not_0_in_the_common_type_divides(divide):
    small = fl.tensor([7, 8], dtype=fl.uint8)
    assert divide(small.clone(), fl.tensor(258)).tolist() == divide(small.clone(), 2).tolist()
    wide = divide(small.clone(), fl.tensor([256, 3]))  # a type for both is found among tensors with axes
    assert wide.tolist() == divide(fl.tensor([7, 8]), fl.tensor([256, 3])).tolist()


@pytest.mark.parametrize("divide", DIVISIONS.values(), ids=DIVISIONS)
@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize("count", [1, 3, 100])
@pytest.mark.parametrize("kind", ["tensor", "number", "0-d"])
def test_the_least_integer_by_minus_one_wraps(divide, dtype, count, kind):
    least = -(2 ** (SIGNED[dtype] - 1))
    x = fl.full((count,), least, dtype=getattr(fl, dtype))
    got = divide(x.clone(), {"number": -1, "0-d": fl.tensor(-1)}.get(kind, fl.full((count,), -1, dtype=x.dtype)))
    quotient = divide(fl.tensor([4]), fl.tensor([-2])).item() == -2
    assert got.dtype == x.dtype and got.tolist() == [least if quotient else 0] * count


POWERS = {
    "**": operator.pow,
    "**=": operator.ipow,
    "pow": fl.pow,
    "method": fl.Tensor.pow,
    "pow_": fl.Tensor.pow_,
}


@pytest.mark.parametrize("power", POWERS.values(), ids=POWERS)
@pytest.mark.parametrize("dtype", ["bool", "uint8", *SIGNED])
@pytest.mark.parametrize("shape", [(2,), (), (0,)])
def test_a_negative_number_is_no_power_of_integers(power, dtype, shape):
    x = fl.ones(shape, dtype=getattr(fl, dtype))
    with pytest.raises(ValueError, match=rf"pow: .*: exponent = -2 of a base of {dtype}; expected >= 0: write -2\.0, or cast the base"):
        power(x, -2)


def test_other_powers_of_integers():
    """Exponents that are tensors, and a number as base, give what is left of the power: PyTorch's choice, too."""
    x = fl.tensor([2, 1, -1, -1])
    assert (x ** fl.tensor([-1, -2, -3, -2])).tolist() == [0, 1, -1, 1]
    assert (x ** fl.tensor(-2)).tolist() == [0, 1, 1, 1]
    assert (2 ** fl.tensor([-1, 3])).tolist() == [0, 8]
    assert (fl.tensor([2, 4]) ** -1.0).tolist() == [0.5, 0.25]
    assert (fl.tensor([2.0, 4.0]) ** -1).tolist() == [0.5, 0.25]
    assert (x**0).tolist() == [1] * 4
