"""Values and gradients where a formula has an edge: zeros, ties, NaN, and what lies outside of a domain."""

import math

import numpy as np
import pytest
from support.table import arrays, call, cases, map_arrays, tensors

import flambeau as fl

NAN = float("nan")


def gradients(f, *values):
    xs = [fl.tensor(v, dtype=fl.float64, requires_grad=True) for v in values]
    f(*xs).sum().backward()
    return [x.grad.tolist() for x in xs]


def same(got, expected):
    np.testing.assert_array_equal(np.array(got), np.array(expected))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("x", [[2.0, 3.0, 4.0], [0.0, 3.0, 0.0]], ids=["x", "x with zeros"])
@pytest.mark.parametrize(
    "src", [[1.0, 5.0, 6.0, 7.0], [0.0, 5.0, 6.0, 7.0], [0.0, 5.0, 0.0, 0.0], [0.0, 0.0, 6.0, 0.0]], ids=str
)
def test_products_scattered_over_zeros_have_gradients(src, x, include_self):
    """A factor that is 0 has the product of the others as its slope, not 0 / 0."""
    index = fl.tensor([0, 0, 1, 2])

    def f(a, b):
        return a.scatter_reduce(0, index, b, "prod", include_self=include_self)

    assert fl.autograd.gradcheck(f, [fl.tensor(v, dtype=fl.float64, requires_grad=True) for v in (x, src)])


@pytest.mark.parametrize("op, index", cases(lambda op: any(a.name == "dim" for a in op.sig.args) and op.sig.args[0].is_tensor))
@pytest.mark.parametrize("dim", [0, -1])
def test_scalars_have_an_axis_in_name_alone(op, index, dim):
    """Forward, backward and second derivatives of scalars along their axis: no access beyond sizes that are not there."""
    given = map_arrays(arrays(op, index), lambda a: a.reshape(-1)[0])
    if given.get("dim") is not None:
        given["dim"] = [dim] if isinstance(given["dim"], list) else dim
    given = {name: v.requires_grad_() if isinstance(v, fl.Tensor) and v.is_floating_point() else v for name, v in tensors(op, given).items()}
    leaves = [v for v in given.values() if isinstance(v, fl.Tensor) and v.requires_grad]
    try:
        results = [r for r in call(op, given) if r.requires_grad]
        first = fl.autograd.grad(results, leaves, [fl.ones_like(r) for r in results], create_graph=True, allow_unused=True)
        again = [g for g in first if g is not None and g.requires_grad]
        fl.autograd.grad(again, leaves, [fl.ones_like(g) for g in again], allow_unused=True)
    except (TypeError, ValueError, RuntimeError, IndexError, NotImplementedError):
        pass  # refused: what is asked is that the process lives


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "var", "std", "norm", "logsumexp", "nansum"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_no_axis_is_every_axis(name, keepdim):
    values = np.random.default_rng(0).uniform(0.5, 2, (2, 3, 4))
    results = []
    for dim in ((), (0, 1, 2)):
        x = fl.tensor(values, requires_grad=True)
        y = getattr(fl, name)(x, dim=dim, keepdim=keepdim) if name != "prod" or not dim else x.prod()
        first, = fl.autograd.grad(y.sum(), x, create_graph=True)
        results.append((y.tolist() if name != "prod" else y.item(), first.tolist(), fl.autograd.grad(first.square().sum(), x)[0].tolist() if first.requires_grad else 0))
    np.testing.assert_allclose(np.array(results[0][1]), np.array(results[1][1]), rtol=1e-12)
    np.testing.assert_allclose(np.array(results[0][2]), np.array(results[1][2]), rtol=1e-12)
    assert results[0][0] == pytest.approx(results[1][0]) if not isinstance(results[0][0], list) else results[0][0] == results[1][0]


def test_integers_wrap_where_they_are_accumulated():
    most = np.iinfo(np.int32).max
    x = fl.tensor([most, 1], dtype=fl.int32)
    one = fl.tensor([0, 0])
    two = fl.tensor([2, 2], dtype=fl.int32)
    expected = [most + 4 - 2**32, 1]
    assert x.clone().index_put_([one], two, accumulate=True).tolist() == expected
    assert x.clone().index_add_(0, one, two).tolist() == expected
    assert x.clone().scatter_add_(0, one, two).tolist() == expected


