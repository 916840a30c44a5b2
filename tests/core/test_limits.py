"""Values at and past what sizes, integer types and index arithmetic can hold: refused, or wrapped where that is what arithmetic does."""

from __future__ import annotations

import contextlib
import copy
import pickle

import pytest

import flambeau as fl

F = fl.nn.functional

BIG = 2**62
MOST = 2**63 - 1
LEAST = -(2**63)


# ---------------------------------------------------------------- numbers beside integer tensors


def small(dtype=fl.uint8, *values):
    return fl.tensor(list(values) or [1, 2], dtype=dtype)


REFUSED_NUMBERS = {
    "floor_divide by -1": lambda: small() // -1,
    "floor_divide by 0, if it wrapped": lambda: small() // 256,
    "remainder": lambda: small() % 300,
    "pow": lambda: small() ** 300,
    "reversed pow": lambda: (-1) ** small(),
    "float": lambda: small().masked_fill(fl.tensor([True, False]), 1e10),
    "floor_divide": lambda: small(fl.int16) // 2**20,
    "clamp": lambda: small(fl.int32).clamp(max=2**40),
    "where": lambda: fl.where(fl.tensor([True, False]), small(fl.int32), 2**33),
    "where float": lambda: fl.where(fl.tensor([True, False]), small(), -256),
    "in place": lambda: small().floor_divide_(256),
    "clamp to -1": lambda: small().clamp(min=-1),
    "random_": lambda: small().random_(-1, 3),
    "alpha": lambda: small().add(small(), alpha=2**40),
    "masked_fill": lambda: small(fl.int8).masked_fill(fl.tensor([True, False]), 200),
    "fill_": lambda: small().fill_(256),
    "fill_ float": lambda: small().fill_(1e10),
    "fill_ nan": lambda: small(fl.int64).fill_(float("nan")),
    "item": lambda: small().__setitem__(0, 300),
    "items": lambda: small().__setitem__([0, 1], -256),
    "item float": lambda: small().__setitem__(0, -1.5),
    "tensor": lambda: fl.tensor([[1], [300]], dtype=fl.uint8),
    "tensor negative": lambda: fl.tensor([-256], dtype=fl.uint8),
    "tensor most negative": lambda: fl.tensor([-(2**63)], dtype=fl.uint8),
    "tensor float": lambda: fl.tensor([128.0], dtype=fl.int8),
    "full": lambda: fl.full((1,), 300, dtype=fl.uint8),
    "full inf": lambda: fl.full((1,), float("inf"), dtype=fl.int64),
    "full 2^63": lambda: fl.full((1,), 2.0**63, dtype=fl.int64),
    "full_like": lambda: fl.full_like(small(), -256),
    "new_full": lambda: small().new_full((2,), 2**40, dtype=fl.int32),
    "arange": lambda: fl.arange(300, dtype=fl.uint8),
    "randint": lambda: fl.randint(0, 257, (3,), dtype=fl.uint8),
    "pad": lambda: F.pad(small(), [1, 1], value=256),
    "scatter": lambda: small().scatter(0, fl.tensor([0]), 300),
    "index_fill": lambda: small().index_fill(0, fl.tensor([0]), -256),
}


@pytest.mark.parametrize("call", REFUSED_NUMBERS.values(), ids=REFUSED_NUMBERS.keys())
def test_a_number_that_an_integer_type_can_not_hold_is_refused(call):
    with pytest.raises(ValueError, match=r"does not fit into u?int\d+; expected -?\d+ <= "):
        call()


