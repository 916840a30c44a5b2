"""`einsum` and `tensordot` against NumPy, and what they refuse."""

import numpy as np
import pytest

import flambeau as fl

EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,kj->ik", (3, 4), (5, 4)), ("ji,jk->ik", (4, 3), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("i,i->", (4,), (4,)), ("i,j->ij", (4,), (5,)), ("ij->", (3, 4)), ("ij->ji", (3, 4)), ("ii->i", (4, 4)), ("iij->j", (3, 3, 2)),
    ("iijj->ij", (2, 2, 3, 3)), ("ij,ij->ij", (3, 4), (3, 4)), ("ij,ij->i", (3, 4), (3, 4)), ("ij,jk", (3, 4), (4, 5)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 6)), ("bn,anm,bm->ba", (2, 3), (4, 3, 5), (2, 5)), ("ijk,kl,lm->ijm", (2, 3, 4), (4, 5), (5, 6)),
    ("a,b,c->cba", (2,), (3,), (4,)), ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)), ("i,j,i->ij", (1,), (3,), (4,)),
    ("ij,jk->", (1, 4), (4, 5)), ("ij,jk->ik", (0, 4), (4, 5)), ("ij,jk->ik", (3, 0), (0, 5)), ("b i j , b j -> b i", (2, 3, 4), (2, 4)),
]  # fmt: skip


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


@pytest.mark.parametrize("equation, shapes", [(e, s) for e, *s in EQUATIONS], ids=str)
def test_einsum(equation, shapes):
    arrays = [draw(*shape, seed=k) for k, shape in enumerate(shapes)]
    want = np.einsum(equation, *arrays)
    for _ in range(2):  # the second time by the plan of the first
        got = fl.einsum(equation, *(fl.tensor(a) for a in arrays))
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize("equation", ["ij", "ij->ij", "...->...", "ij->ji"])
def test_the_order_that_axes_have_or_another_one_is_a_view(equation):
    x = fl.ones(2, 3)
    y = fl.einsum(equation, x)
    assert y is not x and y._base is x


MIXED = [("i,j->ij", 3, 2), ("i,bj->bij", 3, (2, 4)), ("bi,bj->bij", (2, 3), (2, 4)), ("i,i->i", 3, 3), (",ij->ij", (), (2, 3))]


@pytest.mark.parametrize("equation, left, right", MIXED)
@pytest.mark.parametrize("first, second, result", [("int64", "float32", "float32"), ("float64", "float32", "float64"), ("bool", "int32", "int32")])
def test_products_without_sums_mix_types(equation, left, right, first, second, result):
    a = fl.ones(left, dtype=getattr(fl, first))
    b = fl.tensor(draw(*np.shape(np.empty(right))) * 4).to(getattr(fl, second))
    got = fl.einsum(equation, a, b)
    assert got.dtype is getattr(fl, result)
    np.testing.assert_array_equal(got.numpy(), np.einsum(equation, a.numpy().astype(result), b.numpy().astype(result)))


def test_sums_of_products_take_one_type():
    with pytest.raises(fl.DTypeError, match="expected one dtype"):
        fl.einsum("ij,jk->ik", fl.ones(2, 2), fl.ones(2, 2, dtype=fl.float64))


def test_plans_do_not_mix_up_shapes():
    for n in (2, 3, 2):
        a = draw(n, 4)
        np.testing.assert_allclose(fl.einsum("ij,ij->j", fl.tensor(a), fl.tensor(a)).numpy(), (a * a).sum(0), atol=1e-12)


@pytest.mark.parametrize("dims", [0, 1, 2, ([3, 1], [0, 1]), ([-1], [0]), (3, 0), ([], [])], ids=str)
def test_tensordot(dims):
    a, b = draw(2, 3, 4, 5), draw(5, 3, 6, seed=1)
    if dims == 2:
        b = draw(4, 5, 6, seed=1)
    want = np.tensordot(a, b, dims)
    got = fl.tensordot(fl.tensor(a), fl.tensor(b), dims)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.numpy(), want, atol=1e-12)


def test_tensordot_takes_a_tensor_of_dims():
    a, b = fl.tensor(draw(2, 3)), fl.tensor(draw(3, 2))
    assert fl.equal(fl.tensordot(a, b, fl.tensor(1)), a @ b)
    assert fl.equal(fl.tensordot(a, b, fl.tensor([[1], [0]])), a @ b)


@pytest.mark.parametrize(
    "dims, kind, says",
    [
        (3, ValueError, "tensordot expects dims < ndim_a or ndim_b"),
        (-1, ValueError, "tensordot expects dims >= 0"),
        (([2], [0]), IndexError, "axis = 2, but a has shape"),
        (([0], [-3]), IndexError, "axis = -3, but b has shape"),
        (([0, 1], [0]), ValueError, "2 axes of a and 1 of b"),
        (([1, 1], [0, 0]), ValueError, "repeated"),
        (([0], [0]), fl.ShapeError, "contracted dimensions need to match"),
    ],
    ids=str,
)
def test_tensordot_refuses(dims, kind, says):
    with pytest.raises(kind, match=says):
        fl.tensordot(fl.ones(2, 3), fl.ones(3, 2), dims)


