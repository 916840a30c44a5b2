"""Functions of no larger family, and what holds for all: names, warnings."""

import pickle

import numpy as np
import pytest
from support.compare import assert_near
from support.tensors import doubles

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F


def test_normalize():
    x = np.random.default_rng(0).normal(size=(4, 5))
    assert_near(F.normalize(doubles(x)), x / np.linalg.norm(x, axis=1, keepdims=True))


def test_embedding_options():
    weight = fl.tensor([[3.0, 4.0], [0.3, 0.4], [1.0, 0.0]], requires_grad=True)
    index = fl.tensor([1, 1, 2])
    F.embedding(index, weight, padding_idx=2).sum().backward()
    assert weight.grad.tolist() == [[0, 0], [2, 2], [0, 0]]
    weight.grad = None
    F.embedding(index, weight, scale_grad_by_freq=True).sum().backward()
    assert weight.grad.tolist() == [[0, 0], [1, 1], [1, 1]]
    table = fl.tensor([[3.0, 4.0], [0.3, 0.4]])
    F.embedding(fl.tensor([0]), table, max_norm=1.0)
    np.testing.assert_allclose(table.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-5)
    with pytest.raises(ValueError, match="padding_idx = 5"):
        F.embedding(index, table, padding_idx=5)


def test_second_gradients_of_embeddings_by_frequency_are_not_divided_again():
    weight = fl.arange(6.0, dtype=fl.float64).reshape(3, 2)
    index = fl.tensor([[0, 1, 1], [2, 2, 2]])

    def loss(w):
        return F.embedding(index, w, padding_idx=1, scale_grad_by_freq=True).sin().sum()

    used = fl.tensor([[1.0], [0.0], [1.0]])
    leaf = weight.clone().requires_grad_()
    (slope,) = fl.autograd.grad(loss(leaf), leaf, create_graph=True)
    assert_near(slope, weight.cos() * used)
    (second,) = fl.autograd.grad(slope.sum(), leaf)
    assert_near(second, -weight.sin() * used)
    both = fl.stack([weight, 2 * weight])
    assert_near(fl.func.vmap(fl.func.grad(loss))(both), both.cos() * used)
    assert_near(fl.func.hessian(loss)(weight).sum((2, 3)), -weight.sin() * used)


@pytest.mark.parametrize("name", ["relu", "silu", "conv2d", "mse_loss", "scaled_dot_product_attention"])
def test_a_function_is_pickled_by_its_public_name(name):
    """Not by the file that it happens to be in: a model that holds F.relu can be read by any version."""
    function = getattr(F, name)
    pickled = pickle.dumps(function, protocol=0)
    assert pickled.startswith(f"cflambeau.nn.functional\n{name}\n".encode())
    assert pickle.loads(pickled) is function


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.softmax(fl.ones(2, 3)),
        lambda: nn.Softmax()(fl.ones(2, 3)),
        lambda: F.kl_div(fl.zeros(3), fl.ones(3)),
        lambda: nn.KLDivLoss()(fl.zeros(3), fl.ones(3)),
        lambda: F.dropout2d(fl.ones(2, 3)),
        lambda: nn.Sequential(nn.Dropout2d())(fl.ones(2, 3)),
        lambda: nn.LSTM(2, 3, dropout=0.5),
        lambda: fl.autocast("cuda"),
        lambda: F.upsample_nearest(fl.ones(1, 1, 2, 2), 3),
        lambda: F.upsample_bilinear(fl.ones(1, 1, 2, 2), 3),
        lambda: nn.Transformer(4, 2, 1, 1, 4),
        lambda: fl.optim.lr_scheduler.StepLR(fl.optim.SGD([fl.ones(1, requires_grad=True)], 0.1), 1).step(),
    ],
    ids=["function", "layer", "kl_div", "KLDivLoss", "dropout2d", "nested layer", "constructor", "autocast", "nearest", "bilinear", "Transformer", "schedule"],
)
def test_a_warning_names_the_line_that_called(call):
    with pytest.warns(UserWarning) as record:
        call()
    assert record[0].filename == __file__
    assert record[0].lineno == call.__code__.co_firstlineno


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_one_hot_refuses_what_is_no_class(dtype):
    i = fl.tensor([[0, 3], [1, 2]], dtype=getattr(fl, dtype))
    np.testing.assert_array_equal(F.one_hot(i, 4).numpy(), np.eye(4, dtype=np.int64)[i.numpy()])
    np.testing.assert_array_equal(F.one_hot(i.T).numpy(), np.eye(4, dtype=np.int64)[i.numpy().T])
    with pytest.raises(IndexError, match=r"has the value 3 at element \[0, 1\]; expected 0 <= index < 3"):
        F.one_hot(i, 3)
    with pytest.raises(IndexError, match=r"has the value 3 at element \[1, 0\]; expected 0 <= index < 3"):
        F.one_hot(i.T, 3)
    if dtype != "uint8":
        with pytest.raises(IndexError, match="has the value -1"):
            F.one_hot(i - 1, 4)


def _convolved(n):
    """Of a convolution over n axes: its operands, its options, and the gradient of its result."""
    rng = np.random.default_rng(n)
    x, weight = (doubles(rng.normal(size=size)) for size in ((2, 4, *[6] * n), (6, 2, *[3] * n)))
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
    return x, weight, options, fl.ones_like(getattr(F, f"conv{n}d")(x, weight, **options))


