"""Sparse tensors beside SciPy's and dense ones: products, sums, element-wise functions, places, gradients, refusals."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse
import scipy.special

import flambeau as fl
from flambeau.autograd import gradcheck, gradgradcheck

SHAPES = [(5, 7), (1, 1), (4, 0), (0, 3), (30, 20), (3, 200)]
LAYOUTS = ["coo", "csr"]


def matrix(m, n, seed=0, dtype=np.float64, density=0.3):
    rng = np.random.default_rng([seed, m, n])
    return ((rng.random((m, n)) < density) * rng.standard_normal((m, n))).astype(dtype)


def dense(*shape, seed=1, dtype=np.float64):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def sparse(a, how="coo", grad=False):
    x = fl.tensor(a).to_sparse()
    x = x if how == "coo" else x.to_sparse_csr()
    return x.requires_grad_() if grad else x


def near(got, want, eps=1e-12):
    got = got.to_dense().numpy()
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=eps, atol=eps)


# ---------------------------------------------------------------------------------------- making and showing


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_there_and_back(shape):
    a = matrix(*shape)
    x = fl.tensor(a).to_sparse()
    want = scipy.sparse.coo_array(a)
    assert x.shape == shape and x._nnz() == want.nnz and x.is_coalesced() and x.sparse_dim() == 2 and x.dense_dim() == 0
    assert x.layout is fl.sparse_coo and x.is_sparse and x.dtype is fl.float64 and x.device == fl.ones(1).device
    near(x, a), near(x.to_sparse_csr(), a), near(x.to_sparse_csr().to_sparse(), a)
    rows = scipy.sparse.csr_array(a)
    csr = fl.tensor(a).to_sparse_csr()
    assert csr.layout is fl.sparse_csr and csr.is_sparse_csr and not csr.is_sparse
    assert csr.crow_indices().tolist() == rows.indptr.tolist() and csr.col_indices().tolist() == rows.indices.tolist()
    np.testing.assert_array_equal(csr.values().numpy(), rows.data)


def test_dense_tensors_have_a_layout():
    x = fl.ones(2)
    assert x.layout is fl.strided and not x.is_sparse and not x.is_sparse_csr and x.to_dense() is x
    assert repr(fl.strided) == "flambeau.strided" and pickle.loads(pickle.dumps(fl.sparse_coo)) is fl.sparse_coo


def test_coalesce():
    x = fl.sparse_coo_tensor([[1, 0, 1, 1], [0, 2, 0, 1]], [1.0, 2.0, 3.0, 4.0], (2, 3))
    assert not x.is_coalesced() and x._nnz() == 4
    with pytest.raises(RuntimeError, match="indices: the sparse tensor is not coalesced"):
        x.indices()
    with pytest.raises(RuntimeError, match="call .coalesce"):
        x.values()
    y = x.coalesce()
    assert y.is_coalesced() and y.indices().tolist() == [[0, 1, 1], [2, 0, 1]] and y.values().tolist() == [2.0, 4.0, 4.0]
    assert y.coalesce() is y
    near(x, [[0, 0, 2], [4, 4, 0]])
    assert x._indices().shape == (2, 4) and x._values().tolist() == [1.0, 2.0, 3.0, 4.0]


def test_dense_axes():
    x = fl.sparse_coo_tensor([[0, 2, 0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], (3, 2))
    assert x.sparse_dim() == 1 and x.dense_dim() == 1
    near(x, [[6, 8], [0, 0], [3, 4]])
    near(fl.tensor([[0.0, 0.0], [1.0, 0.0]]).to_sparse(1), [[0, 0], [1, 0]])
    near(fl.sparse.sum(x, 1), [14, 0, 7])
    near(fl.sparse.sum(x, 0), [9, 12])


def test_printing():
    x = fl.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), requires_grad=True)
    assert repr(x).splitlines() == [
        "tensor(indices=tensor([[0, 1, 1],",
        "                       [2, 0, 2]]),",
        "       values=tensor([3., 4., 5.]),",
        "       size=(2, 3), nnz=3, layout=flambeau.sparse_coo, requires_grad=True)",
    ]
    text = str(x.detach().to_sparse_csr())
    assert "crow_indices=tensor([0, 1, 3])" in text and "layout=flambeau.sparse_csr" in text


@pytest.mark.parametrize("how", LAYOUTS)
def test_copies(how):
    x = sparse(matrix(3, 4), how, True)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        near(y.detach(), x.detach().to_dense().numpy())
        assert y.requires_grad and y.layout is x.layout and y.values().data_ptr() != x.values().data_ptr()
    assert x.detach().values().data_ptr() == x.values().data_ptr() and not x.detach().requires_grad
    half = x.to(fl.float32)
    assert half.dtype is fl.float32 and half.layout is x.layout and x.float().dtype is fl.float32 and x.double().dtype is fl.float64


# ---------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda t: t.__name__)
@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("k", [0, 1, 3, 32, 33, 70])
def test_products_with_dense(shape, how, k, dtype):
    a, b, c = matrix(*shape, dtype=dtype), dense(shape[1], k, dtype=dtype), dense(k, shape[0], dtype=dtype)
    x, eps = sparse(a, how), 1e-4 if dtype is np.float32 else 1e-12
    near(x @ fl.tensor(b), scipy.sparse.csr_array(a) @ b, eps)
    near(fl.sparse.mm(x, fl.tensor(b)), a @ b, eps)
    near(fl.tensor(c) @ x, c @ a, eps)
    near(x.t() @ fl.tensor(c).t(), a.T @ c.T, eps)
    near(fl.mm(x, fl.tensor(b.T.copy()).t()), a @ b, eps)  # strided
    if k == 1:
        near(x @ fl.tensor(b[:, 0]), a @ b[:, 0], eps)
        near(fl.mv(x, fl.tensor(b[:, 0])), a @ b[:, 0], eps)
        near(fl.tensor(c[0]) @ x, c[0] @ a, eps)


@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("m, n, k", [(5, 7, 4), (30, 20, 30), (0, 3, 2), (3, 0, 2)])
def test_products_of_sparse(m, n, k, how):
    a, b = matrix(m, n), matrix(n, k, 1)
    y = sparse(a, how) @ sparse(b, how)
    assert y.layout is sparse(a, how).layout
    near(y, a @ b)


def test_linear_layers_take_sparse_inputs():
    layer, a = fl.nn.Linear(4, 3), matrix(5, 4, dtype=np.float32)
    near(layer(sparse(a)).detach(), layer(fl.tensor(a)).detach().numpy(), 1e-5)


def test_sum_with_a_product():
    a, b, c = matrix(3, 4), dense(4, 2), dense(3, 2)
    near(fl.sparse.addmm(fl.tensor(c), sparse(a), fl.tensor(b), beta=0.5, alpha=2.0), 0.5 * c + 2 * (a @ b))
    near(fl.addmm(fl.tensor(c), sparse(a), fl.tensor(b)), c + a @ b)
    u, v = dense(3, 5), dense(5, 4)
    for how in LAYOUTS:
        near(fl.sparse.sampled_addmm(sparse(a, how), fl.tensor(u), fl.tensor(v), beta=0.5, alpha=2.0), (a != 0) * (0.5 * a + 2 * (u @ v)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_beta_of_0_leaves_out_what_is_not_finite(bad):
    a, b = matrix(3, 4), dense(4, 2)
    for how in LAYOUTS:
        given = fl.full((3, 2), bad, dtype=fl.float64).requires_grad_()
        y = fl.addmm(given, sparse(a, how), fl.tensor(b), beta=0)
        near(y.detach(), a @ b)
        y.sum().backward()
        near(given.grad, np.zeros((3, 2)))
        near(fl.sparse.addmm(sparse(np.full((3, 2), bad), how), sparse(a, how), sparse(b, how), beta=0), a @ b)
    with pytest.raises(fl.ShapeError, match=r"\[5, 7\]"):
        fl.addmm(fl.ones(5, 7), sparse(a), fl.tensor(b), beta=0)


@pytest.mark.parametrize("threads", [1, 3])
def test_products_do_not_depend_on_threads(threads):
    a, b = matrix(900, 800, dtype=np.float32, density=0.05), dense(800, 40, dtype=np.float32)
    a[3] = 1.0  # one long row
    before = fl.get_num_threads()
    x = sparse(a, "csr").requires_grad_()
    y = fl.tensor(b).requires_grad_()
    want = x @ y
    want.square().sum().backward()
    kept = want.detach().clone(), x.grad.values().clone(), y.grad.clone()
    near(kept[0], a @ b, 1e-3)
    x.grad = y.grad = None
    try:
        fl.set_num_threads(threads)
        found = x @ y
        found.square().sum().backward()
        for got, was in zip((found, x.grad.values(), y.grad), kept):
            assert fl.equal(got.detach(), was)
    finally:
        fl.set_num_threads(before)


# ---------------------------------------------------------------------------------------- gradients

INDICES = fl.tensor([[0, 1, 1, 3, 0], [2, 0, 2, 1, 2]])  # one place twice


def coo(values):
    return fl.sparse_coo_tensor(INDICES, values, (4, 3))


def csr(values):
    return fl.sparse_csr_tensor([0, 1, 3, 3, 5], [2, 0, 2, 1, 0], values, (4, 3))


GRADIENTS = {
    "mm": (lambda s, v, b: s(v) @ b, [(3, 2)]),
    "mv": (lambda s, v, b: s(v) @ b, [(3,)]),
    "dense @ sparse": (lambda s, v, b: b @ s(v), [(2, 4)]),
    "sparse @ sparse": (lambda s, v: (s(v) @ s(v).t()).to_dense(), []),
    "to_dense": (lambda s, v: s(v).to_dense(), []),
    "sum": (lambda s, v: s(v).sum(), []),
    "sum over rows": (lambda s, v: fl.sparse.sum(s(v), 1).to_dense(), []),
    "softmax": (lambda s, v: fl.sparse.softmax(s(v), 1).to_dense(), []),
    "log_softmax": (lambda s, v: fl.sparse.log_softmax(s(v), 0).to_dense(), []),
    "mul": (lambda s, v, b: (s(v) * b).to_dense(), [(4, 3)]),
    "mul sparse": (lambda s, v: (s(v) * s(v)).to_dense(), []),
    "add": (lambda s, v, b: (s(v) + s(2 * v)).to_dense() + (b - s(v)), [(4, 3)]),
    "sampled_addmm": (lambda s, v, a, b: fl.sparse.sampled_addmm(s(v), a, b).to_dense(), [(4, 2), (2, 3)]),
    "tanh of what is coalesced": (lambda s, v: s(v).tanh().to_dense(), []),
    "index_select": (lambda s, v: s(v).index_select(0, fl.tensor([3, 0, 0])).to_dense(), []),
    "t": (lambda s, v, b: s(v).t() @ b, [(4, 2)]),
    "values": (lambda s, v: s(v).coalesce().values(), []),
}


@pytest.mark.parametrize("make", [coo, csr], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name, make):
    f, shapes = GRADIENTS[name]
    inputs = [fl.tensor(dense(5)).requires_grad_(), *(fl.tensor(dense(*s)).requires_grad_() for s in shapes)]
    assert gradcheck(lambda *args: f(make, *args), inputs)
    assert gradgradcheck(lambda *args: f(make, *args), inputs)


@pytest.mark.parametrize("make", ["to_sparse", "to_sparse_csr"])
def test_gradient_of_a_dense_tensor_made_sparse(make):
    a = fl.tensor(matrix(4, 3)).requires_grad_()
    b = fl.tensor(dense(3, 2)).requires_grad_()
    (getattr(a, make)() @ b).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), (a.detach().numpy() != 0) * b.detach().numpy().sum(1))
    mask = sparse(matrix(4, 3, 5))
    a.grad = None
    (a.sparse_mask(mask) @ b).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), (mask.to_dense().numpy() != 0) * b.detach().numpy().sum(1))


@pytest.mark.parametrize("how", LAYOUTS)
def test_leaf(how):
    x = sparse(matrix(4, 3), how, True)
    assert x.requires_grad and x.is_leaf and x.grad is None and x.grad_fn is None
    b = fl.tensor(dense(3, 2))
    (x @ b).sum().backward()
    assert x.grad.layout is x.layout and x.grad._nnz() == x._nnz()
    near(x.grad, (x.detach().to_dense().numpy() != 0) * b.numpy().sum(1))
    (x @ b).sum().backward()  # twice: they add up
    near(x.grad, 2 * (x.detach().to_dense().numpy() != 0) * b.numpy().sum(1))
    x.grad = None
    assert x.grad is None and (x * 2).grad_fn is not None
    with pytest.raises(TypeError, match="expected None or a sparse tensor"):
        x.grad = b


def test_a_graph_layer_learns():
    """A convolution on a ring: neighbours' means, then a linear map."""
    n = 12
    ring = fl.arange(n)
    A = fl.sparse_coo_tensor(fl.stack([fl.cat([ring, ring]), fl.cat([(ring + 1) % n, (ring - 1) % n])]), fl.full((2 * n,), 0.5), (n, n))
    x = fl.tensor(dense(n, 3, dtype=np.float32))
    want = A @ x @ fl.tensor(dense(3, 2, dtype=np.float32))
    layer = fl.nn.Linear(3, 2)
    optimizer = fl.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(200):
        loss = (layer(A @ x) - want).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-4


