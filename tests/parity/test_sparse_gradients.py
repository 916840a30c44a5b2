"""Sparse gradients beside PyTorch: embeddings and bags, sums, optimizers over twenty steps, a skip-gram program."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pytest
from beside import torch

import flambeau as fl

warnings.filterwarnings("ignore")
LIBS = (fl, torch)
V, D = 11, 4
PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "compat/programs/skip_gram.py"


def table(lib):
    return lib.tensor(np.random.default_rng(0).standard_normal((V, D)), requires_grad=True)


def alike(ours, theirs):
    """Sparse tensors of the same places, in their order, and the same values; or dense ones."""
    assert ours.is_sparse == theirs.is_sparse and tuple(ours.shape) == tuple(theirs.shape)
    if ours.is_sparse:
        assert ours.is_coalesced() == theirs.is_coalesced() or ours._nnz() < 2
        assert (ours.sparse_dim(), ours.dense_dim()) == (theirs.sparse_dim(), theirs.dense_dim())
        np.testing.assert_array_equal(ours._indices().numpy(), theirs._indices().numpy())
        ours, theirs = ours._values(), theirs._values()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12, atol=1e-14)


def both(f):
    return [f(lib) for lib in LIBS]


@pytest.mark.parametrize("seed", range(12))
def test_random_embeddings(seed):
    rng = np.random.default_rng(seed)
    index = rng.integers(0, V, tuple(rng.integers(0, 5, rng.integers(0, 4))))
    padding = None if seed % 3 else int(rng.integers(-V, V))
    factors = rng.standard_normal((*index.shape, D))

    def run(lib):
        w = table(lib)
        rows = lib.nn.functional.embedding(lib.tensor(index), w, padding_idx=padding, max_norm=1.0 if seed % 2 else None, sparse=True)
        (rows**2 * lib.tensor(factors)).sum().backward()
        return w.grad, w

    for ours, theirs in zip(*both(run)):
        alike(ours, theirs)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("seed", range(6))
def test_random_bags(seed, mode):
    rng = np.random.default_rng(seed)
    index = rng.integers(0, V, (3, 4))
    padding = None if seed % 2 else 1
    factors = rng.standard_normal((3, 4)) if mode == "sum" and seed % 3 == 0 else None

    def run(lib):
        w = table(lib)
        given = None if factors is None else lib.tensor(factors)
        if seed < 3:
            out = lib.nn.functional.embedding_bag(lib.tensor(index), w, mode=mode, padding_idx=padding, per_sample_weights=given, sparse=True)
        else:
            given = None if given is None else given.reshape(-1)
            flat, offsets = lib.tensor(index.reshape(-1)), lib.tensor([0, 3, 3, 8])
            out = lib.nn.functional.embedding_bag(flat, w, offsets, mode=mode, padding_idx=padding, per_sample_weights=given, sparse=True)
        (out**2).sum().backward()
        return w.grad

    alike(*both(run))


USES = {
    "one": lambda lib, f, w: f(w, [1, 2, 1]),
    "two": lambda lib, f, w: f(w, [1, 2]) + f(w, [2, 0]),
    "dense too": lambda lib, f, w: f(w, [1, 2]) + (w**2).sum(),
    "dense first": lambda lib, f, w: (w**2).sum() + f(w, [1, 2]),
    "scaled": lambda lib, f, w: f(w * 3, [1, 2]),
    "through exp": lambda lib, f, w: f(w.exp(), [1, 2]),
    "a row": lambda lib, f, w: f(w * lib.arange(4.0).double(), [1, 2]),
}


@pytest.mark.parametrize("again", [0, 1, 2])
@pytest.mark.parametrize("name", USES)
def test_sums(name, again):
    def run(lib):
        w = table(lib)

        def f(x, index):
            return lib.nn.functional.embedding(lib.tensor(index), x, sparse=True).sum()

        USES[name](lib, f, w).backward()
        for _ in range(again):
            f(w, [3, 1]).backward()
        return w.grad

    ours, theirs = both(run)
    if ours.is_sparse:
        ours, theirs = ours.coalesce(), theirs.coalesce()
    alike(ours, theirs)


def test_gather_and_products():
    def run(lib):
        x = lib.tensor(np.random.default_rng(1).standard_normal((3, 4)), requires_grad=True)
        lib.gather(x, 1, lib.tensor([[0, 0], [1, 2], [3, 1]]), sparse_grad=True).sum().backward()
        s = lib.sparse_coo_tensor(lib.tensor([[0, 1, 1], [2, 0, 2]]), lib.tensor([1.0, 2.0, 3.0]), (2, 3)).coalesce().requires_grad_()
        d = lib.tensor(np.random.default_rng(2).standard_normal((3, 2)).astype(np.float32), requires_grad=True)
        first, second = lib.autograd.grad((lib.sparse.mm(s, d) ** 2).sum(), [s, d])
        return x.grad, first.coalesce(), second

    for ours, theirs in zip(*both(run)):
        np.testing.assert_allclose(ours.to_dense().numpy(), theirs.to_dense().numpy(), rtol=1e-5)
        assert ours.is_sparse == theirs.is_sparse


STEPS = [("SparseAdam", {}), ("SparseAdam", {"maximize": True, "betas": (0.5, 0.9), "eps": 1e-3}), ("SGD", {}), ("SGD", {"maximize": True}),
         ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("SGD", {"momentum": 0.5, "dampening": 0.3}),
         ("Adagrad", {}), ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.2}), ("Adagrad", {"maximize": True})]  # fmt: skip


@pytest.mark.parametrize("name, options", STEPS, ids=str)
def test_twenty_steps(name, options):
    def run(lib):
        rng = np.random.default_rng(7)
        net = lib.nn.Embedding(V, D, sparse=True, _weight=table(lib).detach())
        optimizer = getattr(lib.optim, name)(net.parameters(), lr=0.05, **options)
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = (net(lib.tensor(rng.integers(0, V, 6))) ** 3).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        state = {k: v.to_dense().numpy() for k, v in optimizer.state[net.weight].items() if hasattr(v, "to_dense") and v.ndim}
        return losses, net.weight.detach().numpy(), state

    ours, theirs = both(run)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-10)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-10)
    assert ours[2].keys() == theirs[2].keys()
    for key, value in ours[2].items():
        np.testing.assert_allclose(value, theirs[2][key], rtol=1e-9, atol=1e-12)


WRONG = {
    "Adam": lambda lib, w: lib.optim.Adam([w]).step(),
    "RMSprop": lambda lib, w: lib.optim.RMSprop([w]).step(),
    "SGD decays": lambda lib, w: lib.optim.SGD([w], lr=0.1, weight_decay=0.1).step(),
    "Adagrad decays": lambda lib, w: lib.optim.Adagrad([w], lr=0.1, weight_decay=0.1).step(),
    "lr": lambda lib, w: lib.optim.SparseAdam([w], lr=0),
    "eps": lambda lib, w: lib.optim.SparseAdam([w], eps=0),
    "betas": lambda lib, w: lib.optim.SparseAdam([w], betas=(1.0, 0.9)),
    "clip norm": lambda lib, w: lib.nn.utils.clip_grad_norm_([w], 1.0),
    "clip value": lambda lib, w: lib.nn.utils.clip_grad_value_([w], 1.0),
    "maxima": lambda lib, w: lib.nn.functional.embedding_bag(lib.tensor([[1]]), w, mode="max", sparse=True),
    "frequencies": lambda lib, w: lib.nn.functional.embedding(lib.tensor([1]), w, scale_grad_by_freq=True, sparse=True).sum().backward(),
    "dense hook": lambda lib, w: (w.register_hook(lambda g: g.to_dense()), lib.nn.functional.embedding(lib.tensor([1]), w, sparse=True).sum().backward()),
    "other shape": lambda lib, w: setattr(w, "grad", lib.sparse_coo_tensor(lib.tensor([[1]]), lib.ones(1, D).double(), (V + 1, D))),
    "other type": lambda lib, w: setattr(w, "grad", lib.sparse_coo_tensor(lib.tensor([[1]]), lib.ones(1, D), (V, D))),
    "rows": lambda lib, w: setattr(w, "grad", lib.ones(V, D).double().to_sparse_csr()),
    "slice": lambda lib, w: lib.nn.functional.embedding(lib.tensor([1]), w[:5], sparse=True).sum().backward(),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    classes = []
    for lib in LIBS:
        w = table(lib)
        lib.nn.functional.embedding(lib.tensor([1, 2]), w, sparse=True).sum().backward()
        before = w.detach().clone()
        with pytest.raises((RuntimeError, ValueError)) as caught:
            WRONG[name](lib, w)
        assert (w.detach() == before).all()
        classes.append(caught.value)
    wanted = RuntimeError if name == "slice" else type(classes[1])  # a NotImplementedError of its dispatcher's
    assert isinstance(classes[0], wanted), classes


@pytest.mark.parametrize("optimizer", ["SparseAdam", "SGD", "Adagrad"])
def test_skip_gram(optimizer):
    """A program with negative sampling, unmodified, gives PyTorch's losses."""
    ours = subprocess.run([sys.executable, "-m", "flambeau", "run", str(PROGRAM), optimizer], capture_output=True, text=True, timeout=600)
    theirs = subprocess.run([sys.executable, str(PROGRAM), optimizer], capture_output=True, text=True, timeout=600)
    assert ours.returncode == theirs.returncode == 0, ours.stderr + theirs.stderr
    a, b = ([float(n) for n in out.stdout.split()[1::2]] for out in (ours, theirs))
    assert len(a) == len(b) > 5 and a[-1] < a[0] - 0.3
    np.testing.assert_allclose(a, b, rtol=2e-5)


