"""Neighbouring steps of a pass that hand each other values in registers (csrc/dispatch/registers.h): the same bits as one by one."""

from __future__ import annotations

import numpy as np
import pytest
from support.both import both

import flambeau as fl
from flambeau import _C

F = fl.nn.functional
pytestmark = pytest.mark.eager("has regions of its own")

UNARY = {
    "abs": fl.abs, "neg": fl.neg, "square": fl.square, "cube": lambda x: x**3, "sqrt": lambda x: x.abs().sqrt(), "rsqrt": lambda x: (x.abs() + 1).rsqrt(),
    "reciprocal": fl.reciprocal, "floor": fl.floor, "ceil": fl.ceil, "trunc": fl.trunc, "frac": fl.frac, "sign": fl.sign, "sgn": fl.sgn, "angle": fl.angle,
    "deg2rad": fl.deg2rad, "rad2deg": fl.rad2deg, "relu": F.relu, "relu6": F.relu6, "hardtanh": F.hardtanh, "leaky_relu": F.leaky_relu,
    "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "softsign": F.softsign, "softshrink": F.softshrink, "hardshrink": F.hardshrink,
    "threshold": lambda x: F.threshold(x, 0.3, -2.0), "clamp": lambda x: x.clamp(-1, 1), "clamp to nan": lambda x: x.clamp(-1, float("nan")),
    "clamp from below": lambda x: x.clamp(min=-0.5), "conj_physical": fl.conj_physical, "plus a number": lambda x: x + 0.1, "from a number": lambda x: 3 - x,
    "times a number": lambda x: x * 1.01, "over four": lambda x: x / 4, "over three": lambda x: x / 3, "over zero": lambda x: x / 0, "seven over": lambda x: 7 / (x + 5),
    "of its own": lambda x: x * x,
}  # fmt: skip
BINARY = {
    "add": fl.add, "sub": fl.sub, "mul": fl.mul, "div": fl.div, "maximum": fl.maximum, "minimum": fl.minimum, "fmax": fl.fmax, "fmin": fl.fmin,
    "copysign": fl.copysign, "add alpha": lambda x, y: fl.add(x, y, alpha=-0.3), "sub alpha": lambda x, y: fl.sub(x, y, alpha=1.7),
    "rsub": fl.rsub, "lerp": lambda x, y: fl.lerp(x, y, 0.3), "prelu": lambda x, y: F.prelu(x, y.flatten()[:1]), "clamp between": lambda x, y: x.clamp(-y.abs(), y.abs()),
    "clamp_min": lambda x, y: x.clamp(min=y),
}  # fmt: skip
TERNARY = {
    "addcmul": lambda x, y, z: fl.addcmul(x, y, z, value=0.5), "addcdiv": lambda x, y, z: fl.addcdiv(x, y, z.abs() + 1), "lerp": fl.lerp,
    "where": lambda x, y, z: fl.where(x > 0, y, z), "masked_fill": lambda x, y, z: x.masked_fill(y > z, 0.25), "norm": lambda x, y, z: (x * x + y * y).sqrt() + z,
}  # fmt: skip
WRITES = [
    lambda x, y: x.mul_(0.9), lambda x, y: x.add_(y), lambda x, y: x.sub_(y, alpha=0.1), lambda x, y: x.relu_(), lambda x, y: x.clamp_(-3, 3), lambda x, y: x.div_(8),
]  # fmt: skip
SPECIAL = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-40, -3.4e38]
SHAPES = [(33, 1024), (23, 1500), (9, 4099), (700, 50)]


def values(shape):
    x = fl.randn(shape) * 2
    x.view(-1)[: len(SPECIAL)] = fl.tensor(SPECIAL)
    return x


def one_nan(x):
    """Which of two NaNs a sum passes on, with its sign, is the compiler's choice of which operand comes first."""
    return fl.where(x.isnan(), float("nan"), x)


def test_long_chains_are_one_pass():
    """Of as many steps as go into one."""
    x = fl.randn(40000)
    before = _C.graph.stats()["passes"]
    with fl.lazy():
        y = x
        for _ in range(12):
            y = y + 1
    assert y.shape == x.shape
    assert _C.graph.stats()["passes"] - before == 1


def test_they_are_taken():
    """The tests here would see nothing if values went through memory."""
    x, y = fl.randn(9000), fl.randn(9000)
    before = _C.graph.stats()["in_registers"]
    with fl.lazy():
        z = ((x * 2 + y).relu().tanh() - 1) * y
    assert z.shape == (9000,)
    assert _C.graph.stats()["in_registers"] - before == 5