# ---------------------------------------------------------------------------------------- element by element


@pytest.mark.parametrize("how", LAYOUTS)
def test_arithmetic(how):
    a, b, d = matrix(5, 4), matrix(5, 4, 1), dense(5, 4)
    x, y, z = sparse(a, how), sparse(b, how), fl.tensor(d)
    for got, want in (
        (x + y, a + b), (x - y, a - b), (x + z, a + d), (z + x, a + d), (z - x, d - a), (x - z, a - d), (x * y, a * b), (x * z, a * d),
        (z * x, a * d), (x * 2, a * 2), (2 * x, a * 2), (x / 2, a / 2), (x / z, a / d), (-x, -a), (x * fl.tensor(3.0), a * 3), (x**2, a**2),
        (x * z[0], a * d[0]), (fl.add(x, y, alpha=3), a + 3 * b), (x.mul(y), a * b), (fl.zeros_like(x), a * 0),
    ):  # fmt: skip
        near(got, want)
    for got in (x + y, x - y, x * y, x * z, x * 2, x / 2, -x):
        assert got.layout is x.layout


@pytest.mark.parametrize("name", ["abs", "relu", "sin", "tanh", "sqrt", "square", "sign", "expm1", "log1p", "floor", "neg", "atan"])
def test_functions_that_keep_zero(name):
    x = fl.sparse_coo_tensor([[0, 1, 1, 1], [0, 1, 0, 1]], [0.5, 2.0, 3.0, -1.0], (2, 2), dtype=fl.float64)
    near(getattr(x, name)(), getattr(x.to_dense(), name)().numpy())
    near(getattr(fl, name)(x), getattr(x.to_dense(), name)().numpy())