def test_the_message_names_value_type_and_range():
    text = "remainder: number = 300 does not fit into uint8; expected 0 <= number <= 255, or a wider type"
    with pytest.raises(ValueError, match=text):
        small() % 300


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
@pytest.mark.parametrize("number", [-1, -200, -256, 300, 2**40, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("dtype", [fl.uint8, fl.int8, fl.int16, fl.int32, fl.uint16, fl.uint32])
def test_sums_products_and_bits_are_those_of_the_lowest_bits(dtype, number, lazy):
    """As of a 0-d tensor, and as in NumPy's arrays of one type."""
    x = fl.tensor([0, 1, 2, 100, 127], dtype=dtype)
    with fl.lazy() if lazy else contextlib.nullcontext():
        found = [x + number, x - number, number - x, x * number, x & number, x | number, x ^ number, x.clone().add_(number), x.clone().mul_(number) * 2]
        found = [y.tolist() for y in found]
    size = 256**x.itemsize
    low = 0 if dtype in (fl.uint8, fl.uint16, fl.uint32) else -size // 2
    values = x.tolist()
    expected = [
        [v + number for v in values], [v - number for v in values], [number - v for v in values], [v * number for v in values],
        [v & number for v in values], [v | number for v in values], [v ^ number for v in values], [v + number for v in values], [v * number * 2 for v in values],
    ]  # fmt: skip
    assert found == [[(v - low) % size + low for v in row] for row in expected]
    if number in range(-(2**31), 2**31):
        other = fl.tensor(number)
        assert found[:4] == [(x + other).tolist(), (x - other).tolist(), (other - x).tolist(), (x * other).tolist()]


def test_negative_numbers_are_stored_in_unsigned_elements_from_the_other_end():
    x = small()
    mask = fl.tensor([True, False])
    for y in (x.clone().fill_(-1), fl.full((2,), -1, dtype=fl.uint8), fl.full_like(x, -1), fl.tensor([-1, -1], dtype=fl.uint8), x.new_full((2,), -1)):
        assert y.tolist() == [255, 255]
    assert x.masked_fill(mask, -1).tolist() == fl.where(mask, -1, x).tolist() == [255, 2]
    assert x.index_fill(0, fl.tensor([1]), -255).tolist() == [1, 1]
    x[0] = -2
    assert x.tolist() == [254, 2]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(255, fl.uint8), (0, fl.uint8), (-128, fl.int8), (2**15 - 1, fl.int16), (-(2**31), fl.int32), (MOST, fl.int64)],
)
def test_the_ends_of_a_range_are_values(value, dtype):
    assert fl.full((1,), value, dtype=dtype).item() == value
    assert fl.tensor([value], dtype=dtype).item() == value
    assert (fl.zeros(1, dtype=dtype) + value).item() == value
    assert fl.zeros(1, dtype=dtype).fill_(value).item() == value


def test_fractions_are_cut_off():
    assert fl.tensor([255.9, -0.9], dtype=fl.uint8).tolist() == [255, 0]
    assert fl.full((1,), -(2.0**63), dtype=fl.int64).item() == LEAST
    assert fl.arange(256, dtype=fl.uint8)[-1].item() == 255


@pytest.mark.parametrize("dtype", [fl.uint8, fl.int8, fl.int32], ids=lambda t: t.name)
@pytest.mark.parametrize("value", [2**40, 2**32, 300, -300, -(2**40)])
@pytest.mark.parametrize("n", [2, 200])
def test_comparisons_with_any_number_are_exact(dtype, value, n):
    x = fl.ones(n, dtype=dtype)
    assert (x < value).all().item() is (value > 1)
    assert (x > value).all().item() is (value < 1)
    assert not (x == value).any().item()
    assert (x != value).all().item()


# ---------------------------------------------------------------- sizes

