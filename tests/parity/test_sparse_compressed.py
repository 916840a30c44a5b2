"""The four compressed layouts beside PyTorch: how they are made, their parts, batches, conversions, products, gradients and text."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from beside import assert_same, torch, values

import flambeau as fl

warnings.filterwarnings("ignore", "Sparse")  # PyTorch's announcements

MATRIX = np.array([[1.0, 0, 2, 0], [0, 0, 0, 3], [0, 4, 0, 0], [5, 0, 0, 6], [0, 7, 0, 0], [8, 0, 0, 0]])
DENSE = np.random.default_rng(0).standard_normal((4, 3))
BLOCK = (3, 2)
MAKERS = {
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr(BLOCK),
    "bsc": lambda x: x.to_sparse_bsc(BLOCK),
    "csr with dense axes": lambda x: x.to_sparse_csr(dense_dim=1),
    "csc with dense axes": lambda x: x.to_sparse_csc(dense_dim=1),
    "bsr with dense axes": lambda x: x.to_sparse_bsr(BLOCK, dense_dim=1),
    "layout=": lambda x: x.to_sparse(layout=fl.sparse_bsc if isinstance(x, fl.Tensor) else torch.sparse_bsc, blocksize=BLOCK),
}


def given(lib, name, batch=(), grad=False):
    x = np.stack([MATRIX, MATRIX * 10]).reshape(*batch, 6, 4) if batch else MATRIX
    x = x[..., None] * np.array([1.0, -2.0]) if "dense" in name else x
    return lib.tensor(x, requires_grad=grad)


def parts(x):
    names = ("crow_indices", "col_indices") if "sr" in str(x.layout) else ("ccol_indices", "row_indices")
    return [getattr(x, name)() for name in names] + [x.values()]


@pytest.mark.parametrize("batch", [(), (2,), (1, 2)], ids=str)
@pytest.mark.parametrize("name", MAKERS)
def test_of_a_dense_tensor(name, batch):
    ours, theirs = (MAKERS[name](given(lib, name, batch)) for lib in (fl, torch))
    for mine, other in zip(parts(ours), parts(theirs), strict=True):
        assert_same(mine, other)
    what = [(x._nnz(), x.sparse_dim(), x.dense_dim(), x.is_sparse, x.is_sparse_csr, tuple(x.shape), repr(x.layout)) for x in (ours, theirs)]
    assert what[0][:-1] == what[1][:-1] and what[0][-1].partition(".")[2] == what[1][-1].partition(".")[2]
    assert_same(ours.to_dense(), given(torch, name, batch))  # PyTorch can not turn all of these back
    text = [" ".join(repr(x).split()).replace("torch.", "flambeau.") for x in (ours, theirs)]
    assert text[0] == text[1]


@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
@pytest.mark.parametrize("name", MAKERS)
def test_of_its_parts(name, batch):
    held = MAKERS[name](given(torch, name, batch))
    found = []
    for lib in (fl, torch):
        make = getattr(lib, f"{repr(held.layout).partition('.')[2]}_tensor")
        inner = [lib.tensor(part.numpy()) for part in parts(held)]
        found.append([make(*inner, size=tuple(held.shape)), make(*inner), lib.sparse_compressed_tensor(*inner, layout=getattr(lib, repr(held.layout)[6:]))])
    for ours, theirs in zip(*found):
        assert tuple(ours.shape) == tuple(theirs.shape)
        for mine, other in zip(parts(ours), parts(theirs), strict=True):
            assert_same(mine, other)
    assert_same(found[0][0].to_dense(), given(torch, name, batch))


@pytest.mark.parametrize("source", ["csr", "csc", "bsr", "bsc", "coo"])
@pytest.mark.parametrize("target", ["csr", "csc", "bsr", "bsc", "coo"])
def test_from_one_to_another(source, target):
    def run(lib):
        x = given(lib, source).to_sparse() if source == "coo" else MAKERS[source](given(lib, source))
        return x.to_sparse().coalesce() if target == "coo" else MAKERS[target](x)

    ours = run(fl)
    assert_same(ours.to_dense(), torch.tensor(MATRIX))
    try:
        theirs = run(torch)
    except RuntimeError:
        return  # PyTorch has no such conversion
    held = (lambda x: [x.indices(), x.values()]) if target == "coo" else parts
    for mine, other in zip(held(ours), held(theirs), strict=True):
        assert_same(mine, other)


CASES = {
    "@": lambda lib, s, d: s @ d,
    "mv": lambda lib, s, d: s @ d[:, 0],
    "dense @": lambda lib, s, d: d.t() @ s.transpose(0, 1),
    "t": lambda lib, s, d: s.t().to_dense(),
    "addmm": lambda lib, s, d: lib.addmm(d[:1], s, d, beta=0.5, alpha=2.0),
    "linear": lambda lib, s, d: lib.nn.functional.linear(d.t(), s, d[0, :1].expand(6)),
    "sum": lambda lib, s, d: s.sum(),
    "mul": lambda lib, s, d: (s * 3.0).to_dense(),
    "relu": lambda lib, s, d: (-s).relu().to_dense(),
    "add": lambda lib, s, d: (s + s * 2).to_dense(),
    "mask": lambda lib, s, d: (d @ d.t()).repeat(2, 1)[:6].sparse_mask(s.detach()).to_dense(),
    "to_dense": lambda lib, s, d: s.to_dense() * 2.0,
    "row": lambda lib, s, d: s[3].to_dense(),
    "layouts": lambda lib, s, d: lib.tensor([len(repr(y.layout)) for y in (s + s, s * 2, s.t(), s.clone(), lib.zeros_like(s), s.double())]) + 0.0 * d.sum(),
}  # fmt: skip


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, layout):
    """Gradients by the values, and by the dense tensor that they were taken from."""
    ours, theirs = ([given(lib, layout, grad=True), lib.tensor(DENSE, requires_grad=True)] for lib in (fl, torch))
    plain = torch.tensor(MATRIX)
    got = CASES[name](fl, MAKERS[layout](ours[0]), ours[1])
    try:
        want = CASES[name](torch, MAKERS[layout](theirs[0]), theirs[1])
    except (RuntimeError, NotImplementedError):  # not with this layout
        want = CASES[name](torch, plain if name != "row" else plain.to_sparse(), theirs[1])
    length = len("flambeau") - len("torch") if name == "layouts" else 0
    np.testing.assert_allclose(values(got.detach()), values(want.detach()) + length, rtol=1e-9, atol=1e-12)
    if name in ("layouts", "mask"):
        return
    weights = np.random.default_rng(9).standard_normal(tuple(want.shape))
    (got * fl.tensor(weights)).sum().backward()
    dense = [plain.requires_grad_(), torch.tensor(DENSE, requires_grad=True)]  # what PyTorch has without a layout, at the places of ours
    same = dense[0][3] if name == "row" else (-dense[0]).relu() if name == "relu" else CASES[name](torch, *dense)
    (same * torch.tensor(weights)).sum().backward()
    places = torch.tensor(1.0 if layout.startswith("b") else (MATRIX != 0) * 1.0)  # no block is all 0
    np.testing.assert_allclose(values(ours[0].grad), values(dense[0].grad * places), rtol=1e-9, atol=1e-10)
    if dense[1].grad is not None:
        np.testing.assert_allclose(values(ours[1].grad), values(dense[1].grad), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_batches(layout):
    def run(lib):
        x = MAKERS[layout](given(lib, layout, (2,)))
        return [x[1].to_dense(), x[0].values(), (x * 2).values(), x.transpose(1, 2).to_dense(), (x + x).values()]

    for mine, other in zip(run(fl), run(torch), strict=True):
        assert_same(mine, other)
    x = MAKERS[layout](given(fl, layout, (2,), grad=True))  # a product that PyTorch has on a GPU alone
    np.testing.assert_allclose(values(fl.bmm(x, fl.tensor(np.stack([DENSE, DENSE]))).detach()), np.stack([MATRIX @ DENSE, 10 * MATRIX @ DENSE]))


WRONG = {
    "blocks that do not fill": lambda lib: lib.eye(4).to_sparse_bsr((3, 2)),
    "no block": lambda lib: lib.eye(4).to_sparse(layout=lib.sparse_bsr),
    "different numbers in a batch": lambda lib: lib.stack([lib.eye(3), lib.ones(3, 3)]).to_sparse_csr(),
    "no matrix": lambda lib: lib.ones(3).to_sparse_csc(),
    "columns of rows": lambda lib: lib.eye(3).to_sparse_csr().ccol_indices(),
    "rows of columns": lambda lib: lib.eye(3).to_sparse_csc().col_indices(),
    "a row outside": lambda lib: lib.sparse_csc_tensor([0, 1, 2], [0, 2], [1.0, 2.0], (2, 2)),
    "starts that do not ascend": lambda lib: lib.sparse_csc_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2)),
    "a batch of which one is wrong": lambda lib: lib.sparse_csr_tensor([[0, 1, 2], [0, 2, 1]], [[0, 1], [0, 1]], lib.ones(2, 2), (2, 2, 2)),
    "too few batches": lambda lib: lib.sparse_csr_tensor([[0, 1, 2], [0, 1, 2]], [[0, 1]], lib.ones(1, 2), (2, 2, 2)),
    "a size that blocks do not fill": lambda lib: lib.sparse_bsr_tensor([0, 1], [0], lib.ones(1, 2, 2), (2, 3)),
    "values without blocks": lambda lib: lib.sparse_bsr_tensor([0, 1], [0], lib.ones(1), (2, 2)),
    "another layout": lambda lib: lib.sparse_compressed_tensor([0, 1], [0], [1.0], layout=lib.strided),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    """Refused by both; the indices of PyTorch's are checked where that is asked for."""
    with torch.sparse.check_sparse_tensor_invariants(), pytest.raises((RuntimeError, IndexError)):
        WRONG[name](torch)
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        WRONG[name](fl)