@pytest.mark.parametrize("how", LAYOUTS)
def test_sums(how):
    a = matrix(5, 4)
    x = sparse(a, how)
    near(x.sum(), a.sum()), near(fl.sparse.sum(x), a.sum()), near(x.sum(0), a.sum(0)), near(x.sum(-1), a.sum(1)), near(x.sum((0, 1)), a.sum())
    assert x.sum(0).layout is fl.sparse_coo and fl.sparse.sum(x, 0, dtype=fl.float32).dtype is fl.float32
    near(x.norm(), np.linalg.norm(a))
    for p in (1, 3, float("inf")):
        near(fl.norm(x, p), np.linalg.norm(a.ravel(), p))
        near(fl.norm(x, p, dim=list(range(x.ndim))), np.linalg.norm(a.ravel(), p))
    with pytest.raises(ValueError, match="dim = 0; expected a number or 'fro'"):
        fl.norm(x, 2, 0)


@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax(dim, how):
    a = matrix(5, 4)
    masked = np.where(a != 0, a, -np.inf)
    with np.errstate(all="ignore"):
        want = np.nan_to_num(scipy.special.softmax(masked, dim))
        near(fl.sparse.softmax(sparse(a, how), dim), want)
        near(fl.sparse.log_softmax(sparse(a, how), dim), np.where(a != 0, np.log(want), 0))


# ---------------------------------------------------------------------------------------- places