REFUSED_SIZES = {
    "bincount value": (lambda: fl.bincount(fl.tensor([MOST] * 7), minlength=64), "bincount: x holds"),
    "bincount minlength": (lambda: fl.bincount(fl.tensor([1]), minlength=BIG), "bincount: minlength"),
    "bincount negative": (lambda: fl.bincount(fl.tensor([1]), minlength=-1), "bincount: minlength = -1"),
    "narrow": (lambda: fl.zeros(4).narrow(0, 1, MOST), "narrow: start = 1"),
    "repeat": (lambda: fl.ones(4).repeat(BIG + 1), "repeat: repeats"),
    "repeat_interleave": (lambda: fl.ones(4).repeat_interleave(BIG + 1), "repeat_interleave: repeats"),
    "repeat_interleave tensor": (lambda: fl.ones(4).repeat_interleave(fl.tensor([BIG] * 4)), "repeat_interleave"),
    "expand": (lambda: fl.zeros(1).expand(2**40, 2**40), "expand: shape"),
    "as_strided": (lambda: fl.zeros(1).as_strided((2**40, 2**40), (0, 0)), "shape = "),
    "split": (lambda: fl.arange(4).split([MOST, MOST, 6]), "split_sizes"),
    "pad": (lambda: F.pad(fl.zeros(3), (BIG, BIG)), "pad = "),
    "pad replicate": (lambda: F.pad(fl.zeros(1, 1, 3), (BIG, BIG), mode="replicate"), "pad: pad = "),
    "arange": (lambda: fl.arange(LEAST, MOST), "arange: shape"),
    "linspace": (lambda: fl.linspace(0, 1, BIG), "linspace: shape"),
    "eye": (lambda: fl.eye(2**40), "eye: shape"),
    "tril_indices": (lambda: fl.tril_indices(BIG, BIG), "tril_indices: shape"),
    "triu_indices": (lambda: fl.triu_indices(-1, 2), "triu_indices: shape"),
    "one_hot": (lambda: F.one_hot(fl.tensor([1]), BIG), "one_hot: shape"),
    "axes": (lambda: fl.zeros([1] * 65), "65 axes; expected at most 64"),
    "conv dilation": (lambda: F.conv1d(fl.ones(1, 1, 4), fl.ones(1, 1, 2), dilation=BIG), "conv1d: dilation"),
    "conv stride": (lambda: F.conv1d(fl.ones(1, 1, 4), fl.ones(1, 1, 2), stride=BIG), "conv1d: stride"),
    "conv padding": (lambda: F.conv1d(fl.ones(1, 1, 4), fl.ones(1, 1, 2), padding=BIG), "conv1d: padding"),
    "pool dilation": (lambda: F.max_pool1d(fl.ones(1, 1, 4), 2, dilation=BIG), "dilation"),
    "pool kernel": (lambda: F.max_pool1d(fl.ones(1, 1, 4), MOST, padding=BIG), "kernel_size"),
    "pool stride": (lambda: F.avg_pool1d(fl.ones(1, 1, 4), 2, BIG, ceil_mode=True), "stride"),
    "conv_transpose": (lambda: F.conv_transpose1d(fl.ones(1, 1, 4), fl.ones(1, 1, 2), stride=BIG), "stride"),
}


@pytest.mark.parametrize(("call", "match"), REFUSED_SIZES.values(), ids=REFUSED_SIZES.keys())
def test_sizes_past_memory_are_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_arange_with_steps_that_leave_64_bits():
    assert fl.arange(LEAST, MOST, BIG).tolist() == [LEAST, -BIG, 0, BIG]
    assert fl.arange(0, LEAST, LEAST).tolist() == [0]
    assert fl.arange(MOST - 2, MOST, 2).tolist() == [MOST - 2]


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
@pytest.mark.parametrize("offset", [LEAST, -3, -1, 0, 2, 4, MOST])
@pytest.mark.parametrize(("rows", "cols"), [(3, 4), (5, 2), (0, 3), (3, 0)])
def test_triangle_indices_for_any_offset(name, offset, rows, cols):
    lower = name == "tril_indices"
    keep = [(i, j) for i in range(rows) for j in range(cols) if (j - i <= offset if lower else j - i >= offset)]
    got = getattr(fl, name)(rows, cols, offset)
    assert list(zip(*got.tolist(), strict=True)) == keep