def test_the_angle_of_the_origin_has_slope_zero():
    same(gradients(fl.atan2, [0.0, 1.0], [0.0, 2.0]), [[0.0, 0.4], [-0.0, -0.2]])


@pytest.mark.parametrize("f", [fl.minimum, fl.maximum])
def test_a_nan_goes_on_with_its_gradient(f):
    same(gradients(f, [NAN, 1.0, NAN, 2.0], [1.0, NAN, NAN, 2.0]), [[1.0, 1.0, 1.0, 0.5]] * 2)


def test_the_slope_of_logit_is_nan_where_logit_is():
    same(gradients(fl.logit, [2.0, -1.0, 0.5, 1.0]), [[NAN, NAN, 4.0, float("inf")]])
    x = fl.tensor([0.2, 0.7], dtype=fl.float64, requires_grad=True)
    assert fl.autograd.gradgradcheck(fl.logit, [x])
    same(fl.logit(x.detach(), None), fl.logit(x.detach()))
    same(gradients(lambda x: fl.logit(x, eps=None), [2.0, -1.0, 0.5, 1.0]), [[NAN, NAN, 4.0, float("inf")]])
    assert fl.autograd.gradgradcheck(lambda x: fl.logit(x, None), [x])


@pytest.mark.parametrize("f", [fl.sign, fl.sgn])
def test_the_sign_of_nan_is_zero(f):
    same(f(fl.tensor([NAN, -0.0, -2.0, 3.0])).tolist(), [0.0, 0.0, -1.0, 1.0])


def test_squares_of_a_mask_are_counted():
    y = fl.square(fl.tensor([True, False]))
    assert y.dtype == fl.int64 and y.tolist() == [1, 0]


@pytest.mark.parametrize(
    "write",
    [lambda y: y.zero_(), lambda y: y.fill_(2.0), lambda y: y.copy_(fl.ones(2)), lambda y: y.normal_(), lambda y: y[:].zero_()],
    ids=["zero_", "fill_", "copy_", "normal_", "view"],
)
def test_what_was_overwritten_gets_zeros(write):
    w, other = fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True)
    y = w * 2
    write(y)
    (y + other).sum().backward()
    assert w.grad.tolist() == [0.0, 0.0] and other.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("options", [{"scale_factor": 1e-30}, {"size": (0, 3)}, {"size": -1}], ids=str)
def test_pictures_without_positions_are_refused(options):
    with pytest.raises(fl.ShapeError, match=r"interpolate: Input and output sizes should be greater than 0, but got input \[4, 4\] output"):
        fl.nn.functional.interpolate(fl.ones(1, 1, 4, 4), **options)


@pytest.mark.parametrize("make", [lambda v: fl.tensor(v, dtype=fl.uint8), lambda v: np.array(v, np.uint8)], ids=["tensor", "array"])
def test_an_index_of_bytes_is_a_mask_and_warns(make):
    x = fl.arange(4)
    with pytest.warns(UserWarning, match="uint8 tensor is taken as a mask"):
        assert x[make([1, 0, 2, 0])].tolist() == [0, 2]
    with pytest.warns(UserWarning, match="uint8"):
        x[make([1, 0, 1, 0])] = 7
    assert x.tolist() == [7, 1, 7, 3]
    with pytest.warns(UserWarning, match="uint8"):
        assert x[fl.tensor(0, dtype=fl.uint8)].shape == (0, 4)


@pytest.mark.parametrize(
    "move",
    [lambda x: x.flip(0), lambda x: x.roll(1, 0), lambda x: x.flip(-1), lambda x: x.movedim(0, 0), lambda x: x.movedim(-1, 0), lambda x: x.unfold(0, 1, 1).squeeze(0)],
    ids=["flip", "roll", "flip from the end", "movedim", "movedim from the end", "unfold"],
)
def test_a_0d_tensor_counts_as_one_axis(move):
    y = move(fl.tensor(3.5))
    assert y.shape == () and y.item() == 3.5