PLACES = {
    "row": lambda x: x[1], "last row": lambda x: x[-1], "element": lambda x: x[1, 2], "column": lambda x: x[:, 2], "slice": lambda x: x[1:3],
    "slices": lambda x: x[1:, :2], "rows": lambda x: x[[2, 0, 2]], "columns": lambda x: x[:, [3, 3, 0]], "ellipsis": lambda x: x[..., 1],
    "transpose": lambda x: x.swapaxes(0, 1), "T": lambda x: x.T, "empty": lambda x: x[3:1],
}  # fmt: skip


@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("name", PLACES)
def test_places(name, how):
    a = matrix(5, 4)
    near(PLACES[name](sparse(a, how)), PLACES[name](a))


# A batch of two matrices, [2, 3, 4].
AXES = {
    "mT": lambda x: x.mT, "mH": lambda x: x.mH, "adjoint": lambda x: fl.adjoint(x), "reversed": lambda x: x.permute(2, 1, 0), "permute": lambda x: x.permute((2, 0, -2)),
    "permute of dims": lambda x: fl.permute(x, dims=(1, 2, 0)), "movedim": lambda x: x.movedim(2, 0), "unsqueeze": lambda x: x.unsqueeze(-2),
    "unsqueeze behind": lambda x: x.unsqueeze(3),
}  # fmt: skip


@pytest.mark.parametrize("sparse_dim", [1, 2, 3])
@pytest.mark.parametrize("name", AXES)
def test_axes(name, sparse_dim):
    a = (matrix(6, 4) + 1j * matrix(6, 4, seed=1)).reshape(2, 3, 4)
    x, change = fl.tensor(a).to_sparse(sparse_dim), AXES[name]
    if sparse_dim < 3 and "unsqueeze" not in name and (sparse_dim == 2 or name not in ("mT", "mH", "adjoint")):
        with pytest.raises(fl.ShapeError, match="which have indices, to stay among themselves"):
            change(x)
        return
    y = change(x)
    near(y, change(fl.tensor(a)).resolve_conj().numpy())
    assert y.sparse_dim() == sparse_dim + (name == "unsqueeze" and sparse_dim > 1) + (name == "unsqueeze behind" and sparse_dim == 3)


def test_bmm():
    a, b = matrix(6, 4).reshape(2, 3, 4), dense(2, 4, 5)
    x = fl.tensor(a).to_sparse().requires_grad_()
    y = fl.tensor(b).requires_grad_()
    near(fl.bmm(x, y).detach(), a @ b), near(x.mT.bmm(fl.tensor(dense(2, 3, 5))).detach(), np.swapaxes(a, 1, 2) @ dense(2, 3, 5))
    doubled = fl.sparse_coo_tensor(fl.cat([x.indices()] * 2, 1), fl.cat([x.values().detach()] * 2), x.shape)
    near(doubled.bmm(y).detach(), 2 * a @ b)
    fl.bmm(x, y).square().sum().backward()
    near(x.grad, np.where(a != 0, 2 * (a @ b) @ np.swapaxes(b, 1, 2), 0))
    near(y.grad, 2 * np.swapaxes(a, 1, 2) @ (a @ b))


def test_index_by_tensors():
    a = matrix(5, 4)
    x = sparse(a)
    near(x[fl.tensor([4, -1, 0])], a[[4, -1, 0]])
    near(x[fl.tensor([True, False, True, False, True])], a[[0, 2, 4]])
    near(x[[True, False, True, False, True]], a[[0, 2, 4]])
    near(x[[]], a[[]])
    near(x.index_select(1, fl.tensor([3, 1])), a[:, [3, 1]])
    near(fl.index_select(x, 0, fl.tensor([], dtype=fl.int64)), a[[]])
    near(x.narrow(1, 1, 2), a[:, 1:3])


@pytest.mark.parametrize("how", LAYOUTS)
def test_cat(how):
    a, b = matrix(3, 4), matrix(2, 4, 1)
    near(fl.cat([sparse(a, how), sparse(b, how)]), np.concatenate([a, b]))
    near(fl.cat([sparse(a, how), sparse(a, how)], 1), np.concatenate([a, a], 1))


@pytest.mark.parametrize("index", [(None,), (slice(None), None), (Ellipsis, None), (0, None), (None, 0)], ids=str)
def test_none_is_a_new_axis(index):
    a = matrix(2, 3)
    made = fl.tensor(a).to_sparse()[index]
    assert made.is_sparse
    near(made, a[index])


def test_a_cast_to_the_type_that_it_has_is_the_tensor_itself():
    x = fl.eye(2).to_sparse()
    assert x.float() is x and x.to(fl.float32) is x and x.to("cpu") is x and x.double() is not x


@pytest.mark.parametrize("name", ["signbit", "angle", "conj_physical"])
def test_more_functions_that_leave_zeros(name):
    a = fl.tensor([[0.0, -2.0], [3.0, 0.0]])
    near(getattr(a.to_sparse(), name)(), getattr(a, name)().numpy())


# ---------------------------------------------------------------------------------------- refusals

