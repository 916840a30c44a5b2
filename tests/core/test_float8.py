"""Floats of 8 bits: stored, cast, moved, printed, saved. The expectation is the formats' definition, written here a second time."""

import io
import math
import pickle

import numpy as np
import pytest

import flambeau as fl

# type: (mantissa, bias, largest, what lies beyond it, whether zero is unsigned)
FORMATS = {
    "float8_e4m3fn": (3, 7, 448.0, 448.0, False),
    "float8_e5m2": (2, 15, 57344.0, math.inf, False),
    "float8_e4m3fnuz": (3, 8, 240.0, math.nan, True),
    "float8_e5m2fnuz": (2, 16, 57344.0, math.nan, True),
}
ALL = [*FORMATS, "float8_e8m0fnu"]
every = pytest.mark.parametrize("name", ALL)


def value_of(name: str, code: int) -> float:
    if name == "float8_e8m0fnu":
        return math.nan if code == 255 else 2.0 ** (code - 127)
    mantissa, bias, largest, _, unsigned = FORMATS[name]
    size, sign = code & 127, -1.0 if code & 128 else 1.0
    field, rest = size >> mantissa, size & (2**mantissa - 1)
    if unsigned and code == 128:
        return math.nan
    value = rest * 2.0 ** (1 - bias - mantissa) if field == 0 else (2**mantissa + rest) * 2.0 ** (field - bias - mantissa)
    if value > largest:
        return sign * math.inf if name == "float8_e5m2" and rest == 0 else math.nan
    return sign * value


def rounded(name: str, x: float) -> float:
    """The nearest value, the even code of two."""
    if math.isnan(x):
        return math.nan
    if name == "float8_e8m0fnu":
        x = abs(x)
        if math.isinf(x):
            return math.nan
        if x < 2.0**-126:  # numbers whose exponent float32 does not tell: what is more than the least goes up, as in PyTorch
            return 2.0**-127 if x <= 2.0**-127 else 2.0**-126
        low = math.floor(math.log2(x))
        up = low + (x >= 1.5 * 2.0**low)
        return math.nan if up > 127 else 2.0**up
    _, _, largest, beyond, unsigned = FORMATS[name]
    codes = sorted((value_of(name, c), c) for c in range(128) if math.isfinite(value_of(name, c)))
    gap = codes[-1][0] - codes[-2][0]
    size = abs(x)
    if size >= largest + gap / 2 and not (math.isfinite(beyond)):
        return math.copysign(beyond, x)
    near = min(codes, key=lambda pair: (abs(pair[0] - min(size, largest)), pair[1] % 2))[0]
    return near if unsigned and near == 0 else math.copysign(near, x)


@every
def test_each_code_has_its_value(name):
    dtype = getattr(fl, name)
    x = fl.arange(256).to(fl.uint8).view(dtype)
    assert x.dtype is dtype and x.element_size() == 1 and x.is_floating_point() and dtype.itemsize == 1
    np.testing.assert_array_equal(x.to(fl.float64).numpy(), [value_of(name, code) for code in range(256)])
    assert [str(v) for v in x.tolist()] == [str(value_of(name, code)).replace("-nan", "nan") for code in range(256)]
    exact = ~x.float().isnan()
    assert fl.equal(x.float().to(dtype).view(fl.uint8)[exact], x.view(fl.uint8)[exact])


@pytest.mark.slow
@every
@pytest.mark.parametrize("source", ["float32", "float64", "bfloat16", "float16", "int32"])
def test_casting_rounds_to_nearest_even(name, source):
    rng = np.random.default_rng(5)
    values = [0.0, -0.0, 1.0, 463.9, 464.0, 465.0, 61439.0, 61440.0, 65536.0, 247.0, 248.0, 2.0**-10, 1.5 * 2.0**-9, 3.0, 2.0**127, 3e38, 2.0**-127, 1e-45]
    values += [math.inf, -math.inf, math.nan]
    values += list(rng.standard_normal(300) * 2.0 ** rng.integers(-18, 18, 300)) + [value_of(name, c) * 1.0625 for c in range(0, 127, 3)]
    if source == "int32":
        values = list(range(-600, 600, 7))
    x = fl.tensor(values, dtype=getattr(fl, source))
    found = x.to(getattr(fl, name)).float().numpy()
    np.testing.assert_array_equal(found, np.array([rounded(name, v) for v in x.to(fl.float32).tolist()], np.float32))


