"""What single ops refuse, and gradients at points where a formula has a choice."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as fl
from flambeau._C import ops

NAN, INF = math.nan, math.inf


# ---------------------------------------------------------------- norms


@pytest.mark.parametrize(
    ("p", "values", "expected"),
    [
        (INF, [3.0, -3.0, 1.0], [0.5, -0.5, 0.0]),
        (INF, [1.0, 2.0, -4.0], [0.0, 0.0, -1.0]),
        (INF, [0.0, 0.0], [0.0, 0.0]),
        (-INF, [2.0, -2.0, 2.0, 5.0], [1 / 3, -1 / 3, 1 / 3, 0.0]),
    ],
)
def test_the_largest_share_the_gradient_of_a_norm(p, values, expected):
    x = fl.tensor(values, dtype=fl.float64, requires_grad=True)
    x.norm(p).backward()
    assert x.grad.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("keepdim", [False, True])
def test_ties_are_counted_along_the_reduced_axes(keepdim):
    x = fl.tensor([[3.0, -3.0, 1.0], [2.0, 4.0, 2.0]], requires_grad=True)
    x.norm(INF, 1, keepdim).sum().backward()
    assert x.grad.tolist() == [[0.5, -0.5, 0.0], [0.0, 1.0, 0.0]]


# ---------------------------------------------------------------- bool is no number to subtract

BOOL_MINUS = {
    "sub": lambda m: m - m,
    "number": lambda m: m - 1,
    "reversed": lambda m: 1 - m,
    "float": lambda m: fl.ones(2) - m,
    "function": lambda m: fl.sub(m, m),
    "rsub": lambda m: fl.rsub(m, 1),
    "in place": lambda m: m.sub_(m),
    "neg": lambda m: -m,
    "neg_": lambda m: m.neg_(),
}


@pytest.mark.parametrize("call", BOOL_MINUS.values(), ids=BOOL_MINUS.keys())
def test_minus_of_bool_is_refused(call):
    with pytest.raises(fl.DTypeError, match="bool tensors? is not supported; use ~"):
        call(fl.tensor([True, False]))


# ---------------------------------------------------------------- probabilities


@pytest.mark.parametrize("dtype", [fl.float16, fl.bfloat16, fl.float32, fl.float64], ids=lambda t: t.name)
@pytest.mark.parametrize("bad", [1.5, -0.5, INF])
def test_binary_cross_entropy_names_what_is_no_probability(dtype, bad):
    x = fl.full((3, 5000), 0.5, dtype=dtype)
    x[1, 4321] = bad
    x[2, 0] = 7
    text = rf"binary_cross_entropy: all elements of input should be between 0 and 1, but x\[1, 4321\] = {bad}"
    with pytest.raises(ValueError, match=text):
        ops.binary_cross_entropy(x, fl.zeros(3, 5000, dtype=dtype))


def test_binary_cross_entropy_takes_the_ends():
    x = fl.tensor([0.0, 1.0])
    assert ops.binary_cross_entropy(x, x, reduction=0).tolist() == [0, 0]
    with pytest.raises(ValueError, match=r"x\[0\] = nan"):
        ops.binary_cross_entropy(fl.tensor([NAN]), fl.zeros(1))
    column = fl.full((4, 2), 0.5)
    column[:, 1] = 2
    assert ops.binary_cross_entropy(column[:, 0], fl.zeros(4)).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("p", [2.0, -0.5, NAN])
def test_bernoulli_refuses_what_is_no_probability(p):
    with pytest.raises(ValueError, match=r"bernoulli: all elements of input should be between 0 and 1, but p\[1\] = "):
        fl.bernoulli(fl.tensor([0.5, p]))
    with pytest.raises(ValueError, match=r"between 0 and 1, but p = "):
        fl.bernoulli(fl.tensor(p))


# ---------------------------------------------------------------- histograms


@pytest.mark.parametrize(
    ("values", "low", "high", "match"),
    [
        ([1.0, NAN], 0.0, 0.0, "holds nan, so that its range is not finite"),
        ([1.0, -INF], 0.0, 0.0, "holds -inf"),
        ([1.0], 2.0, 1.0, "min = 2, max = 1; expected min <= max"),
        ([1.0], 0.0, INF, "expected a finite range"),
        ([1.0], NAN, 1.0, "expected a finite range"),
    ],
)
def test_histc_wants_a_range(values, low, high, match):
    with pytest.raises(ValueError, match=match):
        fl.histc(fl.tensor(values), 4, low, high)


def test_histc_leaves_out_what_is_outside():
    assert fl.histc(fl.tensor([1.0, INF, NAN, 5.0]), 2, 0.0, 2.0).tolist() == [0, 1]


# ---------------------------------------------------------------- integers that are tensors

NUMBERED = [
    "x.sum(t(1))", "x.std(t(1))", "x.var(t(1), False)", "x.norm(2, t(1))", "x[None].squeeze(t(0))", "x.softmax(t(1))", "x.unsqueeze(t(0))",
    "x.transpose(t(0), t(1))", "x.expand(t(2), 3, 4)", "x.quantile(0.5, t(1))", "x.movedim(t(0), t(1))", "x.amin((t(0), t(1)))",
    "x.repeat_interleave(t(2))", "x.tile(t(2))", "x.flip(t(0))", "x.roll(t(1), t(0))", "fl.nn.functional.normalize(x, dim=t(1))",
    "fl.nn.functional.cosine_similarity(x, x, t(1))", "fl.std_mean(x, t(1))[0]", "fl.tensor_split(x, t(2))[0]",
]  # fmt: skip


@pytest.mark.parametrize("call", NUMBERED)
def test_an_integer_tensor_of_no_axes_is_an_int(call):
    x = fl.arange(12.0).reshape(3, 4)
    got, want = (eval(call, {"fl": fl, "x": x, "t": t}) for t in (fl.tensor, int))
    assert fl.equal(got, want)


def test_other_tensors_are_no_int():
    x = fl.ones(3, 4)
    for t in (fl.tensor(1.0), fl.tensor([0, 1]), fl.tensor([[1]])):
        with pytest.raises(TypeError):
            x.std(t)


@pytest.mark.parametrize("form", ["add", "sub", "rsub", "add_", "sub_"])
def test_alpha_is_a_number_of_the_kind_of_the_result(form):
    """0.5 of an integer was nothing, and the imaginary part of alpha went."""

    def call(x, other, alpha):
        return getattr(fl, form)(x, other, alpha=alpha) if form == "rsub" else getattr(x, form)(other, alpha=alpha)

    whole, real = fl.tensor([1, 2]), fl.tensor([1.0, 2.0])
    for x, alpha in ((whole, 0.5), (whole, True), (real, True), (real, 1j)):
        with pytest.raises(RuntimeError, match="alpha"):
            call(x.clone(), x, alpha)
    sign = 1 if "add" in form else -1
    expected = [3.0, 6.0] if sign > 0 else [-1.0, -2.0]
    assert call(real.clone(), real, 2).tolist() == expected
    assert call(real.clone(), whole, 2.0).tolist() == expected
    if form == "add":
        assert fl.add(whole, real, alpha=0.5).tolist() == [1.5, 3.0]
        assert fl.add(fl.tensor([True]), fl.tensor([False]), alpha=True).tolist() == [True]


def test_lerp_refuses_integers_whose_weight_it_would_cut():
    with pytest.raises(TypeError, match="not defined for int64"):
        fl.lerp(fl.tensor([1, 2]), fl.tensor([3, 4]), 0.5)


@pytest.mark.parametrize("dtype", [fl.float16, fl.bfloat16], ids=lambda t: t.name)
def test_the_next_number_of_16_bits(dtype):
    """All of them, up and down: as many steps from the lowest to the highest as there are numbers."""
    bits = fl.arange(-(2**15), 2**15).to(fl.int16)
    every = bits.view(dtype)
    every = every[every.isfinite()].float().unique().to(dtype)  # in order, one 0
    above, below = fl.full((), math.inf, dtype=dtype), fl.full((), -math.inf, dtype=dtype)
    assert fl.equal(fl.nextafter(every, above)[:-1], every[1:]) and fl.nextafter(every[-1], above) == math.inf
    assert fl.equal(fl.nextafter(every, below)[1:], every[:-1])
    assert fl.equal(fl.nextafter(every, every), every) and fl.nextafter(above, below) == every[-1]
    assert fl.nextafter(every[:1] * NAN, above).isnan().all() and fl.nextafter(every[:1], above * NAN).isnan().all()
    x = fl.ones(2, dtype=dtype)
    assert x.nextafter_(fl.zeros(2, dtype=dtype)) is x and (x < 1).all() and x.dtype is dtype


def test_gradients_of_products_with_logarithms():
    """By a number, of other types, and twice; 0 where the value is 0 whatever the logarithm."""
    x = fl.tensor([1.0, 0.0], requires_grad=True)
    x.xlogy(2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.log([2, 2]), rtol=1e-6)
    wide = fl.tensor([0.5, 2.0], dtype=fl.float64, requires_grad=True)
    for call, expected in ((fl.xlogy, np.log(3)), (fl.special.xlog1py, np.log(4))):
        np.testing.assert_allclose(fl.autograd.grad(call(wide, fl.tensor([3, 3])).sum(), wide)[0].numpy(), expected, rtol=1e-15)
    a, b = fl.tensor([0.0, 2.0], requires_grad=True), fl.tensor([-1.0, 4.0], requires_grad=True)
    (da,) = fl.autograd.grad(fl.xlogy(a, b).sum(), a, create_graph=True)
    assert da[0] == 0
    assert fl.autograd.grad(da.sum(), b)[0].tolist() == [0.0, 0.25]


def test_none_asks_for_the_default():
    x = fl.tensor([[3.0, 4.0]])
    assert x.sort(stable=None).indices.tolist() == [[0, 1]] and fl.sort(x, stable=None, dim=0).values.tolist() == x.tolist()
    assert x.norm(None) == 5 and fl.norm(x, p=None, dim=1).tolist() == [5.0]
    assert fl.empty(2, pin_memory=None).shape == (2,)


def test_a_size_may_be_a_tensor_of_one_number():
    x, three, two = fl.arange(6), fl.tensor([3]), fl.tensor(2)
    assert x.view(three, two).shape == x.reshape(two, three).shape[::-1] == fl.zeros(three, two).shape == fl.ones((three, 2)).shape == (3, 2)
    with pytest.raises(TypeError):
        fl.zeros(fl.tensor([3.0]), 2)


def test_weights_of_one_output():
    x, w = fl.tensor([[1.0, 2.0], [3.0, 4.0]]), fl.tensor([1.0, 10.0], requires_grad=True)
    y = fl.nn.functional.linear(x, w)
    assert y.tolist() == [21, 43] and fl.nn.functional.linear(x[0], w) == 21
    assert fl.autograd.grad(y.sum(), w)[0].tolist() == [4, 6]
    with pytest.raises(fl.ShapeError, match="weight has shape"):
        fl.nn.functional.linear(x, w, fl.zeros(1))


def test_refused_because_the_result_could_not_hold_it():
    with pytest.raises(fl.DTypeError, match="dropout: x is int64"):
        fl.nn.functional.dropout(fl.arange(4))
    assert fl.nn.functional.dropout(fl.arange(4), training=False).tolist() == [0, 1, 2, 3]
    with pytest.raises(fl.ShapeError, match="there should be a channel"):
        fl.nn.functional.conv2d(fl.ones(1, 2, 4, 4), fl.ones(0, 2, 3, 3))


def test_places_in_a_tensor_on_meta_may_be_on_the_cpu():
    x, i = fl.empty(4, 3, device="meta"), fl.tensor([0, 2])
    for y in (x[i], x.index_select(0, i), x[:, i][:2], x.gather(0, fl.zeros(2, 3, dtype=fl.int64)), x[fl.tensor([True, False, True, False])]):
        assert y.is_meta and y.shape[0] == 2
    with pytest.raises(fl.DeviceError):
        fl.ones(4, 3)[i.to("meta")]


def test_what_is_only_stored_is_not_added_up():
    x, i = fl.ones(4).to(fl.float8_e5m2), fl.tensor([0])
    for name, call in {
        "index_add": lambda: x.index_add(0, i, x[:1]), "scatter_add": lambda: x.scatter_add(0, i, x[:1]), "index_put": lambda: x.index_put([i], x[0], True),
    }.items():  # fmt: skip
        with pytest.raises(fl.DTypeError, match=f"^{name}: not defined for float8_e5m2"):
            call()
    assert x.index_put([i], x[0]).dtype is fl.float8_e5m2
    assert fl.ones(3).to(fl.uint16).index_put([i], fl.ones(1).to(fl.uint16), True).tolist() == [2, 1, 1]