@pytest.mark.parametrize("made_inside", [False, True], ids=["operands from outside", "operands from inside"])
@pytest.mark.parametrize("called_inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions_and_inference_mode(n, called_inside, made_inside):
    of_input, of_weight = (getattr(nn.grad, f"conv{n}d_{name}") for name in ("input", "weight"))
    x, weight, options, dy = _convolved(n)
    want = of_input(x.shape, weight, dy, **options), of_weight(x, weight.shape, dy, **options)
    if made_inside:
        with fl.inference_mode():
            x, weight, dy = x.clone(), weight.clone(), dy.clone()
    with fl.inference_mode(called_inside):
        got = of_input(x.shape, weight, dy, **options), of_weight(x, weight.shape, dy, **options)
        assert fl.is_inference_mode_enabled() == called_inside
    for a, b in zip(got, want, strict=True):
        assert a.equal(b) and not a.requires_grad


def test_gradients_of_convolutions_are_differentiable_outside_of_inference_mode():
    x, weight, options, dy = _convolved(2)
    weight.requires_grad_()
    with fl.inference_mode():
        dy = dy.clone()
        assert not nn.grad.conv2d_input(x.shape, weight, dy, **options).requires_grad
    nn.grad.conv2d_input(x.shape, weight, dy, **options).sum().backward()
    assert_near(weight.grad, nn.grad.conv2d_weight(fl.ones_like(x), weight.shape, dy, **options))


def test_softmax_takes_its_type_by_name_or_fourth():
    x = doubles(np.random.default_rng(0).normal(size=(3, 4))).float()
    for f in (F.softmax, F.log_softmax, F.softmin):
        assert f(x, 1, 5).dtype == fl.float32
        assert f(x, 1, 3, fl.float64).dtype == f(x, 1, dtype=fl.float64).dtype == fl.float64
        with pytest.warns(UserWarning, match=f"{f.__name__}: _stacklevel = flambeau.float64 has no effect; pass dtype="):
            assert f(x, 1, fl.float64).dtype == fl.float32


def test_gumbel_softmax_takes_eps_before_dim():
    x = fl.zeros(3, 4)
    assert_near(F.gumbel_softmax(x, 1, False, 1e-10, 0).sum(0), np.ones(4))
    assert_near(F.gumbel_softmax(x, dim=0).sum(0), np.ones(4))
    with pytest.warns(UserWarning, match="gumbel_softmax: eps = 0 is deprecated and has no effect"):
        assert_near(F.gumbel_softmax(x, 1.0, True, 0).sum(1), np.ones(3))
    draws = [fl.manual_seed(3) and F.gumbel_softmax(x) for _ in range(2)]
    assert fl.equal(*draws)


def test_normalize_takes_out_by_position():
    x, out = fl.tensor([[3.0, 4.0]]), fl.empty(1, 2)
    assert F.normalize(x, 2.0, 1, 1e-12, out) is out
    assert_near(out, [[0.6, 0.8]])


@pytest.mark.parametrize("shapes", [((6, 2), (3, 2, 4)), ((3, 4, 2), (2, 6)), ((4, 6), (6, 2))], ids=str)
def test_products_by_groups_write_gradients_once(shapes):
    """A group without rows, rows behind the last group; no gradient of an operand is written a group at a time."""
    offs, ends = fl.tensor([2, 2, 5], dtype=fl.int32), [0, 2, 2, 5]
    a, b = (np.sin(np.arange(np.prod(s)) + k).reshape(s).astype(np.float32) for k, s in enumerate(shapes))
    x, w = fl.tensor(a, requires_grad=True), fl.tensor(b, requires_grad=True)
    y = fl.nn.functional.grouped_mm(x, w, offs=offs)
    want, da, db = np.zeros(y.shape, np.float32), np.zeros_like(a), np.zeros_like(b)
    g = np.cos(np.arange(y.numel())).reshape(y.shape).astype(np.float32)
    for k, part in enumerate(slice(i, j) for i, j in zip(ends, ends[1:], strict=False)):
        ia = k if a.ndim == 3 else part if b.ndim == 3 else (slice(None), part)
        ib = k if b.ndim == 3 else (slice(None), part) if a.ndim == 3 else part
        iy = (part if b.ndim == 3 else (slice(None), part)) if 3 in (a.ndim, b.ndim) else k
        want[iy] = a[ia] @ b[ib]
        da[ia], db[ib] = g[iy] @ b[ib].T, a[ia].T @ g[iy]
    y.backward(fl.tensor(g))
    for ours, theirs in ((y.detach(), want), (x.grad, da), (w.grad, db)):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-6)
    nodes, seen = [y.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            nodes += [n for n, _ in node.next_functions]
    assert not [n.name() for n in seen if "Select" in n.name() or "Slice" in n.name()]


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16, fl.float32], ids=str)
def test_rms_norm_without_eps_takes_that_of_what_it_computes_in(dtype):
    x = fl.full((1, 4), 1e-3)
    got = fl.nn.RMSNorm(4, dtype=dtype)(x.to(dtype))
    assert got.dtype is dtype and abs(got[0, 0].item() - 0.94524) < 2e-3