X = fl.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 3))
ERRORS = [
    (lambda: X.exp(), TypeError, r"exp: is not there for sparse tensors; call .to_dense\(\) first"),
    (lambda: fl.exp(X), TypeError, "exp: is not there for sparse tensors"),
    (lambda: X + 1, TypeError, "a number added to a sparse tensor"),
    (lambda: X > 0, TypeError, "gt: is not there for sparse tensors"),
    (lambda: X.view(6), TypeError, "view: is not there"),
    (lambda: X.item(), ValueError, r"item: a Tensor with 6 elements cannot be converted to Scalar; it is sparse, and has shape \[2, 3\]"),
    (lambda: fl.eye(2).to_sparse_csr().stride(), RuntimeError, "stride: a flambeau.sparse_csr tensor has none"),
    (lambda: X.__setitem__(0, 1.0), TypeError, "__setitem__: is not there"),
    (lambda: 1 / X, TypeError, "sparse tensor"),
    (lambda: fl.ones(2, 3) / X, TypeError, "divisor is a sparse tensor"),
    (lambda: X @ fl.ones(2, 2), fl.ShapeError, r"the sparse matrix has shape \[2, 3\], the dense one \[2, 2\]; expected \[m, n\]"),
    (lambda: fl.ones(3, 3) @ X, fl.ShapeError, r"the dense matrix has shape \[3, 3\]"),
    (lambda: X @ X, fl.ShapeError, "the matrices have shapes"),
    (lambda: X @ fl.ones(3, 1, dtype=fl.float64), fl.DTypeError, "the sparse matrix is float32, the dense one float64"),
    (lambda: X.int() @ fl.ones(3, 1, dtype=fl.int32), fl.DTypeError, "expected both float32 or both float64"),
    (lambda: X * X.t(), fl.ShapeError, "expected one shape"),
    (lambda: X[0, 0, 0], IndexError, "3 indices for a sparse tensor"),
    (lambda: X[5], IndexError, "select: index = 5"),
    (lambda: X[::2], ValueError, "step 2"),
    (lambda: X["a"], TypeError, "expected integers, slices"),
    (lambda: X.permute(0, 0), fl.ShapeError, r"permute: dims = \[0, 0\], .* expected each of its axes once"),
    (lambda: fl.ones(2, 3).to_sparse(1).t(), fl.ShapeError, "the first 1, which have indices, to stay among themselves"),
    (lambda: X.unsqueeze(3), IndexError, "dim = 3, but the sparse tensor has shape .* expected -3 <= dim <= 2"),
    (lambda: X[0].mT, fl.ShapeError, r"mT: the sparse tensor has shape \[3\]; expected at least two"),
    (lambda: X.unsqueeze(0).H, fl.ShapeError, "expected two axes"),
    (lambda: X.bmm(fl.ones(2, 3)), fl.ShapeError, r"input has shape \[2, 3\], mat2 \[2, 3\]; expected"),
    (lambda: fl.ones(1, 2, 2).bmm(X.unsqueeze(0)), TypeError, "bmm: expected a sparse input and a dense mat2"),
    (lambda: X.index_select(0, fl.tensor([2])), IndexError, "index goes from 2 to 2; expected 0 to 1"),
    (lambda: X[fl.tensor([True])], IndexError, r"a mask of shape \[1\]; expected \[2\], as long as axis 0"),
    (lambda: fl.eye(2).to_sparse_csr().transpose(5, 0), IndexError, "dim = 5"),
    (lambda: X.sum(2), IndexError, "dim = 2"),
    (lambda: X.norm(dim=(0, 3)), IndexError, "norm: dim = 3"),
    (lambda: X**-1, TypeError, "exponent = -1; expected a number above 0"),
    (lambda: fl.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,)), fl.RangeError, r"indices\[0\] go from 0 to 5; expected 0 to 2"),
    (lambda: fl.sparse_coo_tensor([[0, -1]], [1.0, 2.0]), fl.RangeError, "go from -1 to 0"),
    (lambda: fl.sparse_coo_tensor([[0, 1]], [1.0]), fl.ShapeError, r"indices have shape \[1, 2\], values \[1\]"),
    (lambda: fl.sparse_coo_tensor([[0.5]], [1.0]), fl.DTypeError, "indices are flambeau.float32"),
    (lambda: fl.sparse_coo_tensor([[0]], [1.0], (2, 2)), fl.ShapeError, "expected a size for each of 1 rows"),
    (lambda: fl.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2)), ValueError, "crow"),
    (lambda: fl.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2)), ValueError, "crow goes from 0 to 3; expected 0 to 2"),
    (lambda: fl.sparse_csr_tensor([0, 1, 2], [0, 2], [1.0, 2.0], (2, 2)), IndexError, r"col\[1\] = 2; expected 0 <= col < 2"),
    (lambda: fl.sparse_csr_tensor([0, 1], [0, 1], [1.0, 2.0], (2, 2)), fl.ShapeError, r"expected \[m, n\], \[m \+ 1\]"),
    (lambda: fl.ones(2).to_sparse_csr(), fl.ShapeError, "expected a matrix"),
    (lambda: fl.ones(2).to_sparse(2), ValueError, "sparse_dim = 2"),
    (lambda: fl.ones(2).to_sparse(layout="csr"), ValueError, "layout = 'csr'"),
    (lambda: fl.ones(2).sparse_mask(fl.ones(2)), fl.ShapeError, "expected a sparse mask"),
    (lambda: fl.cat([X, fl.ones(2, 3)]), TypeError, "cat: an argument is a dense tensor"),
    (lambda: fl.sparse.sum(fl.ones(2)), TypeError, "input is a dense tensor"),
    (lambda: np.asarray(X), TypeError, "__array__: is not there for sparse tensors"),
    (lambda: X.numpy(), TypeError, "numpy: is not there for sparse tensors"),
    (lambda: X.tolist(), TypeError, "tolist: is not there for sparse tensors"),
    (lambda: bool(X), ValueError, "bool: a Tensor with 6 elements cannot be converted"),
    (lambda: X.exp_(), TypeError, "exp_: is not there for sparse tensors"),
    (lambda: fl.ones(2, 3).div_(X), TypeError, "div_: a sparse tensor is written to a dense one"),
    (lambda: fl.nn.Parameter(X), TypeError, r"Parameter: data is a sparse tensor \(flambeau.sparse_coo\); expected a dense one"),
    (lambda: fl.nn.functional.linear(fl.ones(1, 3), fl.ones(4, 3), X), TypeError, "bias is a sparse tensor"),
]  # fmt: skip