def test_triangle_indices_of_many_rows_with_few_elements():
    assert fl.tril_indices(2**50, 2, -(2**50) + 1).tolist() == [[2**50 - 1], [0]]
    assert fl.triu_indices(2**50, 2, 1).tolist() == [[0], [1]]
    assert fl.tril_indices(BIG, 0).shape == (2, 0)


@pytest.mark.parametrize("diagonal", [LEAST, MOST])
def test_triangles_with_any_diagonal(diagonal):
    ones, none = fl.ones(2, 3), fl.zeros(2, 3)
    assert fl.equal(ones.tril(diagonal), ones if diagonal > 0 else none)
    assert fl.equal(ones.triu(diagonal), none if diagonal > 0 else ones)


def test_huge_counts_that_still_mean_something():
    x = fl.arange(4)
    assert x.roll(MOST).tolist() == x.roll(MOST % 4).tolist()
    assert len(x.chunk(MOST)) == 4
    assert len(x.split(MOST)) == 1
    assert x.unfold(0, 2, BIG).tolist() == [[0, 1]]


def test_a_stride_without_a_second_window():
    x, w = fl.ones(1, 1, 1, 1), fl.ones(1, 1, 2, 2)
    assert F.conv_transpose2d(x, w, stride=2**31 - 1).tolist() == [[[[1.0, 1.0], [1.0, 1.0]]]]
    assert F.conv1d(fl.ones(1, 1, 4), fl.ones(1, 1, 2), stride=2**31 - 1).tolist() == [[[2.0]]]
    # the gradients see the same windows as with a stride of the kernel's size
    for stride in (3, 2**20):
        a, b = fl.arange(8.0).reshape(1, 1, 8).requires_grad_(), fl.arange(3.0).reshape(1, 1, 3).requires_grad_()
        F.conv1d(a, b, stride=stride if stride > 3 else 6).sum().backward()
        assert a.grad.flatten().tolist() == [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        assert b.grad.flatten().tolist() == [0.0, 1.0, 2.0]


# ---------------------------------------------------------------- indices


def test_slice_bounds_past_64_bits_are_clamped():
    x = fl.arange(4)
    assert x[1 : 2**70].tolist() == [1, 2, 3]
    assert x[-(2**70) : 2].tolist() == [0, 1]
    assert x[:: 2**70].tolist() == [0]
    assert x[1:4:MOST].tolist() == [1]
    x[2 : 2**70] = 9
    assert x.tolist() == [0, 1, 9, 9]


@pytest.mark.parametrize("index", [2**70, -(2**70), MOST, LEAST, (2**70,), (slice(None), 2**70)])
def test_indices_past_64_bits_are_out_of_range(index):
    with pytest.raises(IndexError, match="out of bounds"):
        fl.zeros(2, 2)[index]


SCATTERS = {
    "scatter": lambda src: fl.zeros(3).scatter(0, fl.tensor(1), src),
    "scatter_": lambda src: fl.zeros(3).scatter_(0, fl.tensor(1), src),
    "scatter_add": lambda src: fl.zeros(3).scatter_add(0, fl.tensor(1), src),
    "scatter_reduce": lambda src: fl.zeros(3).scatter_reduce(0, fl.tensor(1), src, "sum"),
}


@pytest.mark.parametrize("call", SCATTERS.values(), ids=SCATTERS.keys())
def test_a_0d_index_counts_as_one_element(call):
    with pytest.raises(fl.ShapeError, match=r"index has shape \[\], src has shape \[0\]"):
        call(fl.zeros(0))
    assert call(fl.tensor(7.0)).tolist() == [0, 7, 0]
    assert call(fl.tensor([7.0, 8.0])).tolist() == [0, 7, 0]


@pytest.mark.parametrize("name", ["index_add", "index_copy"])
def test_a_0d_tensor_takes_one_index(name):
    x, one = fl.tensor(1.0), fl.tensor([0])
    assert getattr(x, name)(0, one, fl.tensor(2.0)).item() == (3 if name == "index_add" else 2)
    with pytest.raises(fl.ShapeError, match="expected one index"):
        getattr(x, name)(0, fl.tensor([0, 0, 0]), fl.tensor(2.0))


def test_index_select_of_a_0d_tensor():
    assert fl.tensor(5.0).index_select(0, fl.tensor([0])).item() == 5
    with pytest.raises(fl.ShapeError, match="expected one index"):
        fl.tensor(5.0).index_select(0, fl.tensor([0, 0]))


def test_bucketize_wants_one_row_of_boundaries():
    with pytest.raises(fl.ShapeError, match="boundaries"):
        fl.bucketize(fl.zeros(5, 3), fl.zeros(2, 3))


# ---------------------------------------------------------------- empty


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.float16], ids=lambda t: t.name)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_without_input_channels_is_the_bias(dtype, axes, groups):
    conv = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    x = fl.empty(2, 0, *[5] * axes, dtype=dtype)
    w = fl.ones(4, 0, *[3] * axes, dtype=dtype, requires_grad=True)
    b = fl.arange(4.0, dtype=dtype).requires_grad_()
    assert (conv(x, w, groups=groups) == 0).all()
    y = conv(x, w, b, groups=groups)
    assert y.shape == (2, 4, *[3] * axes)
    assert all((y[:, c] == c).all() for c in range(4))
    y.sum().backward()
    assert w.grad.shape == w.shape
    assert b.grad.tolist() == [2.0 * 3**axes] * 4