@pytest.mark.parametrize("m, k, n", [(1, 64, 1), (1, 2048, 1), (2, 2048, 2), (3, 100, 8), (70, 65, 3), (16, 4096, 2), (1, 100, 30), (8, 512, 9)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda t: t.__name__)
def test_few_long_dot_products(m, k, n, dtype):
    a, w, bias = draw(m, k).astype(dtype), draw(n, k, seed=1).astype(dtype), draw(n).astype(dtype)
    want = a.astype(np.float64) @ w.T.astype(np.float64)
    tolerance = {"rtol": 0, "atol": (1e-5 if dtype is np.float32 else 1e-13) * np.sqrt(k) * 4}
    x, y = fl.tensor(a), fl.tensor(w)
    np.testing.assert_allclose((x @ y.T).numpy(), want, **tolerance)
    np.testing.assert_allclose(fl.nn.functional.linear(x, y, fl.tensor(bias)).numpy(), want + bias, **tolerance)
    out = fl.addmm(fl.tensor(want.astype(dtype)), x, y.T, beta=0.5, alpha=2)
    np.testing.assert_allclose(out.numpy(), 2.5 * want, rtol=0, atol=tolerance["atol"] * 4)
    wide = fl.tensor(np.concatenate([a, a], 1))[:, :k]  # rows further apart
    np.testing.assert_allclose((wide @ y.T).numpy(), want, **tolerance)


@pytest.mark.parametrize(
    ("equation", "sizes", "strides"),
    [
        ("bildsk,biokl->bolsd", {"b": 1, "i": 4, "o": 5, "l": 6, "d": 1, "s": 8, "k": 3}, {"o": 1, "s": 5, "l": 40}),  # UnivNet's
        ("dgac,bg->cabd", {"a": 3, "b": 5, "c": 4, "d": 2, "g": 5}, {"c": 30, "a": 10, "d": 5, "b": 1}),
        ("edfc,cgaf->fgad", {"a": 2, "c": 4, "d": 2, "e": 2, "f": 5, "g": 4}, {"f": 16, "d": 8, "g": 2, "a": 1}),
        ("ca,dcgf->dgfa", {"a": 4, "c": 2, "d": 5, "f": 4, "g": 5}, {"d": 80, "g": 16, "f": 4, "a": 1}),
        ("ac,gc->ga", {"a": 2, "c": 5, "g": 3}, {"g": 2, "a": 1}),
    ],
)
def test_products_lie_as_in_pytorch(equation, sizes, strides):
    """Axes of both, of the first, of the second; the second's first only where that is their order in the result. Programs take views of that."""
    operands, result = equation.split("->")
    arrays = [np.sin(np.arange(np.prod([sizes[c] for c in o]))).reshape([sizes[c] for c in o]) for o in operands.split(",")]
    y = fl.einsum(equation, *map(fl.tensor, arrays))
    assert {c: s for c, s in zip(result, y.stride(), strict=True) if sizes[c] != 1} == strides
    np.testing.assert_allclose(y.numpy(), np.einsum(equation, *arrays), rtol=1e-12, atol=1e-12)
    if equation.startswith("bildsk"):
        assert y.view(1, 5, -1).shape == (1, 5, 48)


@pytest.mark.parametrize(
    ("equation", "shapes", "strides"),
    [
        ("nd,bd->bnd", [(5, 4), (16, 4)], (20, 4, 1)),
        ("nd,bd->nbd", [(16, 4), (5, 4)], (20, 4, 1)),
        ("bl,ld->bld", [(2, 3), (3, 4)], (12, 4, 1)),
        ("bln,bld->bldn", [(2, 3, 4), (2, 3, 5)], (60, 20, 4, 1)),
        ("bl,bd,ln->bldn", [(2, 3), (2, 4), (3, 5)], (60, 20, 5, 1)),
        ("...d,kd->...kd", [(2, 3, 4), (5, 4)], (60, 20, 4, 1)),
        ("i,j->ji", [(3,), (4,)], (3, 1)),
    ],
)
def test_products_without_sums_lie_in_the_order_of_the_result(equation, shapes, strides):
    """They are products of elements, so that programs may `view` them."""
    operands = [fl.randn(*shape, dtype=fl.float64, requires_grad=True) for shape in shapes]
    y = fl.einsum(equation, *operands)
    assert y.stride() == strides
    assert np.allclose(y.detach().numpy(), np.einsum(equation, *[x.detach().numpy() for x in operands]))
    assert fl.autograd.gradcheck(lambda *x: fl.einsum(equation, *x), operands)


def test_labels_may_be_tensors():
    x = fl.arange(24.0).reshape(2, 3, 4)
    assert fl.equal(fl.einsum(x, fl.tensor([2, 0, 1]), fl.tensor([0, 1, 2])), x.permute(1, 2, 0))