@every
def test_it_is_made_moved_and_printed(name):
    dtype = getattr(fl, name)
    x = fl.tensor([[1.0, 2.0], [4.0, 8.0]], dtype=dtype)
    assert x.tolist() == [[1.0, 2.0], [4.0, 8.0]] and x[1, 0].item() == 4.0 and float(x[0, 1]) == 2.0
    assert x.t().contiguous().tolist() == [[1.0, 4.0], [2.0, 8.0]] and x[:, fl.tensor([1])].tolist() == [[2.0], [8.0]]
    assert fl.cat([x, x]).shape == (4, 2) and fl.stack([x, x])[1].tolist() == x.tolist() and x.clone().dtype is dtype
    assert fl.full((2,), 2.0, dtype=dtype).tolist() == [2.0, 2.0] and fl.ones(2, dtype=dtype).tolist() == [1.0, 1.0]
    y = fl.empty(2, 2, dtype=dtype)
    y.copy_(fl.tensor([[1.0, 1.0], [2.0, 2.0]]))
    y[0] = 4.0
    assert y.tolist() == [[4.0, 4.0], [2.0, 2.0]] and (x == x).all() and fl.where(x == x, x, x).dtype is dtype
    assert repr(fl.tensor([1.0, 2.0], dtype=dtype)) == f"tensor([1., 2.], dtype=flambeau.{name})"
    assert (x * x).tolist() == [[1.0, 4.0], [16.0, 64.0]] and (x * x).dtype is dtype  # computed in float32


@every
def test_limits_are_those_of_the_format(name):
    limits = fl.finfo(getattr(fl, name))
    finite = sorted(value_of(name, c) for c in range(256) if math.isfinite(value_of(name, c)))
    assert (limits.max, limits.min, limits.bits) == (finite[-1], finite[0], 8)
    if name in FORMATS:
        assert limits.tiny == 2.0 ** (1 - FORMATS[name][1])


def test_nothing_is_promoted_to_or_from_it():
    x = fl.ones(2, dtype=fl.float8_e4m3fn)
    for other in (fl.ones(2), fl.ones(2, dtype=fl.float8_e5m2), fl.ones(2, dtype=fl.int64), fl.ones(2).half()):
        with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
            x * other
    with pytest.raises(TypeError, match="not defined for float8_e4m3fn"):
        fl.ones(2, 2, dtype=fl.float8_e4m3fn) @ fl.ones(2, 2, dtype=fl.float8_e4m3fn)
    with pytest.raises(TypeError, match=r"NumPy has no float8_e4m3fn; use .float\(\).numpy\(\)"):
        x.numpy()
    assert x.numpy(force=True).tolist() == [1.0, 1.0]


def test_gradients_go_through_a_cast():
    x = fl.tensor([1.0, 1.1, 3.0], requires_grad=True)
    (x.to(fl.float8_e4m3fn).float() * fl.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0] and x.grad.dtype is fl.float32


@every
def test_files_pickles_and_exchange(name, tmp_path):
    x = fl.tensor([[1.0, 2.0, 4.0]], dtype=getattr(fl, name))
    for options in ({}, {"format": "pt"}):
        fl.save({"x": x}, tmp_path / "file", **options)
        y = fl.load(tmp_path / "file")["x"]
        assert y.dtype is x.dtype and y.tolist() == x.tolist()
    buffer = io.BytesIO(pickle.dumps(x))
    assert pickle.load(buffer).tolist() == x.tolist()
    assert fl.from_dlpack(x).dtype is x.dtype and fl.from_dlpack(x).tolist() == x.tolist()
