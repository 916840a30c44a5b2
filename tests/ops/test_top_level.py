"""Functions of the top level whose arguments stand in another order than those of `nn.functional`, and forms of older programs."""

import numpy as np
import pytest

import flambeau as fl
from flambeau.nn import functional as F

X = fl.tensor([[0.0, 1.0], [2.0, 3.0]])
W, B, M, V = fl.tensor([2.0, 3.0]), fl.tensor([0.5, 0.25]), fl.tensor([0.5, 1.0]), fl.tensor([1.0, 4.0])


def test_batch_norm_has_the_weights_first():
    assert fl.batch_norm(X, W, B, M, V, False, 0.1, 1e-5, True).equal(F.batch_norm(X, M, V, W, B))
    mean = M.clone()
    fl.batch_norm(X, W, B, mean, V.clone(), True, 0.5, 1e-5)
    assert mean.tolist() == [0.75, 1.5]  # and not the weight, which was written to when the order was the functional's
    assert W.tolist() == [2.0, 3.0]


def test_instance_norm_has_the_weights_first():
    x = X[None]
    assert fl.instance_norm(x, W, B, M, V, False, 0.1, 1e-5, True).equal(F.instance_norm(x, M, V, W, B, False))
    assert fl.instance_norm(x, W, B, None, None, True, 0.1, 1e-5).equal(F.instance_norm(x, weight=W, bias=B))


def test_a_last_argument_for_another_library_is_taken_by_position():
    assert fl.layer_norm(X, [2], W, B, 1e-5, True).equal(F.layer_norm(X, [2], W, B))
    assert fl.group_norm(X, 1, W, B, 1e-5, False).equal(F.group_norm(X, 1, W, B))
    with pytest.raises(TypeError, match="at most 5"):
        fl.layer_norm(X, [2], W, B, 1e-5, 1.0)
    with pytest.raises(TypeError, match="at most 2"):
        fl.add(X, X, True, True)


def test_embeddings_have_the_table_first():
    table = fl.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 0.0]])
    at = fl.tensor([2, 0, 1])
    assert fl.embedding(table, at, -1, False, False).equal(table[at])
    for mode, name in enumerate(("sum", "mean", "max")):
        y, bag, sizes, where = fl.embedding_bag(table, at, fl.tensor([0, 2, 2]), mode=mode)
        assert y.equal(F.embedding_bag(at, table, fl.tensor([0, 2, 2]), mode=name))
        assert (bag.tolist(), sizes.tolist()) == ([0, 0, 2], [2, 0, 1])
    assert where.tolist() == [[2, 0], [-1, -1], [1, 1]]  # rows of the maxima: 5 of 2, 2 of 0
    with pytest.raises(ValueError, match="mode = 3; expected 0"):
        fl.embedding_bag(table, at, fl.tensor([0]), mode=3)
    with pytest.raises(ValueError, match="mode = 0.0; expected 0"):
        fl.embedding_bag(table, at, fl.tensor([0]), mode=0.0)