@pytest.mark.eager("the moment at which an error is raised")
@pytest.mark.parametrize("call, kind, text", ERRORS, ids=range(len(ERRORS)))
def test_refused(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


# ---------------------------------------------------------------------------------------- segments


SEGMENTS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "amax": np.max, "amin": np.min}


@pytest.mark.parametrize("reduce", SEGMENTS)
def test_segment_reduce(reduce):
    a, lengths = dense(7, 3), [2, 0, 4, 1]
    bounds = np.cumsum([0, *lengths])
    none = {"sum": 0, "mean": np.nan, "max": -np.inf, "min": np.inf, "prod": 1}[reduce.removeprefix("a")]
    want = np.stack([SEGMENTS[reduce](a[i:j], 0) if j > i else np.full(3, none) for i, j in zip(bounds, bounds[1:])])
    got = fl.segment_reduce(fl.tensor(a), reduce, lengths=fl.tensor(lengths))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    by_offsets = fl.segment_reduce(fl.tensor(a.T.copy()), reduce, offsets=fl.tensor(bounds), axis=1)
    np.testing.assert_allclose(by_offsets.numpy(), want.T, rtol=1e-12)
    full = fl.tensor([2, 1, 4])
    assert gradcheck(lambda x: fl.segment_reduce(x, reduce, lengths=full), [fl.tensor(a).requires_grad_()])


@pytest.mark.parametrize(("reduce", "sign"), [("max", 1.0), ("amin", -1.0)])
def test_segments_that_reach_their_initial_value_keep_their_gradients(reduce, sign):
    x = (sign * fl.tensor([1.0, 1.0, 0.0, 2.0, -1.0, np.nan])).requires_grad_()
    y = fl.segment_reduce(x, reduce, lengths=fl.tensor([2, 0, 2, 1, 1]), initial=sign)
    y.nan_to_num(0.0).sum().backward()
    np.testing.assert_array_equal(y.detach().numpy(), [sign, sign, sign * 2, sign, np.nan])
    assert x.grad.tolist()[:5] == [0.5, 0.5, 0.0, 1.0, 0.0]


def test_segments_that_end_before_the_axis_does():
    x = fl.tensor([1.0, 2.0, 3.0, 4.0]).requires_grad_()
    y = fl.segment_reduce(x, "sum", lengths=fl.tensor([2, 1]), unsafe=True)
    y.sum().backward()
    assert y.tolist() == [3.0, 3.0] and x.grad.tolist() == [1.0, 1.0, 1.0, 0.0]


SEGMENT_ERRORS = [
    (lambda: fl.segment_reduce(fl.ones(3), "median", lengths=fl.tensor([3])), ValueError, "reduce = 'median'"),
    (lambda: fl.segment_reduce(fl.ones(3), "sum"), ValueError, "expected either lengths or offsets"),
    (lambda: fl.segment_reduce(fl.ones(3), "sum", lengths=fl.tensor([2])), ValueError, "add up to 2; expected 3"),
    (lambda: fl.segment_reduce(fl.ones(3), "sum", lengths=fl.tensor([4, -1])), ValueError, "none below 0"),
    (lambda: fl.segment_reduce(fl.ones(3), "sum", offsets=fl.tensor([1, 3])), ValueError, "do not begin with 0"),
    (lambda: fl.segment_reduce(fl.ones(3), "sum", lengths=fl.ones(3)), fl.DTypeError, "expected integers"),
    (lambda: fl.segment_reduce(fl.ones(3), "sum", lengths=fl.tensor([3]), axis=1), IndexError, "axis = 1"),
]


@pytest.mark.eager("the moment at which an error is raised")
@pytest.mark.parametrize("call, kind, text", SEGMENT_ERRORS, ids=range(len(SEGMENT_ERRORS)))
def test_segment_errors(call, kind, text):
    with pytest.raises(kind, match=text) as caught:
        call()
    assert kind is not ValueError or isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("crow, col", [([0, 64, 2], [0, 1]), ([0, 1, 2], [0, -2]), ([0, 1, 2], [0, 2])])
def test_wrong_rows_are_refused_while_somebody_records(crow, col):
    with fl.lazy(), pytest.raises((ValueError, IndexError), match="crow|col"):
        fl.sparse_csr_tensor(crow, col, [1.0, 2.0], (2, 2))


def test_a_caller_may_say_that_places_are_in_order():
    # torch-geometric makes matrices of sorted edges and says so.
    values = fl.tensor([1.0, 2.0], requires_grad=True)
    x = fl.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2))
    assert not x.is_coalesced()
    assert x._coalesced_(True) is x and x.is_coalesced()
    assert x.indices().tolist() == [[0, 1], [1, 0]]
    (x.to_dense() * fl.tensor([[1.0, 3.0], [5.0, 7.0]])).sum().backward()
    assert values.grad.tolist() == [3.0, 5.0]
    assert not x._coalesced_(False).is_coalesced()


