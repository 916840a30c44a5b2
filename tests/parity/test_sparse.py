"""Sparse tensors and segment_reduce beside PyTorch: values, gradients, layouts and text."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from beside import assert_same, torch, values

import flambeau as fl

warnings.filterwarnings("ignore", "Sparse")  # PyTorch's announcements

ROWS, COLUMNS = [0, 1, 1, 3, 0, 2], [2, 0, 2, 1, 2, 1]
VALUES = np.random.default_rng(0).standard_normal(6)
A, B, C = (np.random.default_rng(k).standard_normal(s) for k, s in ((1, (3, 2)), (2, (5, 4)), (3, (4, 3))))


def coo(lib, v):
    return lib.sparse_coo_tensor(lib.tensor([ROWS, COLUMNS]), v, (4, 3))


def csr(lib, v):
    return lib.sparse_csr_tensor(lib.tensor([0, 1, 3, 4, 6]), lib.tensor([2, 0, 2, 1, 0, 2]), v, (4, 3))


CASES = {
    "mm": lambda lib, s, a, b, c: lib.sparse.mm(s, a),
    "@": lambda lib, s, a, b, c: s @ a,
    "mv": lambda lib, s, a, b, c: s @ a[:, 0],
    "addmm": lambda lib, s, a, b, c: lib.sparse.addmm(lib.ones(4, 2).to(a.dtype), s, a, beta=0.5, alpha=2.0),
    "t": lambda lib, s, a, b, c: s.t() @ b.t(),
    "dense @ sparse": lambda lib, s, a, b, c: b @ s,
    "sparse @ sparse": lambda lib, s, a, b, c: (s @ s.t()).to_dense(),
    "to_dense": lambda lib, s, a, b, c: s.to_dense(),
    "sum": lambda lib, s, a, b, c: lib.sparse.sum(s),
    "sum 0": lambda lib, s, a, b, c: lib.sparse.sum(s, 0).to_dense(),
    "sum 1": lambda lib, s, a, b, c: lib.sparse.sum(s, -1).to_dense(),
    "softmax": lambda lib, s, a, b, c: lib.sparse.softmax(s.coalesce(), 1).to_dense(),
    "log_softmax": lambda lib, s, a, b, c: lib.sparse.log_softmax(s.coalesce(), 0).to_dense(),
    "mul": lambda lib, s, a, b, c: (s * 3).to_dense(),
    "mul sparse": lambda lib, s, a, b, c: (s.coalesce() * s.coalesce()).to_dense(),
    "div": lambda lib, s, a, b, c: (s / 3).to_dense(),
    "add": lambda lib, s, a, b, c: (s + s * 2).to_dense(),
    "sub": lambda lib, s, a, b, c: (s - s * 2).to_dense(),
    "neg": lambda lib, s, a, b, c: (-s).to_dense(),
    "dense + sparse": lambda lib, s, a, b, c: c + s,
    "index_select": lambda lib, s, a, b, c: s.coalesce().index_select(0, lib.tensor([3, 0, 0])).to_dense(),
    "coalesced values": lambda lib, s, a, b, c: s.coalesce().values(),
    "cat": lambda lib, s, a, b, c: lib.cat([s, s], 1).to_dense(),
}  # fmt: skip

@pytest.mark.parametrize("make", [coo, csr], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, make):
    f = CASES[name]
    ours = [fl.tensor(x).requires_grad_() for x in (VALUES, A, B, C)]
    theirs = [torch.tensor(x, requires_grad=True) for x in (VALUES, A, B, C)]
    try:
        want = f(torch, make(torch, theirs[0]), *theirs[1:])
    except (RuntimeError, NotImplementedError) as refused:
        pytest.skip(f"PyTorch: {str(refused).splitlines()[0]}")
    got = f(fl, make(fl, ours[0]), *ours[1:])
    assert_same(got, want)
    weights = np.random.default_rng(9).standard_normal(tuple(want.shape))
    (got * fl.tensor(weights)).sum().backward()
    try:
        (want * torch.tensor(weights)).sum().backward()
    except (RuntimeError, NotImplementedError) as refused:
        pytest.skip(f"PyTorch: {str(refused).splitlines()[0]}")
    for a, b in zip(ours, theirs):
        if b.grad is not None:
            np.testing.assert_allclose(values(a.grad), values(b.grad.to_dense()), rtol=1e-9, atol=1e-10)


def test_leaf_gradient():
    found = []
    for lib in (fl, torch):
        s = coo(lib, lib.tensor(VALUES)).coalesce().detach().requires_grad_()
        lib.sparse.mm(s, lib.tensor(A)).sum().backward()
        assert s.grad.layout is s.layout
        found.append(s.grad)
    assert_same(found[0].to_dense(), found[1].to_dense())
    assert found[0]._indices().tolist() == found[1]._indices().tolist()


FLAGS = {
    "coalesced": lambda lib, s: (s.is_coalesced(), s.coalesce().is_coalesced(), (s + s).is_coalesced(), s.coalesce().t().is_coalesced()),
    "geometry": lambda lib, s: (tuple(s.shape), s.sparse_dim(), s.dense_dim(), s._nnz(), s.coalesce()._nnz(), s.dim(), s.numel(), s.is_sparse),
    "layout": lambda lib, s: [str(x.layout).split(".")[1] for x in (s, s.to_sparse_csr(), s.to_dense(), s.coalesce().to_sparse(), s * 2)],
    "places": lambda lib, s: s.coalesce().indices().tolist(),
    "rows": lambda lib, s: (s.to_sparse_csr().crow_indices().tolist(), s.to_sparse_csr().col_indices().tolist()),
    "dense axes": lambda lib, s: [(x.sparse_dim(), x.dense_dim(), x._nnz()) for x in [s.to_dense().to_sparse(1)]],
    "select": lambda lib, s: (s.coalesce()[1].to_dense().tolist(), s.coalesce()[:, 2].to_dense().tolist()),
    "mask": lambda lib, s: lib.tensor(C).sparse_mask(s.coalesce()).to_dense().tolist(),
}


@pytest.mark.parametrize("name", FLAGS)
def test_properties(name):
    assert FLAGS[name](fl, coo(fl, fl.tensor(VALUES))) == FLAGS[name](torch, coo(torch, torch.tensor(VALUES)))


@pytest.mark.parametrize("how", ["coo", "csr", "grad"])
def test_text(how):
    texts = []
    for lib in (fl, torch):
        x = lib.sparse_coo_tensor(lib.tensor([[0, 1, 1], [2, 0, 2]]), lib.tensor([3.0, 4.0, 5.0]), (2, 3), requires_grad=how == "grad")
        texts.append(repr(x.to_sparse_csr() if how == "csr" else x).replace("torch.", "flambeau."))
    assert " ".join(texts[0].split()) == " ".join(texts[1].split())


@pytest.mark.parametrize("initial", [None, 1.5])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segment_reduce(reduce, initial):
    data = np.random.default_rng(0).standard_normal((7, 3))
    ours, theirs = fl.tensor(data).requires_grad_(), torch.tensor(data, requires_grad=True)
    lengths = [2, 0, 4, 1]
    got = fl.segment_reduce(ours, reduce, lengths=fl.tensor(lengths), initial=initial)
    want = torch.segment_reduce(theirs, reduce, lengths=torch.tensor(lengths), initial=initial)
    assert_same(got, want)
    weights = np.where(np.isfinite(values(want)), 1.0, 0.0) * np.arange(1.0, 5.0)[:, None]
    (got.nan_to_num(0, 0, 0) * fl.tensor(weights)).sum().backward()
    (want.nan_to_num(0, 0, 0) * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(values(ours.grad), values(theirs.grad), rtol=1e-9, atol=1e-12)