@pytest.mark.parametrize("size", [0, 1])
def test_unfold_of_a_0d_tensor_is_one_window(size):
    assert fl.tensor(3.5).unfold(0, size, 1).tolist() == [3.5][:size]


@pytest.mark.parametrize("name, expected", [("sum", [True, False]), ("prod", [True, False])])
def test_reductions_to_bool_cast_first(name, expected):
    x = fl.tensor([[0.5, 0.25], [0.0, 0.0]])
    assert getattr(fl, name)(x, dim=1, dtype=fl.bool).tolist() == expected


@pytest.mark.parametrize("shapes", [((0, 2), (1, 2)), ((0, 2), (2, 2)), ((1, 2), (2, 0))], ids=str)
def test_einsum_of_nothing(shapes):
    a, b = (fl.zeros(s) for s in shapes)
    assert fl.einsum("ij,jk", a, b).shape == (shapes[0][0], shapes[1][1])


@pytest.mark.parametrize("value", [0.5, -float("inf"), float("nan"), 256])
def test_numbers_written_into_bool_are_true_unless_they_are_0(value):
    x = fl.zeros(3, dtype=fl.bool)
    assert x.masked_fill(fl.tensor([True, False, True]), value).tolist() == [True, False, True]


def test_chunks_of_an_empty_axis_are_as_many_as_were_asked_for():
    assert [c.shape for c in fl.zeros(4, 0).chunk(3, 1)] == [(4, 0)] * 3
    with pytest.raises(ValueError, match="chunks = 65537 of an empty axis"):
        fl.zeros(0).chunk(65537)


def test_sums_to_bool_are_any():
    x = fl.tensor([[0.5, NAN], [0.0, 0.0]])
    assert fl.nansum(x, 1, dtype=fl.bool).tolist() == fl.sum(x, 1, dtype=fl.bool).tolist() == [True, False]


@pytest.mark.parametrize("name", ["elu_", "celu_"])
def test_a_huge_alpha_has_the_gradients_of_the_other_form(name):
    """By the output they would be inf - inf."""
    slopes = []
    for f in (getattr(fl.nn.functional, name), getattr(fl.nn.functional, name[:-1])):
        x = fl.tensor([-1.0, 2.0], dtype=fl.float64, requires_grad=True)
        f(x * 1, alpha=float("inf")).sum().backward()
        slopes.append(x.grad.tolist())
    same(*slopes)


def test_diff_of_a_negative_order_is_refused():
    with pytest.raises(ValueError, match="diff: n = -1"):
        fl.tensor([1, 2, 3]).diff(n=-1)


@pytest.mark.parametrize("function", [fl.diff, lambda x: fl.diff(x, 7), lambda x: x.unflatten(0, (1,)), lambda x: fl.unflatten(x, -1, (1, 1))])
def test_what_needs_an_axis_says_so(function):
    """A tensor without axes has no size at any; what lay there was whatever memory held."""
    with pytest.raises(ValueError, match="has no axes"):
        function(fl.tensor(2.0))


def test_lgamma_of_the_smallest_numbers():
    x = np.array([-5e-324, -1e-310, -1e-305, -1e-299, 5e-324, 1e-310])
    assert np.allclose(fl.lgamma(fl.from_numpy(x)).numpy(), -np.log(np.abs(x)), 1e-14)


@pytest.mark.parametrize("shifts, dims", [(-(2**63), None), (2**63 - 1, None), (-(2**63), 0), ([-(2**63), 5], [0, -1])])
def test_gradients_of_the_farthest_rolls(shifts, dims):
    """The least of all numbers has no opposite."""
    x, weights = fl.arange(6.0).reshape(2, 3).requires_grad_(), fl.rand(2, 3)
    (x.roll(shifts, dims) * weights).sum().backward()
    want = fl.zeros(6)
    want[fl.arange(6).reshape(2, 3).roll(shifts, dims).flatten()] = weights.flatten()
    assert fl.equal(x.grad, want.reshape(2, 3))