def test_printed_parts_keep_to_the_width_of_a_line_and_the_footer_names_the_type():
    x = fl.sparse_coo_tensor([list(range(9))], fl.full((9,), 1 / 3, dtype=fl.float64))
    assert repr(x).splitlines() == [
        "tensor(indices=tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8]]),",
        "       values=tensor([0.3333, 0.3333, 0.3333, 0.3333, 0.3333, 0.3333, 0.3333,",
        "                      0.3333, 0.3333]),",
        "       size=(9,), nnz=9, dtype=flambeau.float64, layout=flambeau.sparse_coo)",
    ]
    assert repr(fl.tensor([[1.0, 0.0], [0.0, 2.0]]).to_sparse_csr()).splitlines()[-1] == (
        "       values=tensor([1., 2.]), size=(2, 2), nnz=2, layout=flambeau.sparse_csr)"
    )
    assert repr(fl.sparse_coo_tensor(fl.zeros(2, 0, dtype=fl.int64), [], (2, 3))).splitlines() == [
        "tensor(indices=tensor([], size=(2, 0)),",
        "       values=tensor([], size=(0,)),",
        "       size=(2, 3), nnz=0, layout=flambeau.sparse_coo)",
    ]
    assert x.__repr__(tensor_contents="...").startswith("tensor(...,\n       size=(9,)")


@pytest.mark.parametrize("make", [lambda **o: fl.sparse_coo_tensor((2, 3), **o), lambda **o: fl.sparse_coo_tensor(size=(2, 3), **o), lambda **o: fl.sparse_coo_tensor(fl.Size([2, 3]), **o)], ids=["sizes", "size=", "Size"])
@pytest.mark.parametrize("dtype", [None, fl.float64, fl.int64])
def test_a_size_alone(make, dtype):
    s = make() if dtype is None else make(dtype=dtype)
    assert s.shape == (2, 3) and s._nnz() == 0 and s.dtype == (dtype or fl.float32) and s._indices().shape == (2, 0)
    assert fl.equal(s.to_dense(), fl.zeros(2, 3, dtype=s.dtype))


@pytest.mark.parametrize(("given", "text"), [({}, "neither values nor a size"), ({"values": [1.0]}, "values without indices"), ({"indices": [[0]], "size": (2,)}, "indices and size without values")])
def test_parts_of_a_sparse_tensor_are_refused(given, text):
    with pytest.raises(TypeError, match=text):
        fl.sparse_coo_tensor(**given)


def test_compressed_rows_warn_once(monkeypatch):
    monkeypatch.setattr("flambeau._warn._given", set())
    with pytest.warns(UserWarning, match="sparse CSR tensors are in beta state") as record:
        fl.eye(2).to_sparse_csr()
        fl.eye(3).to_sparse_csr()
    assert len(record) == 1 and record[0].filename == __file__


# ---------------------------------------------------------------------------------------- stacks, masks, questions


HYBRID = fl.sparse_coo_tensor([[0, 2]], fl.tensor([[1.0, 2.0], [3.0, 4.0]]), (3, 2))


@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_stack(how, dim):
    a, b = matrix(5, 7), matrix(5, 7, seed=3)
    got = fl.stack([sparse(a, how), sparse(b, how)], dim)
    assert got.is_sparse
    near(got, np.stack([a, b], dim))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_stack_and_cat_along_dense_axes(dim):
    x = HYBRID.to_dense()
    near(fl.stack([HYBRID, HYBRID * 2], dim), np.stack([x, x * 2], dim))
    near(fl.cat([HYBRID, HYBRID * 2], min(dim, 1)), np.concatenate([x, x * 2], min(dim, 1)))


def test_gradients_of_stack_unbind_and_sparse_mask():
    values = fl.tensor([1.0, 2.0, 3.0], dtype=fl.float64, requires_grad=True)
    mask = fl.sparse_coo_tensor([[0, 1], [1, 1]], fl.ones(2), (2, 2))

    def f(v):
        x = fl.sparse_coo_tensor([[0, 0, 1], [0, 1, 0]], v, (2, 2))
        y = fl.stack([x, x * x], 1).unbind(1)[1]
        return y.to_dense() + (x * 3).sparse_mask(mask).to_dense()

    assert gradcheck(f, (values,)) and gradgradcheck(f, (values,))


@pytest.mark.parametrize("how", LAYOUTS)
def test_unbind(how):
    a = matrix(4, 3)
    for dim in (0, 1):
        for got, want in zip(sparse(a, how).unbind(dim), np.moveaxis(a, dim, 0), strict=True):
            near(got, want)


def test_unbind_of_more_than_fits():
    """Before one of them is made."""
    with pytest.raises(fl.OutOfMemoryError, match="unbind would make 1099511627776 tensors"):
        list(fl.sparse_coo_tensor(fl.zeros(1, 0, dtype=fl.int64), fl.zeros(0, 3), (1 << 40, 3)))


@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("density", [0.0, 0.4])
def test_sparse_mask_of_a_sparse_tensor(how, density):
    a, b = matrix(6, 5, density=density), matrix(6, 5, seed=4)
    got = sparse(a, how).sparse_mask(sparse(b, how))
    assert got.layout == sparse(b, how).layout and got._nnz() == (b != 0).sum()
    near(got, np.where(b != 0, a, 0))


def test_sparse_mask_keeps_dense_axes():
    mask = fl.sparse_coo_tensor([[1, 2]], fl.ones(2, 2), (3, 2))
    assert HYBRID.sparse_mask(mask).values().tolist() == [[0.0, 0.0], [3.0, 4.0]]
    with pytest.raises(RuntimeError, match="the tensor has 1 sparse axes, mask 2; expected the same number"):
        HYBRID.sparse_mask(HYBRID.to_dense().to_sparse())