def test_an_empty_batch_leaves_the_running_statistics_alone():
    norm = fl.nn.BatchNorm1d(3)
    y = norm(fl.zeros(0, 3))
    assert y.shape == (0, 3)
    assert norm.running_mean.tolist() == [0, 0, 0]
    assert norm.running_var.tolist() == [1, 1, 1]
    y.sum().backward()
    assert norm.weight.grad.tolist() == [0, 0, 0]
    assert norm.bias.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("shape", [(1, 3), (1, 3, 1, 1), (1, 1)])
def test_one_value_per_channel_can_not_be_normalised(shape):
    with pytest.raises(fl.ShapeError, match="more than one value per channel"):
        fl._C.ops.batch_norm(fl.zeros(*shape), None, None, training=True)


# ---------------------------------------------------------------- arithmetic with integer arguments


def test_number_of_elements_of_any_size():
    assert fl.Size([BIG, 4, 5]).numel() == BIG * 20
    assert fl.Size([-MOST, 3]).numel() == -3 * MOST
    assert fl.Size([]).numel() == 1


def test_gradient_whose_formula_leaves_the_integers():
    x = fl.ones(2, requires_grad=True)
    y = x.polygamma(MOST)
    with pytest.raises(fl.ArgumentError, match="9223372036854775807 and 1"):
        y.sum().backward()


@pytest.mark.parametrize("call", [lambda x: x.unbind(0), list, lambda x: x.split(1), lambda x: x.chunk(2**58), lambda x: x.mT.unbind(-1)], ids=["unbind", "iter", "split", "chunk", "columns"])
def test_more_views_than_fit_into_memory(call):
    with pytest.raises(MemoryError, match=r"would make \d+ tensors"):
        call(fl.empty(2**59, 0))


def test_ranges_of_the_array_api_are_of_numbers():
    from flambeau import array_api

    with pytest.raises(TypeError, match="arange: start is a list; expected a number"):
        array_api.arange([1], 2)


@pytest.mark.parametrize("limits", [fl.finfo(fl.float16), fl.finfo(fl.complex64), fl.iinfo(fl.uint8)], ids=repr)
def test_limits_are_copied_and_pickled(limits):
    for copied in (copy.copy(limits), copy.deepcopy(limits), pickle.loads(pickle.dumps(limits))):
        assert repr(copied) == repr(limits) and copied.dtype == limits.dtype
    assert fl.finfo(fl.float32).bits == 32 and fl.finfo() == fl.finfo(fl.float32)