TYPES = [fl.float32, fl.bfloat16, fl.float16]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    f = UNARY[name]
    both(lambda: (lambda x: [f(x + 1) - 1, f(f(x) * 2)])(values((40, 1024)).to(dtype)))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary_with_either_operand_in_the_registers(name, dtype):
    f = BINARY[name]

    def program():
        x, y = values((40, 1024)).to(dtype), values((40, 1024)).flip(0).contiguous().to(dtype)
        return f(x + 1, y) * 2, f(x, y - 1) * 2, f(x + 0, x + 0), f(x * 2, y.abs()[0]) - 1, f(x * 2, fl.tensor(0.5)) - y[:, :1]

    both(program)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", TERNARY)
def test_ternary_with_each_operand_in_the_registers(name, dtype):
    f = TERNARY[name]

    def program():
        x, y, z = (values((40, 1024)).to(dtype) for _ in range(3))
        a = x + 1
        return f(x + 1, y, z) * 2, f(x, y - 1, z) * 2, f(x, y, z * 0.5) * 2, f(a, a, a) - a

    both(program)


@pytest.mark.parametrize("name", UNARY)
def test_gradients(name):
    def program():
        x = values((20, 2048)).requires_grad_()
        y = UNARY[name](x * 0.5) * 3
        y.backward(fl.randn(20, 2048))
        return y.detach(), x.grad

    both(program)


def random_program(seed):
    rng = np.random.default_rng(seed)

    def pick(list_):
        return list_[rng.integers(len(list_))]

    shape, dtype = pick(SHAPES), pick([fl.float32, fl.float32, fl.bfloat16, fl.float16])
    pool = [values(shape).to(dtype) for _ in range(3)] + [fl.randn(shape[1]).to(dtype), fl.randn(shape[0], 1).to(dtype), fl.randn(shape).bfloat16()]
    for _ in range(rng.integers(5, 45)):
        kind = rng.random()
        if kind < 0.4:
            y = pick(list(UNARY.values()))(pick(pool))
        elif kind < 0.7:
            y = pick(list(BINARY.values()))(pick(pool), pick(pool))
        elif kind < 0.8:
            x = pick(pool)
            y = pick(list(TERNARY.values()))(x, pick(pool).to(x.dtype), pick(pool).to(x.dtype))
        elif kind < 0.85:
            y = pick([fl.tanh, fl.sigmoid, lambda x: x.bfloat16(), lambda x: x.float(), lambda x: x.double(), lambda x: (x > 0).float()])(pick(pool))
        else:
            whole = [x for x in pool if x.shape == shape and x.dtype == dtype]
            pick(WRITES)(pick(whole), pick(pool))
            continue
        if y.dtype != fl.float64:
            pool.append(y)
        if len(pool) > 8:
            pool.pop(rng.integers(len(pool) - 1))
        if not any(x.shape == shape and x.dtype == dtype for x in pool):
            pool.append(values(shape).to(dtype))
    return [one_nan(x) for x in pool]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_programs(first):
    for seed in range(first, first + 20):
        both(random_program, seed)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [fl.float32, fl.bfloat16], ids=str)
def test_results_past_the_caches(dtype):
    """Large results are streamed from the registers where they begin at a whole vector, and by tiles elsewhere."""

    def program():
        x = fl.rand((1 << (23 if dtype == fl.float32 else 24)) + 77).to(dtype)
        y = fl.empty(x.numel() + 3, dtype=dtype)
        fl.mul(x + 1, 2, out=y[3:])
        z = x * 2 + 1
        return z, (z - x) * x, y[3:]

    both(program)


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16], ids=str)
@pytest.mark.parametrize("shape", [(1023,), (1024,), (3, 1100), (5, 40000)], ids=str)
def test_eager_ops_of_16_bits_are_those_of_floats(shape, dtype):
    """From memory into registers and back, tail and all; small ones go by tiles."""
    x, y, z = (fl.randn(shape).to(dtype) for _ in range(3))
    for table, operands in ((UNARY, (x,)), (BINARY, (x, y)), (TERNARY, (x, y, z))):
        for name, f in table.items():
            if name in ("seven over", "of its own", "norm", "rsqrt", "addcdiv"):  # several ops, which round between
                continue
            if name == "angle":
                continue  # of halves is a float
            got = f(*operands)
            np.testing.assert_array_equal(got.float().numpy(), f(*(v.float() for v in operands)).to(got.dtype).float().numpy(), err_msg=name)
    np.testing.assert_array_equal((x + y.float()).numpy(), (x.float() + y.float()).numpy())
    np.testing.assert_array_equal(fl.add(x, y.float(), out=fl.empty_like(x)).float().numpy(), (x.float() + y.float()).to(dtype).float().numpy())
    np.testing.assert_array_equal((x * y.flatten()[0]).float().numpy(), (x.float() * y.flatten()[0].float()).to(dtype).float().numpy())