def test_positive_gives_the_tensor_itself():
    x = fl.ones(3, requires_grad=True)
    assert fl.positive(x) is x and +x is x
    for f in (fl.positive, lambda m: +m):
        with pytest.raises(RuntimeError, match="on a bool tensor is not supported"):
            f(fl.tensor([True]))


def test_ends_of_whole_numbers_are_cut_off_before_they_are_spaced():
    assert fl.linspace(4.3, -3, 8, dtype=fl.int64).tolist() == [4, 3, 2, 1, 0, -1, -2, -3]
    assert fl.linspace(-3.7, 3.7, 5, dtype=fl.int32).tolist() == [-3, -1, 0, 1, 3]
    assert fl.logspace(0.7, 2.9, 4, base=2, dtype=fl.int64).tolist() == [1, 1, 2, 4]
    assert fl.linspace(0, 1, 1).tolist() == [0] and fl.linspace(0, 1, 0).tolist() == [] and fl.linspace(2, 5, 2).tolist() == [2, 5]


def test_multinomial_names_the_first_row_that_it_refuses():
    w = fl.rand(5000, 40) + 0.1
    w[4000:] = 0
    w[1234, 7] = -1.5
    w[3000, 2] = fl.inf
    with pytest.raises(fl.ArgumentError, match=r"x\[1234, 7\] = -1.5; expected finite weights"):
        fl.multinomial(w, 2)
    w[1234, 7] = w[3000, 2] = 1
    with pytest.raises(fl.ArgumentError, match="row 4000 has 0 positive weights; expected at least 1"):
        fl.multinomial(w, 2, replacement=True)
    w[4000:, :3] = 1
    assert fl.multinomial(w, 3)[4000:].sort(1)[0].eq(fl.arange(3)).all()
    with pytest.raises(fl.ArgumentError, match="row 4000 has 3 positive weights; expected at least 4"):
        fl.multinomial(w, 4)
    for dtype in (fl.float64, fl.float16, fl.bfloat16):
        assert fl.multinomial(w.to(dtype), 3)[4000:].sort(1)[0].eq(fl.arange(3)).all()


def test_differences_of_which_none_is_left_are_not_computed():
    x = fl.ones(1, 2).expand(2**40, 2)
    assert fl.diff(x, n=2**58, dim=0).shape == (0, 2) and fl.diff(x.mT, n=2**40).shape == (2, 0)
    assert fl.func.vmap(lambda row: fl.diff(row, n=2**40))(x.mT).shape == (2, 0)
    assert fl.diff(fl.tensor([3.0, 5.0, 9.0]), n=2).tolist() == [2.0] and fl.diff(fl.ones(3), n=3).shape == (0,)


def test_angles_of_what_is_tiny_huge_or_no_number():
    values = [0.0, -0.0, 5e-324, -5e-324, 1e-323, 1e-310, -1e-310, 2.3e-308, 1e-290, -1e-291, 3.0, -1.0, 1e308, -1e308, math.inf, -math.inf, math.nan]
    y, x = (fl.tensor(v.ravel()) for v in np.meshgrid(np.array(values), np.array(values)))
    for got, a, b in zip(fl.atan2(y, x).tolist(), y.tolist(), x.tolist()):
        want = math.atan2(a, b)
        assert got == pytest.approx(want, rel=4e-16, abs=0, nan_ok=True) and math.copysign(1, got) * (got == got) == math.copysign(1, want) * (want == want), (a, b)


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.bfloat16, fl.float16])
@pytest.mark.parametrize("low, high", [(math.nan, 1.0), (-1.0, math.nan), (math.nan, math.nan)])
def test_a_bound_that_is_no_number_leaves_none(dtype, low, high):
    x = fl.tensor([1.0, math.nan, -3.0, 9.0], dtype=dtype)
    assert x.clamp(low, high).isnan().all() and x.clone().clamp_(low, high).isnan().all()
    assert fl.clamp(x, fl.tensor(low, dtype=dtype), fl.tensor(high, dtype=dtype)).isnan().all()