@pytest.mark.parametrize("same_places", [True, False])
@pytest.mark.parametrize("layout", ["to_sparse_coo", "to_sparse_csr"])
def test_through_functions_of_programs(layout, same_places):
    """Gradients reach a Function's sparse inputs, sparse and dense ones, and come to it where its results are sparse."""

    def results(lib):
        class Product(lib.autograd.Function):
            @staticmethod
            def forward(ctx, a, x):
                ctx.save_for_backward(a, x)
                return a.to_dense() @ x, x.to_sparse()

            @staticmethod
            def backward(ctx, dy, dz):
                assert dz.is_sparse
                a, x = ctx.saved_tensors
                da = lib.outer(dy, x)
                da = da.sparse_mask(a) if same_places else getattr(da, layout)()
                return da, a.to_dense().t() @ dy + dz.to_dense()

        dense = lib.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]], dtype=lib.float64)
        a = getattr(dense, layout)().requires_grad_()
        x = lib.tensor([2.0, 5.0, -1.0], dtype=lib.float64, requires_grad=True)
        y, z = Product.apply(a, x)
        assert y.requires_grad and z.requires_grad
        (y.sum() + lib.sparse.sum(z * 3)).backward()
        return a.grad.to_dense() * (dense != 0), x.grad

    for ours, theirs in zip(*both(results)):
        alike(ours, theirs)