def test_questions_to_values():
    x = fl.sparse_coo_tensor([[0, 1, 2]], fl.tensor([1.0, float("nan"), float("-inf")]), (4,))
    assert x.isnan().to_dense().tolist() == [False, True, False, False]
    assert x.isinf().to_dense().tolist() == x.isneginf().to_dense().tolist() == [False, False, True, False]
    assert not x.isposinf().any() and x.isnan().any() and not fl.zeros(3).to_sparse().any()
    with pytest.raises(ValueError, match="any: dim = 0; expected None"):
        x.any(0)


def test_parts_of_complex_numbers():
    x = fl.sparse_coo_tensor([[1]], fl.tensor([2.0 + 3.0j]), (2,))
    assert x.real.to_dense().tolist() == [0.0, 2.0] and x.imag.to_dense().tolist() == [0.0, 3.0]
    assert HYBRID.real.to_dense().tolist() == HYBRID.to_dense().tolist()


@pytest.mark.parametrize("indices", [[[0.0, 2.0]], [[False, True]], fl.tensor([[0, 2]], dtype=fl.uint8)], ids=["floats", "bools", "bytes"])
def test_indices_of_other_types(indices):
    x = fl.sparse_coo_tensor(indices, fl.tensor([1.0, 2.0]), (3,))
    places = x.coalesce().indices()
    assert places.dtype is fl.int64 and places.tolist() == fl.as_tensor(indices).long().tolist()


def test_an_index_that_is_no_whole_number_is_refused():
    with pytest.raises(TypeError, match="indices are flambeau.float32, and one of them is no whole number; expected integers"):
        fl.sparse_coo_tensor([[0.0, 1.5]], fl.ones(2), (3,))


def test_one_place_takes_a_number():
    x = fl.sparse_coo_tensor([[0], [1]], 1.5, (2, 2))
    assert x.to_dense().tolist() == [[0.0, 1.5], [0.0, 0.0]] and x.values().tolist() == [1.5]
    with pytest.raises(ValueError, match=r"indices have shape \[2, 2\], values \[1\]"):
        fl.sparse_coo_tensor([[0, 1], [1, 0]], 1.5, (2, 2))


@pytest.mark.parametrize("how", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_segments_of_rows(how, initial):
    data = fl.arange(24.0).reshape(2, 4, 3)
    lengths = fl.tensor([[1, 3, 0], [2, 1, 1]])
    offsets = fl.cat([fl.zeros(2, 1, dtype=fl.int64), lengths.cumsum(1)], 1)
    expected = fl.stack([fl.segment_reduce(data[i], how, lengths=lengths[i], initial=initial) for i in range(2)])
    for given in ({"lengths": lengths}, {"offsets": offsets}):
        got = fl.segment_reduce(data, how, axis=1, initial=initial, **given)
        assert fl.allclose(got, expected, equal_nan=True)
    with pytest.raises(fl.ShapeError, match="expected the data's axes before `axis`, and one of segments"):
        fl.segment_reduce(data, how, lengths=lengths, axis=0)
    with pytest.raises(ValueError, match=r"add up to \[4, 5\]; expected 4"):
        fl.segment_reduce(data, how, lengths=lengths + fl.tensor([[0], [1]]) * fl.tensor([0, 0, 1]), axis=1)


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda x: x // 2, [0, 1, -2]), (lambda x: fl.floor_divide(x, fl.tensor(2.0)), [0, 1, -2]), (lambda x: x // -2, [0, -2, 1]),
        (lambda x: fl.div(x, 2, rounding_mode="trunc"), [0, 1, -1]), (lambda x: x.div(2, rounding_mode="floor"), [0, 1, -2]),
    ],
)  # fmt: skip
def test_quotients_are_rounded(f, want):
    assert f(fl.sparse_coo_tensor([[1, 2]], [3.0, -3.0], (3,))).to_dense().tolist() == want
    sums = f(fl.sparse_coo_tensor([[1, 1, 2]], [1.0, 2.0, -3.0], (3,)))  # what is rounded is the sum
    assert sums.to_dense().tolist() == want and sums.layout is fl.sparse_coo


def test_one_element_is_a_number_and_how_a_tensor_lies():
    x = fl.sparse_coo_tensor([[0, 0]], [5.0, 1.0], (1,))
    assert (x.item(), float(x), int(x), bool(x), x.is_nonzero()) == (6.0, 6.0, 6, True, True)
    assert fl.sparse_coo_tensor(size=(1, 1)).item() == 0 and not fl.sparse_coo_tensor(size=(1,))
    assert (X.is_contiguous(), X.stride(), X.stride(-1), X.storage_offset()) == (False, (0, 0), 0, 0)


@pytest.mark.parametrize("layout", [fl.strided, fl.sparse_coo, fl.sparse_csr, fl.sparse_csc])
def test_zeros_like_in_another_layout(layout):
    zeros = fl.zeros_like(X, layout=layout, dtype=fl.float64)
    assert zeros.layout is layout and zeros.dtype is fl.float64 and zeros.to_dense().tolist() == [[0] * 3] * 2


@pytest.mark.parametrize(
    "call", [lambda: X.exp(), lambda: X + 1, lambda: X.numpy(), lambda: X.view(6), lambda: X == X, lambda: fl.ones(2, 3).div_(X), lambda: X**-1], ids=range(7)
)
def test_what_is_not_there_is_not_implemented(call):
    """PyTorch raises a RuntimeError or a NotImplementedError, which is one; operators of Python's are refused with a TypeError."""
    with pytest.raises(NotImplementedError) as caught:
        call()
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, RuntimeError)
