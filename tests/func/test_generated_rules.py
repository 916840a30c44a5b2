"""`generate_vmap_rule = True`: the parts of a custom function, written for a sample, are called once for a batch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flambeau as fl
from flambeau.func import grad, jacrev, jvp, vmap

calls = []


class Waves(fl.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w, factor):
        calls.append("forward")
        return x.sin() * w * factor, x.cos().sum(), x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, ctx.factor = inputs
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, dy, dz, _):
        calls.append("backward")
        x, w = ctx.saved_tensors
        dx = None if dy is None else dy * x.cos() * w * ctx.factor
        if dz is not None:
            dx = (0 if dx is None else dx) - dz * x.sin()
        return dx, None if dy is None else dy * x.sin() * ctx.factor, None

    @staticmethod
    def jvp(ctx, tx, tw, _):
        x, w = ctx.saved_tensors
        ty = tx * x.cos() * w * ctx.factor
        return ty if tw is None else ty + tw * x.sin() * ctx.factor, -(x.sin() * tx).sum(), None


class Written(fl.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(*inputs)


def waves(x, w):
    return Waves.apply(x, w, 2.0)


def loss(x, w):
    y, z, _ = waves(x, w)
    return y.exp().sum() + z**2


def numbers(*shape):
    return fl.tensor(np.random.default_rng(len(shape)).standard_normal(shape))


def leaves(value):
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, (tuple, list)) else [value]


@pytest.fixture(autouse=True)
def no_loops():
    calls.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


FUNCTIONS = {
    "forward": waves,
    "gradients": grad(loss, argnums=(0, 1)),
    "of one output": grad(lambda x, w: waves(x, w)[1]),
    "second": grad(lambda x, w: grad(loss)(x, w).sin().sum()),
    "jacobian": jacrev(lambda x, w: waves(x, w)[0]),
    "tangents": lambda x, w: jvp(lambda x: waves(x, w)[:2], (x,), (x.cos(),)),
}


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_samples_at_once(name, in_dims):
    f = FUNCTIONS[name]
    args = [numbers(3, 4) if d == 0 else numbers(4) for d in in_dims]
    found = leaves(vmap(f, in_dims=in_dims)(*args))
    assert calls.count("forward") <= 2  # jvp of a batch calls it for the context, too
    for i in range(3):
        expected = leaves(f(*(a[i] if d == 0 else a for a, d in zip(args, in_dims, strict=True))))
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got[i].numpy(), wanted.numpy(), rtol=1e-10, atol=1e-12)


def test_backward_of_a_batch_sums_over_what_samples_share():
    x, w = numbers(3, 4).requires_grad_(), numbers(4).requires_grad_()
    vmap(loss, in_dims=(0, None))(x, w).sum().backward()
    assert calls == ["forward", "backward"]
    got = x.grad.clone(), w.grad.clone()
    x.grad = w.grad = None
    sum(loss(row, w) for row in x).backward()
    for g, wanted in zip(got, (x.grad, w.grad), strict=True):
        np.testing.assert_allclose(g.numpy(), wanted.numpy(), rtol=1e-10)


def test_batches_of_batches():
    x = numbers(2, 3, 4)
    found = vmap(vmap(lambda a: grad(loss)(a, a)))(x)
    np.testing.assert_allclose(found[1, 2].numpy(), grad(loss)(x[1, 2], x[1, 2]).numpy(), rtol=1e-10)


def test_writing_to_an_input_is_refused():
    with pytest.raises(fl.AutogradError, match="Written: mark_dirty beside generate_vmap_rule = True"):
        vmap(Written.apply)(numbers(3, 2))


class Product(fl.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, dz):
        x, y = ctx.saved_tensors
        return dz * y, dz * x


@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0), (-1, 0)])
def test_gradients_of_broadcast_arguments_are_summed_in_each_sample(in_dims):
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 4)), rng.normal(size=(2, 3, 4))
    given = [fl.tensor(a if d == 0 else a[0] if d is None else np.moveaxis(a, 0, -1)) for a, d in zip((x, y), in_dims)]
    got = vmap(grad(lambda x, y: Product.apply(x, y).square().sum(), argnums=(0, 1)), in_dims=in_dims)(*given)
    x, y = (np.broadcast_to(a[:1] if d is None else a, a.shape) for a, d in zip((x, y), in_dims))
    np.testing.assert_allclose(got[0].numpy(), (2 * x[:, None] * y**2).sum(1))
    np.testing.assert_allclose(got[1].numpy(), 2 * x[:, None] ** 2 * y)


class Doubled(fl.autograd.Function):
    """Saves its argument, and what is neither argument nor result."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return (x * w).sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, (inputs[0] * inputs[1]).cos())

    @staticmethod
    def backward(ctx, dy):
        x, w, slope = ctx.saved_tensors
        return dy * slope * w, dy * slope * x


def test_results_that_backward_does_not_read_may_be_written():
    a, w = numbers(3, 2).requires_grad_(), numbers(2).requires_grad_()
    y = vmap(Doubled.apply, in_dims=(0, None))(a, w)
    y.mul_(2)
    y.sum().backward()
    expected = 2 * (a * w).cos() * w, (2 * (a * w).cos() * a).sum(0)
    fl.testing.assert_close((a.grad, w.grad), expected)


def test_what_is_saved_is_what_the_function_saves():
    kept = []
    with fl.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.shape) or x, lambda x: x):
        vmap(Doubled.apply, in_dims=(0, None))(numbers(3, 2).requires_grad_(), numbers(2))
    assert sorted(kept) == [(2,), (3, 2), (3, 2)]  # w, x, and the cosine; not the result


def test_what_is_neither_argument_nor_result_inside_of_several():
    a, w = numbers(3, 2), numbers(2)
    found = vmap(lambda w: grad(lambda a: vmap(Doubled.apply, in_dims=(0, None))(a, w).sum())(a))(fl.stack([w, 2 * w]))
    fl.testing.assert_close(found, fl.stack([(a * v).cos() * v for v in (w, 2 * w)]))
