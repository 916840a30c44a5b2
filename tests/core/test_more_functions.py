"""Windows, statistics, copies with a part replaced, numbers taken apart: beside NumPy and SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.signal.windows as windows
from support.compare import assert_near

import flambeau as fl


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


WINDOWS = {
    "bartlett_window": windows.bartlett,
    "blackman_window": windows.blackman,
    "hamming_window": windows.hamming,
    "hann_window": windows.hann,
    "kaiser_window": lambda n, sym: windows.kaiser(n, 12.0, sym=sym),
}


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 101])
@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name, periodic, n):
    got = getattr(fl, name)(n, periodic, dtype=fl.float64)
    np.testing.assert_allclose(got.numpy(), WINDOWS[name](n, sym=not periodic) if n else [], atol=1e-14)
    assert getattr(fl, name)(n).dtype is fl.float32
    assert getattr(fl, name)(n, requires_grad=True).requires_grad


def test_windows_refuse():
    with pytest.raises(ValueError, match="window_length = -1; expected at least 0"):
        fl.hann_window(-1)
    with pytest.raises(fl.DTypeError, match="expected a floating point type"):
        fl.kaiser_window(3, dtype=fl.int64)
    np.testing.assert_allclose(fl.kaiser_window(9, beta=700.0, dtype=fl.float64).numpy(), windows.kaiser(9, 700.0, sym=False), atol=1e-12)


def test_covariance():
    x, f, a = draw(3, 20), np.arange(20) % 4, np.abs(draw(20, seed=1))
    for kw in ({}, {"correction": 0}, {"fweights": f}, {"aweights": a}, {"fweights": f, "aweights": a, "correction": 0}):
        ours = {k: fl.tensor(v) if isinstance(v, np.ndarray) else v for k, v in kw.items()}
        theirs = {("ddof" if k == "correction" else k): v for k, v in kw.items()}
        assert_near(fl.cov(fl.tensor(x), **ours), np.cov(x, **theirs))
    assert_near(fl.tensor(x[0]).cov(), np.cov(x[0]))
    assert_near(fl.corrcoef(fl.tensor(x)), np.corrcoef(x))
    with pytest.raises(ValueError, match="negative element"):
        fl.cov(fl.tensor(x), aweights=fl.tensor(-a))
    with pytest.raises(fl.DTypeError, match="expected integers"):
        fl.cov(fl.tensor(x), fweights=fl.tensor(a))


def test_histogram():
    x, w = draw(200), np.abs(draw(200, seed=1))
    for kw in ({"bins": 7}, {"bins": 5, "range": (-1.0, 1.0)}, {"bins": np.array([-2.0, -0.5, 0.0, 3.0])}):
        for density in (False, True):
            ours = {k: fl.tensor(v) if isinstance(v, np.ndarray) else v for k, v in kw.items()}
            got = fl.histogram(fl.tensor(x), **ours, weight=fl.tensor(w), density=density)
            hist, edges = np.histogram(x, **kw, weights=w, density=density)
            assert_near(got.hist, hist)
            assert_near(got.bin_edges, edges)
    assert fl.histogram(fl.zeros(0), 2).bin_edges.tolist() == [0.0, 0.5, 1.0]
    assert fl.histogram(fl.tensor([1.0, 2.0, 2.0]), 2).hist.tolist() == [1, 2]  # the last edge belongs to the last bin
    assert fl.histogram(fl.tensor([float("nan"), 1.0]), 1, range=(0.0, 2.0)).hist.tolist() == [1]
    with pytest.raises(ValueError, match="bins = 0"):
        fl.histogram(fl.ones(2), 0)
    with pytest.raises(ValueError, match="expected finite numbers"):
        fl.histogram(fl.tensor([float("inf")]), 3)


@pytest.mark.parametrize(
    "call", [lambda x: fl.histogram(x, 2), lambda x: fl.histogramdd(x[:, None], [2]), lambda x: fl.histogram(x.detach(), 2, weight=x)]
)
def test_backward_of_histograms_says_that_there_is_no_derivative(call):
    x = fl.tensor([1.0, 2.0, 2.0], requires_grad=True)
    with pytest.raises(fl.AutogradError, match=r"histogram(dd)? has no derivative; call it on detach\(\)ed tensors"):
        call(x).hist.sum().backward()
    assert x.grad is None and not call(x.detach()).hist.requires_grad


def test_integrals():
    y, x = draw(3, 6), np.sort(draw(6, seed=1))
    for kw in ({}, {"dx": 0.5}, {"x": x}):
        ours = {k: fl.tensor(v) if isinstance(v, np.ndarray) else v for k, v in kw.items()}
        assert_near(fl.trapezoid(fl.tensor(y), **ours), np.trapezoid(y, **kw))
        assert_near(fl.cumulative_trapezoid(fl.tensor(y), **ours)[:, -1], np.trapezoid(y, **kw))
    assert_near(fl.trapz(fl.tensor(y), dim=0), np.trapezoid(y, axis=0))
    assert_near(fl.trapezoid(fl.tensor(y), fl.tensor(draw(3, 6, seed=2)), dim=0), np.trapezoid(y, draw(3, 6, seed=2), axis=0))
    assert fl.trapezoid(fl.zeros(2, 0)).tolist() == [0, 0]
    with pytest.raises(TypeError, match="x and dx are both given"):
        fl.trapezoid(fl.ones(2), fl.ones(2), dx=1.0)
    with pytest.raises(fl.ShapeError, match="expected x of y's size"):
        fl.trapezoid(fl.ones(2), fl.ones(3))


def test_gradient():
    y, x = draw(5, 6), np.sort(draw(6, seed=1))
    for order in (1, 2):
        for got, want in zip(fl.gradient(fl.tensor(y), edge_order=order), np.gradient(y, edge_order=order)):
            assert_near(got, want)
        assert_near(fl.gradient(fl.tensor(y), spacing=(fl.tensor(x),), dim=1, edge_order=order)[0], np.gradient(y, x, axis=1, edge_order=order))
        assert_near(fl.gradient(fl.tensor(y), spacing=2.0, dim=0, edge_order=order)[0], np.gradient(y, 2.0, axis=0, edge_order=order))
    with pytest.raises(fl.ShapeError, match="expected at least 2 elements along dim = 0"):
        fl.gradient(fl.ones(1))
    with pytest.raises(ValueError, match="edge_order = 3"):
        fl.gradient(fl.ones(5), edge_order=3)


def test_scatters_of_views():
    x = draw(4, 5)
    cases = [
        (lambda t, s: fl.select_scatter(t, s, 1, 2), np.arange(20).reshape(4, 5)[:, 2]),
        (lambda t, s: fl.slice_scatter(t, s, 0, 1, 4, 2), np.arange(20).reshape(4, 5)[1:4:2]),
        (lambda t, s: t.diagonal_scatter(s, 1), np.diagonal(np.arange(20).reshape(4, 5), 1)),
        (lambda t, s: t.as_strided_scatter(s, (2, 2), (5, 2), 1), np.array([[1, 3], [6, 8]])),
    ]
    for function, places in cases:
        src = draw(*places.shape, seed=3)
        want = x.copy()
        want.reshape(-1)[places] = src
        assert_near(function(fl.tensor(x), fl.tensor(src)), want)
        fl.autograd.gradcheck(function, [fl.tensor(x).requires_grad_(), fl.tensor(src).requires_grad_()])
        with pytest.raises(fl.ShapeError, match="expected that of what it replaces"):
            function(fl.tensor(x), fl.ones(9, dtype=fl.float64))
    turned = fl.tensor(draw(6, 4)).t()[1:]  # strides and an offset of its own
    assert_near(fl.as_strided_scatter(turned, fl.zeros(2, dtype=fl.float64), (2,), (1,))[0, :1], np.zeros(1))
    assert fl.as_strided_scatter(turned, fl.zeros(2, dtype=fl.float64), (2,), (1,)).stride() == turned.stride()


def test_combinations():
    for n, r, again in itertools.product((0, 1, 4), (0, 1, 2, 3), (False, True)):
        x = np.arange(n) * 1.5
        choose = itertools.combinations_with_replacement if again else itertools.combinations
        want = np.array(list(choose(x, r))).reshape(-1, r) if r else np.zeros(0)
        assert_near(fl.combinations(fl.tensor(x), r, again), want)
    with pytest.raises(ValueError, match="expected at most"):
        fl.combinations(fl.zeros(1000), 10)


def test_numbers_apart():
    x = np.array([0.0, 1.0, -6.0, 1e-310, 0.1, np.inf])
    m, e = fl.frexp(fl.tensor(x))
    want = np.frexp(x)
    assert_near(m, want[0])
    assert e.dtype is fl.int32 and e.tolist()[:-1] == want[1].tolist()[:-1]
    assert_near(fl.ldexp(fl.tensor(x[:5]), fl.tensor([1, 2, 3, 4, -5])), np.ldexp(x[:5], [1, 2, 3, 4, -5]))
    with pytest.raises(fl.DTypeError):
        fl.frexp(fl.tensor([1, 2]))


@pytest.mark.parametrize("dtype", [fl.float64, fl.float32, fl.float16, fl.bfloat16])
def test_powers_of_two_keep_the_type(dtype):
    x, far = fl.tensor([1.5, 0.0, -3.0]), {fl.float64: 1000, fl.float32: 120}.get(dtype, 12)
    for power in (far, -far):  # 2^(2 * far) is no number of the type
        tiny = fl.ldexp(x.to(dtype), fl.tensor(-power))
        assert tiny.dtype is dtype and fl.ldexp(tiny, fl.tensor([2 * power])).double().equal(fl.tensor(np.ldexp(x.double().numpy(), power)))
    y = x.to(dtype).clone()
    assert y.ldexp_(fl.tensor([1, 2, 3])) is y and y.tolist() == [3, 0, -24]
    least = np.finfo(str(dtype).rpartition(".")[2] if dtype is not fl.bfloat16 else "float32").smallest_subnormal
    if dtype in (fl.float32, fl.float64):  # rounded once
        assert fl.ldexp(fl.tensor([5.0, 11.0], dtype=dtype) * float(least), fl.tensor([-3])).tolist() == [float(least), float(least)]
        assert fl.ldexp(fl.tensor([1.5], dtype=dtype), fl.tensor([int(np.log2(float(least)))])).item() == 2 * float(least)
    assert fl.ldexp(fl.tensor([np.inf, 0.0], dtype=dtype), fl.tensor([-5000, 5000])).tolist() == [np.inf, 0]
    powers = fl.tensor([np.inf, -np.inf, np.nan])
    assert fl.ldexp(fl.tensor([2.0, 2.0, 2.0]), powers).nan_to_num(nan=7).tolist() == [np.finfo(np.float32).max, 0, 7]


def test_powers_of_two_of_other_numbers():
    assert fl.ldexp(fl.tensor([1, 3]), fl.tensor([True, False])).tolist() == [2, 3]
    assert fl.ldexp(fl.tensor([1 + 2j]), fl.tensor([3])).tolist() == [8 + 16j]
    x, power = fl.tensor([1.5, -2.0], dtype=fl.float64, requires_grad=True), fl.tensor([0.25, -3.5], dtype=fl.float64, requires_grad=True)
    assert fl.autograd.gradcheck(fl.ldexp, (x, power)) and fl.autograd.gradgradcheck(fl.ldexp, (x, power))


def test_truth_of_bytes_and_along_no_axis():
    x = fl.tensor([[0, 2, 255], [0, 0, 4]], dtype=fl.uint8)
    for fold, want in ((fl.any, [0, 1, 1]), (fl.all, [0, 0, 1])):
        assert fold(x, 0).dtype is fl.uint8 and fold(x, 0).tolist() == want
        assert fold(x.float(), 0).dtype is fl.bool and fold(x.float(), 0).tolist() == [bool(v) for v in want]
        for y in (x, x.float(), x.t(), x.bool(), x[:0], x[0, 0], x.t().float()[::2], fl.ones([1] * 64)):
            each = fold(y, dim=())
            assert each.shape == y.shape and each.tolist() == (y != 0).to(each.dtype).tolist()


def test_matrices_along_no_diagonal():
    assert fl.block_diag().shape == (1, 0) and fl.block_diag().dtype is fl.float32


def test_float_powers():
    assert fl.float_power(fl.tensor([2, 3]), 2).dtype is fl.float64
    assert fl.float_power(2, fl.tensor([2, 3])).tolist() == [4, 8]
    x = fl.tensor([2.0, 3.0], dtype=fl.float64)
    assert x.float_power_(2) is x and x.tolist() == [4, 9]
    with pytest.raises(TypeError, match="expected a tensor among them"):
        fl.float_power(2, 3)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce, fold", [("prod", np.prod), ("amax", np.max), ("amin", np.min), ("mean", np.mean)])
def test_index_reduce(reduce, fold, include_self):
    x, source, index = draw(4, 3), draw(5, 3, seed=1), np.array([0, 2, 0, 3, 0])
    want = x.copy()
    for row in set(index):
        want[row] = fold(np.concatenate([x[row : row + 1] if include_self else source[:0], source[index == row]]), axis=0)
    got = fl.tensor(x).index_reduce(0, fl.tensor(index), fl.tensor(source), reduce, include_self=include_self)
    assert_near(got, want)
    target = fl.tensor(x)
    assert target.index_reduce_(0, fl.tensor(index), fl.tensor(source), reduce, include_self=include_self) is target
    assert_near(target, want)
    with pytest.raises(fl.ShapeError, match="expected \\[5, 3\\]"):
        fl.index_reduce(fl.tensor(x), 0, fl.tensor(index), fl.tensor(x), reduce)
    with pytest.raises(ValueError, match="reduce = 'sum'"):
        fl.index_reduce(fl.tensor(x), 0, fl.tensor(index), fl.tensor(source), "sum")


def test_small_ones():
    assert [t.tolist() for t in fl.unravel_index(fl.tensor([[5, 22]]), (4, 6))] == [[[0, 3]], [[5, 4]]]
    assert fl.diagflat(fl.tensor([[1, 2]]), 1).tolist() == [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    assert fl.fill(fl.zeros(2), 3).tolist() == [3, 3]
    value = fl.tensor(2.0, requires_grad=True)
    fl.fill(fl.zeros(3), value).sum().backward()
    assert value.grad.item() == 3
    assert fl.is_same_size(fl.zeros(2), fl.ones(2)) and not fl.is_signed(fl.zeros(1, dtype=fl.uint8))
    with pytest.warns(UserWarning, match="use arange"):
        assert fl.range(1, 4).tolist() == [1, 2, 3, 4]
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="a step from start towards end"):
        fl.range(1, 4, -1)
    a, b, c = draw(3, 4), draw(3), draw(4)
    assert_near(fl.addr(fl.tensor(a), fl.tensor(b), fl.tensor(c), beta=2, alpha=3), 2 * a + 3 * np.outer(b, c))
    assert fl.addr(fl.full((3, 4), float("nan")), fl.ones(3), fl.ones(4), beta=0).isfinite().all()  # what counts nothing is not read
    m = fl.tensor(a)
    assert m.addmm_(fl.tensor(draw(3, 2)), fl.tensor(draw(2, 4))) is m
    assert_near(m, a + draw(3, 2) @ draw(2, 4))
    with pytest.raises(fl.DeviceError, match="expected a tensor on a GPU"):
        fl.zeros(1).record_stream(None)
    workers = fl.get_num_interop_threads()
    fl.set_num_interop_threads(3)
    assert fl.get_num_interop_threads() == 3
    fl.set_num_interop_threads(workers)
    with pytest.raises(ValueError, match="n = 0"):
        fl.set_num_interop_threads(0)


def test_tensordot_takes_out_by_position():
    a, b, out = fl.ones(2, 3), fl.ones(3, 4), fl.empty(2, 4)
    assert fl.tensordot(a, b, 1, out) is out and out.tolist() == [[3.0] * 4] * 2


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax"])
def test_index_reduce_in_place_has_the_gradient_of_its_source(reduce):
    def gradient(name):
        x, y = fl.tensor([1.5, 2.0, 3.0]), fl.tensor([5.0, 0.5], requires_grad=True)
        getattr(x, name)(0, fl.tensor([0, 2]), y, reduce).sum().backward()
        return y.grad.tolist()

    assert gradient("index_reduce_") == gradient("index_reduce")


def test_float_power_in_place_has_the_gradient_of_its_exponent():
    x, e = fl.tensor([1.5, 2.0], dtype=fl.float64), fl.tensor([2.0, 3.0], dtype=fl.float64, requires_grad=True)
    x.float_power_(e).sum().backward()
    np.testing.assert_allclose(e.grad.numpy(), [1.5**2 * np.log(1.5), 8 * np.log(2)])


def test_an_element_is_asserted():
    fl._assert_async(fl.tensor([[2.0]]), "unused")
    fl._assert_async(fl.tensor(0.0, device="meta"), "unknown")
    with pytest.raises(RuntimeError, match="counts are positive"):
        fl._assert_async(fl.tensor([1, 0]).min() > 0, "counts are positive")
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value, but got zero"):
        fl._assert_async(fl.tensor(False))
    with pytest.raises(RuntimeError):
        fl._assert_async(fl.ones(2))
    with pytest.raises(TypeError, match="input = True is a bool; expected a Tensor"):
        fl._assert_async(True)
    with pytest.raises(TypeError, match="assert_msg = 3 is a int; expected a str"):
        fl._assert_async(fl.tensor(True), 3)


def test_checks_as_functions():
    fl._check_with(ValueError, True, "never asked")
    fl._check_tensor_all(fl.ones(2, 3) > 0)
    fl._check_tensor_all_with(ValueError, fl.ones(0).bool())
    with pytest.raises(IndexError, match="^number 7$"):
        fl._check_index(False, lambda: "number 7")
    with pytest.raises(RuntimeError, match="^3$"):
        fl._check_tensor_all(fl.tensor([[True, False]]), lambda: 3)
    with pytest.raises(KeyError, match="Expected cond to be True, but got False"):
        fl._check_tensor_all_with(KeyError, fl.tensor([1, 0]) > 0)
    with pytest.raises(TypeError, match="cond is a Tensor; expected a bool; call _check_tensor_all"):
        fl._check(fl.tensor(True))
    with pytest.raises(TypeError, match="cond is a int; expected a bool"):
        fl._check_value(1)
    with pytest.raises(TypeError, match="cond is a bool; expected a tensor of bools"):
        fl._check_tensor_all_with(ValueError, True)
    with pytest.raises(TypeError, match="cond has dtype .*float32; expected a tensor of bools"):
        fl._check_tensor_all(fl.ones(2))
    with pytest.raises(TypeError, match="message = 'wrong' is a str; expected a callable"):
        fl._check(False, "wrong")
    with pytest.raises(AssertionError, match="expected a class of errors"):
        fl._check_with(UserWarning, False)


def test_integrals_of_nothing_keep_the_type():
    for y in (fl.ones(0, dtype=fl.int64), fl.ones(3, 0, dtype=fl.int64), fl.ones(0)):
        assert fl.trapz(y).dtype is y.dtype and fl.trapz(y).tolist() == fl.zeros(y.shape[:-1]).tolist()
    assert fl.trapz(fl.ones(1, dtype=fl.int64)).dtype is fl.float32


def test_a_window_of_one_element_may_lie_away_from_its_center():
    exponential = fl.signal.windows.exponential
    assert_near(exponential(1, center=1.0, sym=False), np.exp([-1.0]))
    assert_near(exponential(1, center=1.0, tau=2.0, sym=False), np.exp([-0.5]))
    assert exponential(1).tolist() == exponential(1, sym=False).tolist() == [1]


def test_methods_that_split_take_places_one_by_one():
    x = fl.arange(12).view(2, 6)
    assert [part.tolist() for part in x.hsplit(2, 3)] == [part.tolist() for part in x.hsplit([2, 3])] == [
        [[0, 1], [6, 7]], [[2], [8]], [[3, 4, 5], [9, 10, 11]],
    ]
    assert [part.shape[1] for part in x.hsplit(2)] == [part.shape[1] for part in x.hsplit(sections=2)] == [3, 3]
    with pytest.raises(TypeError):
        fl.hsplit(x, 2, 3)


def test_questions_about_tensors():
    with fl.inference_mode():
        x = fl.ones(2)
    assert fl.is_inference(x) and not fl.is_inference(fl.ones(2)) and not fl.is_distributed(x) and x.name is None
    assert fl._is_all_true(fl.tensor([True, False])).tolist() is False and fl.tensor([True, False])._is_any_true().tolist() is True
    with pytest.raises(fl.DTypeError, match="expected bool"):
        fl._is_all_true(fl.ones(2))
    w = fl.ones(2, dtype=fl.float64, requires_grad=True)
    w.grad_dtype = fl.float64
    assert w.grad_dtype is fl.float64
    with pytest.raises(fl.DTypeError, match="convert `grad` after backward"):
        w.grad_dtype = fl.float32
    with pytest.raises(RuntimeError, match="only leaves"):
        (w * 2).grad_dtype  # noqa: B018
    assert fl.ones(2, dtype=fl.float64).new(size=(2, 3)).shape == (2, 3)
    with pytest.raises(TypeError, match="expected a tuple of ints"):
        fl.ones(2).new(size=2)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_movedim_is_numpys(count):
    x = fl.arange(24).reshape(2, 3, 4)
    for source in itertools.permutations(range(-3, 0), count):
        for destination in itertools.permutations(range(3), count):
            want = np.moveaxis(x.numpy(), source, destination)
            np.testing.assert_array_equal(fl.movedim(x, source, destination).numpy(), want)
            if count == 1:
                np.testing.assert_array_equal(fl.movedim(x, *source, *destination).numpy(), want)
    assert fl.movedim(fl.tensor(1), 0, -1).shape == ()
    with pytest.raises(IndexError, match="movedim: destination = 3, but the tensor has shape"):
        fl.movedim(x, 0, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: fl.movedim(x, 5, 0), lambda x: fl.rot90(x, 1, (0, 5)), lambda x: fl.tensor_split(x, 2, 5), lambda x: fl.quantile(x, 0.5, 5),
        lambda x: fl.tensordot(x, x, ([5], [0])), lambda x: fl.trapezoid(x, dim=5), lambda x: fl.gradient(x, dim=5),
        lambda x: fl.slice_copy(x, 5), lambda x: fl.fft.fft(x, dim=5),
    ],
)  # fmt: skip
def test_axes_that_are_not_there(call):
    with pytest.raises(IndexError, match=r"has shape \[2, 3\]: Dimension out of range \(expected to be in range of \[-2, 1\], but got 5\)"):
        call(fl.ones(2, 3))
    with pytest.raises(IndexError, match="y has shape .*; expected one with an axis"):
        fl.trapezoid(fl.tensor(1.0))


def test_shapes_that_can_not_be_broadcast():
    with pytest.raises(fl.ShapeError, match="Shape mismatch: objects cannot be broadcast to a single shape"):
        fl.broadcast_shapes((2,), (3,))
    for shapes in (((-1,),), (-2, (1,)), ((1, -12), (1,))):
        with pytest.raises(ValueError, match="broadcast_shapes: shapes .* have a size below 0"):
            fl.broadcast_shapes(*shapes)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_diagonals_are_made_where_their_elements_are(device):
    r = fl.ones(2, 3, device=device)
    for made, shape in [
        (fl.diag_embed(r), (2, 3, 3)), (fl.diag_embed(r, 1, 0, 2), (4, 2, 4)), (fl.diag(r[0], -1), (4, 4)), (r.diagflat(), (6, 6)),
        (fl.block_diag(r, r[0]), (3, 6)),
    ]:  # fmt: skip
        assert made.shape == shape and made.device.type == device


def test_a_matrix_of_a_diagonal_is_no_view():
    x = fl.ones(3, requires_grad=True)
    assert not fl.diag_embed(x)._is_view() and fl.diag(x)._is_view() is False
    (fl.diag(x) * fl.arange(9.0).reshape(3, 3)).sum().backward()
    assert x.grad.tolist() == [0.0, 4.0, 8.0]


@pytest.mark.parametrize("sections", [1, 3, 8, 11, (2, 5), (0, 0), (5, 2), (-3, 100), (3, -2), ()])
def test_tensor_split_is_numpys(sections):
    x = fl.arange(16).reshape(8, 2)
    got, want = fl.tensor_split(x, sections), np.array_split(x.numpy(), sections)
    assert [part.tolist() for part in got] == [part.tolist() for part in want]


@pytest.mark.parametrize("sizes", [(3, 4), (3, 4, 5), (2, 5, 3, 4), (None, 3, 4), (3, 4, None), (None, 3, None), (None, 3, 5, None)])
def test_multi_dot_is_numpys(sizes):
    known = [n or 1 for n in sizes]
    arrays = [draw(m, n, seed=k) for k, (m, n) in enumerate(itertools.pairwise(known))]
    if len(arrays) < 2:
        arrays.append(draw(known[-1], 2))
    arrays[0] = arrays[0][0] if sizes[0] is None else arrays[0]
    arrays[-1] = arrays[-1][:, 0] if sizes[-1] is None else arrays[-1]
    assert_near(fl.linalg.multi_dot([fl.tensor(a) for a in arrays]), np.linalg.multi_dot(arrays))