def test_cells():
    for kind, function in ((fl.nn.LSTMCell, fl.lstm_cell), (fl.nn.GRUCell, fl.gru_cell), (fl.nn.RNNCell, fl.rnn_tanh_cell)):
        cell = kind(3, 2)
        x, h = fl.randn(4, 3), fl.randn(4, 2)
        state = (h, fl.randn(4, 2)) if kind is fl.nn.LSTMCell else h
        want, got = cell(x, state), function(x, state, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
        for a, b in zip(*[(y if isinstance(y, tuple) else (y,)) for y in (want, got)], strict=True):
            assert fl.allclose(a, b)
    cell = fl.nn.RNNCell(3, 2, nonlinearity="relu")
    assert fl.allclose(cell(x, h), fl.rnn_relu_cell(x, h, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh))


def test_without_a_batch():
    x, w = fl.randn(2, 5), fl.randn(3, 2, 2)
    assert fl.conv1d(x, w).equal(F.conv1d(x[None], w)[0])
    assert fl.conv2d(x[:, None], w[:, :, None]).shape == (3, 1, 4)
    assert fl.avg_pool1d(x, 2).shape == fl.max_pool1d(x, 2).shape == fl.adaptive_avg_pool1d(x, 2).shape == (2, 2)
    assert fl.max_pool2d(x[:, None].expand(2, 4, 5), 2).shape == (2, 2, 2)


def test_losses_are_not_reduced_unless_it_is_said():
    y = X.softmax(1)
    assert fl.allclose(fl.kl_div(X, y), F.kl_div(X, y, reduction="none"))
    assert fl.binary_cross_entropy_with_logits(X, y).equal(F.binary_cross_entropy_with_logits(X, y, reduction="none"))
    assert fl.allclose(fl.kl_div(X, y, 2), F.kl_div(X, y, reduction="sum"))


@pytest.mark.parametrize(
    "call, want",
    [
        (lambda x, y: fl.add(x, 2.0, y), lambda x, y: x + 2 * y),
        (lambda x, y: x.sub(2, y), lambda x, y: x - 2 * y),
        (lambda x, y: x.clone().add_(2.0, y), lambda x, y: x + 2 * y),
        (lambda x, y: x.clone().add_(fl.tensor(2.0), y), lambda x, y: x + 2 * y),
        (lambda x, y: x.addcmul(0.5, x, y), lambda x, y: x + 0.5 * x * y),
        (lambda x, y: x.clone().addcdiv_(0.5, x, y), lambda x, y: x + 0.5 * x / y),
        (lambda x, y: fl.addmm(2.0, x, 0.5, x, y), lambda x, y: 2 * x + 0.5 * (x @ y)),
        (lambda x, y: fl.addmm(2.0, x, x, y), lambda x, y: 2 * x + x @ y),
        (lambda x, y: x.addmm(2.0, 0.5, x, y), lambda x, y: 2 * x + 0.5 * (x @ y)),
        (lambda x, y: x.clone().addmm_(2.0, x, y), lambda x, y: 2 * x + x @ y),
        (lambda x, y: x[0].addmv(2.0, 0.5, x, y[0]), lambda x, y: 2 * x[0] + 0.5 * (x @ y[0])),
        (lambda x, y: fl.addr(2.0, x, 0.5, x[0], y[0]), lambda x, y: 2 * x + 0.5 * fl.outer(x[0], y[0])),
        (lambda x, y: x.addbmm(2.0, x[None], y[None]), lambda x, y: 2 * x + x @ y),
        (lambda x, y: fl.baddbmm(2.0, x[None], 0.5, x[None], y[None]), lambda x, y: (2 * x + 0.5 * (x @ y))[None]),
    ],
)
def test_numbers_in_front_of_the_tensors(call, want):
    x, y = X.clone(), X + 1
    with pytest.warns(UserWarning, match="numbers in front of the tensors are an older form"):
        got = call(x, y)
    assert fl.allclose(got, want(x, y))
    x.requires_grad_()
    with pytest.warns(UserWarning):
        call(x, y).sum().backward()
    gradient, x.grad = x.grad, None
    want(x, y).sum().backward()
    assert fl.allclose(gradient, x.grad)


@pytest.mark.parametrize(
    "call",
    [lambda x: fl.add(x, x, 2.0), lambda x: fl.add(2.0, x, x), lambda x: fl.addmm(x, 2.0, x, x), lambda x: fl.mul(x, 2.0, x),
     lambda x: fl.add(x, 2.0, x, alpha=1), lambda x: fl.addmm(2.0, x, x, 0.5, x), lambda x: fl.add(x, "2", x)],
)  # fmt: skip
def test_numbers_elsewhere_are_refused(call):
    with pytest.raises(TypeError, match="takes at most|no form of it"):
        call(X)


def test_a_warning_that_is_an_error():
    x = X.clone()
    with pytest.warns(UserWarning), pytest.raises(UserWarning, match="older form"):  # noqa: PT031
        import warnings

        warnings.warn("seen", UserWarning, stacklevel=1)
        warnings.simplefilter("error")
        x.add_(2.0, X)
    assert x.equal(X)


def test_copy_of_a_number_and_bernoulli_of_probabilities():
    assert fl.zeros(2).copy_(3).tolist() == [3, 3] and fl.zeros(2, dtype=fl.int64).copy_(True).tolist() == [1, 1]
    x = fl.zeros(2, 3, dtype=fl.int64)
    assert x.bernoulli_(fl.tensor([1.0, 0.0, 1.0])) is not None and x.tolist() == [[1, 0, 1]] * 2
    fl.manual_seed(0)
    y = fl.bernoulli(fl.full((1000,), 9.0), 0.25)
    assert 180 < y.sum().item() < 320 and set(y.tolist()) == {0.0, 1.0}
    assert fl.bernoulli(fl.ones(3), 1.0).tolist() == [1, 1, 1] and fl.ones(2).bernoulli(0.0).tolist() == [0, 0]
    with pytest.raises(ValueError, match="p = 1.5"):
        fl.bernoulli(y, 1.5)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint64", "int16", "int64", "float16", "float32", "complex64"])
@pytest.mark.parametrize("count", [0, 3, 40])
@pytest.mark.parametrize("shape", [(5, 7), (40, 50)])
def test_isin(dtype, count, shape):
    rng = np.random.default_rng(count)
    kind = "f4" if dtype == "float16" else dtype
    a, b = rng.integers(0, 60, shape).astype(kind), rng.integers(0, 60, count).astype(kind)
    if dtype in ("float16", "float32"):
        a[0, 0] = np.nan
        b[:1] = np.nan
        a[1, 1] = -0.0
        b[1:2] = 0.0
    if dtype == "uint64":
        a[0], b[:1] = 2**64 - 1, 2**64 - 1
    x, y = (fl.tensor(v).to(getattr(fl, dtype)) for v in (a, b))
    np.testing.assert_array_equal(fl.isin(x, y).numpy(), np.isin(a, b))
    np.testing.assert_array_equal(fl.isin(x, y, invert=True).numpy(), ~np.isin(a, b))


def test_isin_of_numbers_and_of_many():
    assert fl.isin(X, 2.0).tolist() == [[False, False], [True, False]]
    assert fl.isin(2, X).item() is True and fl.isin(9, X).item() is False
    many = fl.arange(200_000)  # as many comparisons as pairs would be 40 GB
    assert fl.isin(many, many.flip(0) + 100_000).sum().item() == 100_000
    assert fl.isin(fl.tensor([1.5, 2.0]), fl.arange(30)).tolist() == [False, True]
    for size in (4, 4000):  # compared in the type of both, however many there are
        assert fl.isin(fl.full((size,), 0.1), fl.tensor([0.1, 0.2], dtype=fl.float64)).sum().item() == 0


def test_old_names_of_tensor_types():
    assert fl.LongTensor([1, 2]).dtype is fl.int64 and fl.FloatTensor(2, 3).shape == (2, 3) and fl.ByteTensor().shape == (0,)
    assert isinstance(fl.ones(1), fl.FloatTensor) and not isinstance(fl.ones(1), fl.DoubleTensor)
    assert not fl.FloatTensor.is_cuda and not fl.LongTensor.is_sparse
    assert fl.typename(fl.ones(1)) == "flambeau.FloatTensor" and fl.typename(3) == "int"
    try:
        for kind in (fl.DoubleTensor, "flambeau.DoubleTensor", "torch.DoubleTensor"):
            fl.set_default_tensor_type(fl.FloatTensor)
            fl.set_default_tensor_type(kind)
            assert fl.zeros(1).dtype is fl.float64
    finally:
        fl.set_default_tensor_type(fl.FloatTensor)
    for wrong in (fl.LongTensor, "flambeau.cuda.FloatTensor", 3, fl.float32):
        with pytest.raises(TypeError, match="expected FloatTensor"):
            fl.set_default_tensor_type(wrong)


def test_type_takes_the_class_of_tensors_for_the_default_type():
    x = fl.tensor([True, False])
    assert x.type(fl.Tensor).dtype is fl.float32 and x.type("flambeau.Tensor").tolist() == [1.0, 0.0]
    fl.set_default_dtype(fl.float64)
    try:
        assert x.type(fl.Tensor).type() == "flambeau.DoubleTensor"
    finally:
        fl.set_default_dtype(fl.float32)
    with pytest.raises(ValueError, match="dtype = Parameter"):
        x.type(fl.nn.Parameter)


@pytest.mark.parametrize("kind", [np.float64, fl.nn.Linear, fl.nn.Parameter, "float"], ids=["numpy", "layer", "parameter", "text"])
def test_type_refuses_what_is_no_type_of_tensors(kind):
    with pytest.raises(ValueError, match=f"type: dtype = '?{getattr(kind, '__name__', kind)}'?; expected a dtype"):
        fl.ones(2).type(kind)


@pytest.mark.parametrize("method", ["float", "double", "half", "bfloat16", "int", "long", "bool", "cfloat"])
def test_casts_take_a_memory_format_alone(method):
    x = fl.ones(1, 2, 3, 4)
    assert getattr(x, method)(memory_format=fl.channels_last).dtype is getattr(x, method)().dtype
    for args, kwargs in (((3,), {}), ((fl.float16,), {}), ((), {"non_blocking": True}), ((), {"memory_format": 3})):
        with pytest.raises(TypeError, match=f"{method}: .*expected"):
            getattr(x, method)(*args, **kwargs)


@pytest.mark.parametrize("kind", [3, np.dtype("float32"), fl.device("cpu"), fl.zeros(1).double()], ids=["number", "numpy", "device", "tensor"])
def test_type_refuses_what_only_to_takes(kind):
    with pytest.raises(TypeError, match="type: dtype must be a type, str, or dtype object; got a "):
        fl.ones(2).type(kind)


def test_convolution_of_any_axes():
    for axes, name in enumerate(("conv1d", "conv2d", "conv3d"), 1):
        x, w, b = fl.randn(1, 2, *[5] * axes), fl.randn(4, 1, *[3] * axes), fl.randn(4)
        ones = [1] * axes
        want = getattr(fl.nn.functional, name)(x, w, b, stride=2, padding=1, dilation=1, groups=2)
        assert fl.equal(fl.convolution(x, w, b, [2] * axes, ones, ones, False, [0] * axes, 2), want)
        w = fl.randn(2, 3, *[3] * axes)
        want = getattr(fl.nn.functional, name.replace("conv", "conv_transpose"))(x, w, None, stride=2, padding=1, output_padding=1)
        assert fl.equal(fl.convolution(x, w, None, [2] * axes, ones, ones, True, ones, 1), want)
    with pytest.raises(ValueError, match="expected 3, 4 or 5 axes"):
        fl.convolution(x, fl.ones(2, 2), None, [1], [0], [1], False, [0], 1)


def test_older_names_of_products_with_sparse_matrices():
    a, b = fl.eye(3).to_sparse(), fl.randn(3, 2)
    assert fl.equal(fl.dsmm(a, b), b) and fl.equal(fl.spmm(a, b), b) and fl.equal(fl.dsmm(fl.eye(3), b), b)
