"""`cdist` and `pdist` without a matrix product: values, gradients of both orders, and what they refuse."""

import warnings

import numpy as np
import pytest

import flambeau as fl

F = fl.nn.functional
DIRECT = "donot_use_mm_for_euclid_dist"


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def distances(a, b, p):
    d = np.abs(a[..., :, None, :] - b[..., None, :, :])
    return d.max(-1) if p == np.inf else (d != 0).sum(-1).astype(float) if p == 0 else (d**p).sum(-1) ** (1 / p)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("shapes", [((3, 4), (5, 4)), ((2, 3, 40), (2, 1, 40)), ((2, 1, 3, 4), (3, 2, 4)), ((1, 1), (1, 1)), ((0, 4), (5, 4)), ((3, 4), (0, 4))], ids=str)
def test_values(shapes, p):
    a, b = (draw(*s, seed=k) for k, s in enumerate(shapes))
    want = distances(a, b, p)
    for dtype, within in ((fl.float64, 1e-12), (fl.float32, 1e-5)):
        got = fl.cdist(fl.tensor(a, dtype=dtype), fl.tensor(b, dtype=dtype), p, DIRECT)
        assert got.dtype is dtype and got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want, rtol=within * 10, atol=within)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
def test_gradients_of_both_orders(p):
    a, b = (fl.tensor(draw(*s), requires_grad=True) for s in ((2, 3, 4), (2, 2, 4)))
    call = lambda x, y: fl.cdist(x, y, p, DIRECT)  # noqa: E731
    assert fl.autograd.gradcheck(call, (a, b))
    assert fl.autograd.gradgradcheck(call, (a, b))


@pytest.mark.slow
def test_gradients_by_products():
    """Of rows so many that a matrix product gives the distances, and of pairs of rows."""
    a, b = (fl.tensor(draw(*s, seed=k), requires_grad=True) for k, s in enumerate([(27, 4), (5, 4)]))
    assert fl.autograd.gradcheck(fl.cdist, (a, b))
    assert fl.autograd.gradgradcheck(fl.cdist, (a, b))
    c = a.detach()[:6].requires_grad_()
    for p in (1.5, 2.0):
        assert fl.autograd.gradcheck(lambda x: F.pdist(x, p), (c,))
        assert fl.autograd.gradgradcheck(lambda x: F.pdist(x, p), (c,))
    many = fl.tensor(draw(3, 6, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slopes = fl.vmap(fl.func.grad(lambda x: F.pdist(x).sin().sum()))(many)
    for x, slope in zip(many, slopes):
        x = x.clone().requires_grad_()
        F.pdist(x).sin().sum().backward()
        assert fl.allclose(x.grad, slope)


@pytest.mark.parametrize("rows", [5, 30])
@pytest.mark.parametrize("kinds", [(fl.float16, fl.float16), (fl.bfloat16, fl.bfloat16), (fl.float32, fl.float64), (fl.float16, fl.float32)], ids=str)
def test_other_float_types_have_the_kernels_too(kinds, rows):
    """Without a difference for each pair of rows, and with the type that they promote to."""
    a, b = (fl.tensor(draw(rows, 4, seed=k)).to(kind) for k, kind in enumerate(kinds))
    y = fl.cdist(a, b)
    assert y.dtype is fl.result_type(a, b)
    want = fl.cdist(a.double(), b.double())
    assert (y.double() - want).abs().max() < (0.05 if y.dtype in (fl.float16, fl.bfloat16) else 1e-5)


def test_what_is_no_number_stays():
    x = fl.ones(30, 3)
    x[4, 1] = float("nan")
    for y in (fl.cdist(x, x), fl.cdist(x, x, 2.0, DIRECT)):
        assert y.isnan().sum() == 59 and y[4].isnan().all() and (y[0, :4] == 0).all()


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_a_distance_of_nothing_gives_no_gradient(p):
    x = fl.tensor([[1.0, 2.0], [1.0, 2.0], [4.0, 6.0]], requires_grad=True)
    y = F.pdist(x, p)
    assert y[0].item() == 0.0
    y[0].backward()
    assert x.grad.tolist() == [[0.0, 0.0]] * 3


def test_forward_mode_and_vmap():
    a, b, t = (fl.tensor(draw(*s, seed=k)) for k, s in enumerate([(3, 4), (2, 4), (3, 4)]))
    call = lambda x: fl.cdist(x, b, 1.5, DIRECT)  # noqa: E731
    _, slope = fl.func.jvp(call, (a,), (t,))
    near = (call(a + 1e-6 * t) - call(a - 1e-6 * t)) / 2e-6
    np.testing.assert_allclose(slope.numpy(), near.numpy(), atol=1e-7)
    many = fl.tensor(draw(5, 3, 4))
    assert fl.allclose(fl.vmap(call)(many), fl.stack([call(x) for x in many]))


@pytest.mark.parametrize("n, m", [(0, 3), (1, 3), (2, 3), (7, 5), (30, 40), (4, 0)])
def test_pdist(n, m):
    a = draw(n, m)
    want = distances(a, a, 2.0)[np.triu_indices(n, 1)] if m else np.zeros(n * (n - 1) // 2)
    np.testing.assert_allclose(F.pdist(fl.tensor(a)).numpy(), want, atol=1e-12)


@pytest.mark.slow
def test_rows_are_not_written_out():
    """A difference for each pair of rows would take 3.2 GB."""
    x = fl.ones(2000, 200)
    assert fl.cdist(x, x + 1, 1.0).unique().tolist() == [200.0]


@pytest.mark.parametrize("name", ["cdist_direct", "cdist_gradient"])
def test_refuses(name):
    x, y = fl.ones(3, 4), fl.ones(2, 4)
    op = fl._C.ops.cdist_direct if name == "cdist_direct" else lambda a, b, p: fl._C.ops.cdist_gradient(fl.ones(3, 2), a, b, fl.ones(3, 2), p)
    for a, b, p, kind, says in (
        (x, fl.ones(2, 5), 2.0, ValueError, r"x1 has shape \[3, 4\], x2 \[2, 5\]"), (x, y.double(), 2.0, TypeError, "x2 is .*float64"),
        (x, y, 0.0, ValueError, "finite p > 0"), (x, y, float("nan"), ValueError, "finite p > 0"), (fl.ones(3), fl.ones(3), 2.0, ValueError, r"\[.., P, M\]"),
    ):  # fmt: skip
        with pytest.raises(kind, match=says):
            op(a, b, p)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("mode", [DIRECT, "use_mm_for_euclid_dist"])
def test_rows_of_no_elements_are_zero_apart(p, mode):
    used = [fl.full((6,), 77.0) for _ in range(3)]
    del used  # memory that is not zero, for the result
    assert fl.cdist(fl.zeros(2, 0), fl.zeros(3, 0), p, mode).tolist() == [[0.0] * 3] * 2
