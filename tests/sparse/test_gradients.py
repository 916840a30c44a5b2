"""Gradients that are sparse: where they come from, what is added to them, who takes them, all beside dense ones and NumPy."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from support.leaks import assert_nothing_stays

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F

V, D = 9, 3
INDEX = np.array([[1, 2, 1, 8], [5, 0, 1, 2]])


def table(dtype=fl.float64, rows=V):
    return fl.tensor(np.random.default_rng(0).standard_normal((rows, D)), dtype=dtype, requires_grad=True)


def weights(*shape, seed=1):
    return fl.tensor(np.random.default_rng(seed).standard_normal(shape))


def looked_up(w, index=INDEX, sparse=True, **options):
    index = fl.tensor(index)
    rows = F.embedding(index, w, sparse=sparse, **options)
    return (rows * weights(*index.shape, D)).sum()


def scattered(index, values, rows=V):
    out = np.zeros((rows, D))
    np.add.at(out, np.asarray(index).reshape(-1), np.asarray(values).reshape(-1, D))
    return out


DENSE = scattered(INDEX, weights(2, 4, D).numpy())


def test_the_gradient_has_a_place_for_each_index():
    w = table()
    looked_up(w).backward()
    g = w.grad
    assert g.is_sparse and g.layout is fl.sparse_coo and not g.is_coalesced()
    assert g.shape == w.shape and g.dtype == w.dtype and g.device == w.device
    assert (g.sparse_dim(), g.dense_dim(), g._nnz()) == (1, 1, 8)
    assert g._indices().tolist() == [INDEX.reshape(-1).tolist()] and g._indices().dtype == fl.int64
    np.testing.assert_array_equal(g._values().numpy(), weights(2, 4, D).numpy().reshape(-1, D))
    np.testing.assert_allclose(g.to_dense().numpy(), DENSE, rtol=1e-14)
    c = g.coalesce()
    assert c.is_coalesced() and c.indices().tolist() == [[0, 1, 2, 5, 8]]
    np.testing.assert_allclose(c.to_dense().numpy(), DENSE, rtol=1e-14)
    assert w.grad is g


@pytest.mark.parametrize("dtype", [fl.float16, fl.bfloat16, fl.float32])
@pytest.mark.parametrize("kind", [fl.int32, fl.int64])
def test_types(dtype, kind):
    w = table(dtype)
    F.embedding(fl.tensor(INDEX).to(kind), w, sparse=True).sum().backward()
    assert w.grad.dtype is dtype and w.grad._indices().dtype is fl.int64
    assert w.grad.to_dense()[:3, 0].tolist() == [1, 3, 2]


@pytest.mark.parametrize("index", [3, [], [[]], [2], [-0]])
def test_shapes_of_indices(index):
    w = table()
    F.embedding(fl.tensor(index, dtype=fl.int64), w, sparse=True).sum().backward()
    assert w.grad._nnz() == np.size(index)
    assert w.grad.to_dense().sum().item() == D * np.size(index)


@pytest.mark.parametrize("padding", [1, -1, 4])
def test_padding_has_no_place(padding):
    w = table()
    looked_up(w, padding_idx=padding).backward()
    kept = INDEX.reshape(-1) != padding % V
    assert w.grad._indices().tolist() == [INDEX.reshape(-1)[kept].tolist()]
    np.testing.assert_array_equal(w.grad._values().numpy(), weights(2, 4, D).numpy().reshape(-1, D)[kept])


def test_modules():
    for layer in (nn.Embedding(V, D, sparse=True, padding_idx=0), nn.Embedding(V, D, sparse=True, max_norm=0.5)):
        layer(fl.tensor(INDEX)).sum().backward()
        assert layer.weight.grad.is_sparse
    assert repr(nn.Embedding(V, D, sparse=True)) == "Embedding(9, 3, sparse=True)"
    assert nn.Embedding.from_pretrained(fl.zeros(4, 2), sparse=True).sparse


def test_max_norm_and_frequencies():
    w = table()
    norms = np.linalg.norm(w.detach().numpy(), axis=1)
    F.embedding(fl.tensor(INDEX), w, max_norm=0.5, sparse=True).sum().backward()
    used = np.unique(INDEX)
    assert (np.linalg.norm(w.detach().numpy(), axis=1)[used] <= 0.5 + 1e-6).all()
    unused = np.setdiff1d(np.arange(V), used)
    np.testing.assert_array_equal(np.linalg.norm(w.detach().numpy(), axis=1)[unused], norms[unused])
    assert w.grad._nnz() == 8
    with pytest.raises(ValueError, match="scale_grad_by_freq is not supported with sparse gradients"):
        F.embedding(fl.tensor(INDEX), w, scale_grad_by_freq=True, sparse=True)
    with fl.no_grad():
        F.embedding(fl.tensor(INDEX), w, scale_grad_by_freq=True, sparse=True)


@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags(mode, padding):
    factors = fl.tensor(np.random.default_rng(4).standard_normal((2, 4)), requires_grad=True) if mode == "sum" else None
    grads = []
    for sparse in (True, False):
        w = table()
        out = F.embedding_bag(fl.tensor(INDEX), w, mode=mode, padding_idx=padding, per_sample_weights=factors, sparse=sparse)
        grads.append(fl.autograd.grad((out * weights(2, D)).sum(), [w] if factors is None else [w, factors]))
    assert grads[0][0].is_sparse and not grads[1][0].is_sparse
    for a, b in zip(*grads):
        np.testing.assert_allclose(a.to_dense().numpy(), b.to_dense().numpy(), rtol=1e-12, atol=1e-14)
    bag = nn.EmbeddingBag(V, D, mode=mode, sparse=True, padding_idx=padding)
    bag(fl.tensor(INDEX.reshape(-1)), fl.tensor([0, 3, 3])).sum().backward()
    assert bag.weight.grad.is_sparse and bag.weight.grad._nnz() == 8 - 3 * (padding is not None)


def test_bags_of_maxima_are_refused():
    with pytest.raises(ValueError, match="sparse = True with mode = 'max'"):
        nn.EmbeddingBag(V, D, mode="max", sparse=True)(fl.tensor([[1, 2]]))


# ---------------------------------------------------------------------------------------- sums


def test_sparse_and_sparse_stays_sparse():
    w = table()
    (looked_up(w) + looked_up(w, [3, 1])).backward()
    assert w.grad.is_sparse and w.grad._nnz() == 10
    both = DENSE + scattered([3, 1], weights(2, D).numpy())
    np.testing.assert_allclose(w.grad.to_dense().numpy(), both, rtol=1e-14)
    g = w.grad
    g.coalesce()  # keeps how it was merged
    looked_up(w, [0]).backward()
    assert w.grad is g and g._nnz() == 11
    want = both + scattered([0], weights(1, D).numpy())
    np.testing.assert_allclose(g.to_dense().numpy(), want, rtol=1e-14)
    np.testing.assert_allclose(g.coalesce().to_dense().numpy(), want, rtol=1e-14)


@pytest.mark.parametrize("order", ["sparse first", "dense first"])
@pytest.mark.parametrize("how", ["one graph", "two backwards"])
def test_sparse_and_dense_is_dense(order, how):
    w = table()
    parts = [looked_up(w), (w * 2).sum()]
    parts = parts if order == "sparse first" else parts[::-1]
    if how == "one graph":
        (parts[0] + parts[1]).backward()
    else:
        for part in parts:
            part.backward()
    assert not w.grad.is_sparse and type(w.grad) is fl.Tensor
    np.testing.assert_allclose(w.grad.numpy(), DENSE + 2, rtol=1e-14)
    g = w.grad
    looked_up(w).backward()
    assert w.grad is g
    np.testing.assert_allclose(g.numpy(), 2 * DENSE + 2, rtol=1e-14)


def test_a_gradient_is_nobody_elses_memory():
    index = fl.tensor(INDEX)
    w = table()
    dy = weights(2, 4, D)
    F.embedding(index, w, sparse=True).backward(dy)
    index.zero_()
    w.grad._values().mul_(5)
    np.testing.assert_array_equal(dy.numpy(), weights(2, 4, D).numpy())
    np.testing.assert_allclose(w.grad.to_dense().numpy(), 5 * DENSE, rtol=1e-14)


def test_grad_returns_it():
    w = table()
    (g,) = fl.autograd.grad(looked_up(w), w)
    assert g.is_sparse and w.grad is None
    np.testing.assert_allclose(g.to_dense().numpy(), DENSE, rtol=1e-14)
    fl.autograd.backward(looked_up(w), inputs=[w])
    assert w.grad.is_sparse


def test_second_derivatives():
    w, dense = table(), table()
    for x, sparse in ((w, True), (dense, False)):
        loss = (F.embedding(fl.tensor(INDEX), x, sparse=sparse) ** 3).sum()
        (g,) = fl.autograd.grad(loss, x, create_graph=True)
        assert g.requires_grad and g.is_sparse is sparse
        (g.to_dense() ** 2).sum().backward()
    assert w.grad.is_sparse
    np.testing.assert_allclose(w.grad.to_dense().numpy(), dense.grad.numpy(), rtol=1e-12)
    w = table()
    looked_up(w * 2).backward(create_graph=True)
    assert w.grad.is_sparse


# ---------------------------------------------------------------------------------------- graphs


FLOWS = {
    "times a number": lambda w: w * 2.5,
    "times a tensor": lambda w: w * weights(V, D, seed=7),
    "times a row": lambda w: w * weights(D, seed=7),
    "times a column": lambda w: w * weights(V, 1, seed=7),
    "times itself": lambda w: w * w,
    "quotient": lambda w: w / weights(V, D, seed=7),
    "sum": lambda w: w + 1 + w,
    "difference": lambda w: 1 - w,
    "minus": lambda w: -w,
    "clone": lambda w: w.clone(),
    "exp": lambda w: w.exp(),
    "sum of tables": lambda w: w + table(),
}


@pytest.mark.parametrize("name", FLOWS)
def test_flows_through(name):
    w, dense = table(), table()
    looked_up(FLOWS[name](w)).backward()
    looked_up(FLOWS[name](dense), sparse=False).backward()
    assert w.grad.is_sparse
    np.testing.assert_allclose(w.grad.to_dense().numpy(), dense.grad.numpy(), rtol=1e-12, atol=1e-14)


REFUSING = {
    "slice": lambda w: w[:8],
    "transpose": lambda w: w.t().clone().t(),
    "view": lambda w: w.view(D, V).view(V, D),
    "product of matrices": lambda w: w @ fl.eye(D).double(),
    "cat": lambda w: fl.cat([w, w]),
    "relu": lambda w: F.relu(w),
    "rows": lambda w: w[fl.arange(V)],
}


@pytest.mark.parametrize("name", REFUSING)
def test_what_takes_no_sparse_gradient_refuses_it(name):
    w = table()
    loss = looked_up(REFUSING[name](w), INDEX % 8)
    with pytest.raises(RuntimeError, match="got a sparse gradient of shape .* make the embedding's weight a leaf, or pass sparse=False"):
        loss.backward()
    assert w.grad is None


@pytest.mark.parametrize("shape", [(), (D,), (1, D), (V, 1), (1, 1)], ids=str)
def test_what_was_broadcast_gets_sums(shape):
    grads = []
    for sparse in (True, False):
        w, b = table(), fl.tensor(np.full(shape, 2.0), requires_grad=True)
        grads.append(fl.autograd.grad(looked_up(w * 3 + b, sparse=sparse), [w, b]))
    assert grads[0][0].is_sparse and not grads[0][1].is_sparse
    for a, b in zip(*grads):
        np.testing.assert_allclose(a.to_dense().numpy(), b.numpy(), rtol=1e-12)
    x = table(fl.float32)
    looked_up(x * fl.ones(D, dtype=fl.float64)).backward()  # computed in a wider type
    assert x.grad.dtype is fl.float32 and x.grad.shape == x.shape


def test_views_that_were_written_refuse():
    w = table()
    base = w * 1
    base[0].mul_(2)
    with pytest.raises(RuntimeError, match=r"CopySlices: got a sparse gradient of shape \[9, 3\]"):
        looked_up(base).backward()


def test_functions_in_python_are_handed_it():
    seen = []

    class Twice(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, dy):
            seen.append(dy.is_sparse)
            return dy * 2

    w = table()
    looked_up(Twice.apply(w)).backward()
    assert seen == [True] and w.grad.is_sparse
    np.testing.assert_allclose(w.grad.to_dense().numpy(), 2 * DENSE, rtol=1e-14)


def test_functions_in_python_may_make_it():
    class Rows(fl.autograd.Function):
        @staticmethod
        def forward(ctx, w, index):
            ctx.save_for_backward(index)
            ctx.shape = w.shape
            return w[index]

        @staticmethod
        def backward(ctx, dy):
            (index,) = ctx.saved_tensors
            return fl.sparse_coo_tensor(index.unsqueeze(0), dy, ctx.shape), None

    w = table()
    Rows.apply(w, fl.tensor([4, 4])).sum().backward()
    assert w.grad.is_sparse and w.grad.to_dense()[4].tolist() == [2, 2, 2]


def test_hooks():
    w = table()
    seen = []
    w.register_hook(lambda g: seen.append(("hook", g.is_sparse)))
    w.register_hook(lambda g: g * 2)
    w.register_post_accumulate_grad_hook(lambda p: seen.append(("after", p.grad.is_sparse)))
    looked_up(w).backward()
    assert seen == [("hook", True), ("after", True)] and w.grad.is_sparse
    np.testing.assert_allclose(w.grad.to_dense().numpy(), 2 * DENSE, rtol=1e-14)
    w.register_hook(lambda g: g.to_dense())
    before = w.grad._nnz()
    with pytest.raises(RuntimeError, match=r"returned a dense gradient of shape \[9, 3\] for a sparse one"):
        looked_up(w).backward()
    assert w.grad._nnz() == before


def test_retain_grad_and_node_hooks():
    w = table()
    y = w * 1
    y.retain_grad()
    seen = []
    loss = looked_up(y)
    y.grad_fn.register_hook(lambda into, out: seen.append((into[0].is_sparse, out[0].is_sparse)))
    loss.backward()
    assert y.grad.is_sparse and w.grad.is_sparse and seen == [(True, True)]


def test_anomaly_mode_looks_at_values():
    w = table()
    with fl.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="returned nan values"):
        F.embedding(fl.tensor([1]), w * 1, sparse=True).backward(fl.full((1, D), float("nan"), dtype=fl.float64))


def test_gather():
    x = weights(3, 4).requires_grad_()
    index = fl.tensor([[0, 0], [1, 2], [3, 1]])
    fl.gather(x, 1, index, sparse_grad=True).backward(weights(3, 2, seed=5))
    assert x.grad.is_sparse and (x.grad.sparse_dim(), x.grad.dense_dim()) == (2, 0)
    assert x.grad._indices().tolist() == [[0, 0, 1, 1, 2, 2], [0, 0, 1, 2, 3, 1]]
    y = weights(3, 4).requires_grad_()
    y.gather(-1, index).backward(weights(3, 2, seed=5))
    np.testing.assert_array_equal(x.grad.to_dense().numpy(), y.grad.numpy())
    x.gather(0, fl.tensor([[0, 0, 2, 1]]), sparse_grad=True).sum().backward()
    assert x.grad._nnz() == 10
    (x * 1).sum().backward()
    assert not x.grad.is_sparse


def test_gather_of_a_number():
    x = fl.tensor(2.0, requires_grad=True)
    x.gather(0, fl.tensor([0]), sparse_grad=True).sum().backward()
    assert x.grad.is_sparse and x.grad.to_dense().item() == 1
    (x * 3).backward()
    assert x.grad.item() == 4


def test_sparse_leaves_of_products():
    values = weights(3).requires_grad_()
    s = fl.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], values.detach(), (2, 3)).requires_grad_()
    b = weights(3, 2, seed=3).requires_grad_()
    ds, db = fl.autograd.grad(fl.sparse.mm(s, b).sum(), [s, b])
    assert ds.is_sparse and not db.is_sparse and ds._indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    np.testing.assert_allclose(ds._values().numpy(), b.detach().numpy().sum(1)[[2, 0, 2]], rtol=1e-14)
    fl.sparse.mm(s, b).sum().backward(inputs=[s])
    assert s.grad.is_sparse and b.grad is None


# ---------------------------------------------------------------------------------------- .grad


def some(rows=V):
    return fl.sparse_coo_tensor([[0, 2]], fl.ones(2, D, dtype=fl.float64), (rows, D))


def test_set_and_clear():
    w = table()
    w.grad = g = some()
    assert w.grad is g
    looked_up(w).backward()
    assert w.grad is g and g._nnz() == 10
    w.grad = None
    assert w.grad is None
    with pytest.raises(RuntimeError, match=r"got float64 \[10, 3\]"):
        w.grad = some(10)
    with pytest.raises(RuntimeError, match="got float32"):
        w.grad = some().to(fl.float32)
    with pytest.raises(RuntimeError):
        w.grad = fl.ones(V, D, dtype=fl.float64).to_sparse_csr()
    assert w.grad is None


def test_other_axes_with_indices_do_not_add_up():
    w = table()
    w.grad = fl.ones(V, D, dtype=fl.float64).to_sparse()
    with pytest.raises(RuntimeError, match=r"2 and 1 axes with indices"):
        looked_up(w).backward()
    assert w.grad._nnz() == V * D


@pytest.mark.parametrize("to_none", [True, False])
def test_zero_grad(to_none):
    layer = nn.Embedding(V, D, sparse=True)
    layer(fl.tensor(INDEX)).sum().backward()
    g = layer.weight.grad
    optimizer = fl.optim.SparseAdam(layer.parameters())
    optimizer.zero_grad(set_to_none=to_none)
    assert layer.weight.grad is (None if to_none else g)
    if not to_none:
        assert g._nnz() == 0 and g.is_sparse and g.shape == (V, D)
        layer(fl.tensor(INDEX)).sum().backward()
        assert layer.weight.grad._nnz() == 8
    layer.zero_grad(set_to_none=to_none)


def test_detach():
    w = table()
    (F.embedding(fl.tensor(INDEX), w, sparse=True) ** 2).sum().backward(create_graph=True)
    g = w.grad
    assert g.grad_fn is not None
    assert g.detach_() is g and g.grad_fn is None and w.grad is g
    assert g.requires_grad_(False) is g
    g.zero_()
    assert w.grad._nnz() == 0


def test_copies_and_pickles():
    w = table()
    looked_up(w).backward()
    twin = copy.deepcopy(w)
    assert twin.grad.is_sparse and twin.grad is not w.grad
    twin.grad._values().zero_()
    np.testing.assert_allclose(w.grad.to_dense().numpy(), DENSE, rtol=1e-14)
    assert pickle.loads(pickle.dumps(w)).grad is None
    g = pickle.loads(pickle.dumps(w.grad))
    assert g.is_sparse and g._nnz() == 8
    layer = nn.Embedding(V, D, sparse=True)
    layer(fl.tensor(INDEX)).sum().backward()
    assert copy.deepcopy(layer).weight.grad is None
    assert layer.weight.grad.clone()._nnz() == 8


@pytest.mark.parametrize("f", [lambda p: nn.utils.clip_grad_norm_(p, 0.1), lambda p: nn.utils.clip_grad_value_(p, 0.1)])
def test_clipping_is_refused(f):
    w, other = table(), weights(3).requires_grad_()
    (looked_up(w) + other.sum()).backward()
    with pytest.raises(NotImplementedError, match=r"gradient 1 \(shape \[9, 3\]\) is sparse"):
        f([other, w])
    assert other.grad.tolist() == [1, 1, 1]


# ---------------------------------------------------------------------------------------- modes and memory


def test_lazy():
    with fl.lazy():
        w = table()
        (looked_up(w) + looked_up(w * 2, padding_idx=1)).backward()
        g = w.grad
    kept = (INDEX != 1)[..., None]
    np.testing.assert_allclose(g.to_dense().numpy(), DENSE + 2 * scattered(INDEX, weights(2, 4, D).numpy() * kept), rtol=1e-13)


@pytest.mark.eager("compiled steps")
def test_compile():
    layer = nn.Embedding(V, D, sparse=True)
    optimizer = fl.optim.SparseAdam(layer.parameters(), lr=0.1)
    plain = copy.deepcopy(layer)
    other = fl.optim.SparseAdam(plain.parameters(), lr=0.1)

    def step(layer, optimizer, index):
        optimizer.zero_grad()
        loss = (layer(index) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    fast = fl.compile(lambda index: step(layer, optimizer, index), mode="replay")
    for k in range(5):
        index = fl.tensor([k, 2 * k % V, 3])
        assert fast(index).item() == pytest.approx(step(plain, other, index).item(), rel=1e-6)
    np.testing.assert_allclose(layer.weight.detach().numpy(), plain.weight.detach().numpy(), rtol=1e-6)


def test_func():
    w = table().detach()
    g = fl.func.grad(lambda w: looked_up(w))(w)
    np.testing.assert_allclose(g.to_dense().numpy(), DENSE, rtol=1e-14)


@pytest.mark.eager("threads")
def test_threads_add_to_one_leaf():
    w = table()

    def work(k):
        for _ in range(50):
            F.embedding(fl.tensor([k, 0]), w, sparse=True).sum().backward()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert w.grad.is_sparse and w.grad._nnz() <= w.numel() + 2
    assert w.grad.to_dense()[:, 0].tolist() == [200, 50, 50, 50, 50, 0, 0, 0, 0]


@pytest.mark.eager("memory")
def test_memory_goes_with_the_last_reference():
    def action():
        w = table(rows=1000)
        looked_up(w).backward()
        looked_up(w).backward()
        w.grad.coalesce()
        copy.deepcopy(w)
        (looked_up(w) + w.sum()).backward()
        looked_up(table() * 2).backward(create_graph=True)
        F.embedding_bag(fl.tensor(INDEX), table(), sparse=True).sum().backward()
        weights(3, 4).requires_grad_().gather(0, fl.tensor([[0, 0, 2, 1]]), sparse_grad=True).sum().backward()
        for name, options in (("SGD", {"momentum": 0.9}), ("Adagrad", {}), ("SparseAdam", {})):
            layer = nn.Embedding(V, D, sparse=True)
            optimizer = getattr(fl.optim, name)(layer.parameters(), lr=0.1, **options)
            for _ in range(2):
                layer(fl.tensor(INDEX)).sum().backward()
                optimizer.step()
            optimizer.zero_grad(set_to_none=False)

    assert_nothing_stays(action)


@pytest.mark.eager("memory")
@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_a_step_makes_no_second_table(name):
    layer = nn.Embedding(100_000, 16, sparse=True)
    optimizer = getattr(fl.optim, name)(layer.parameters(), lr=0.1)
    index = fl.arange(0, 99_000, 1000)

    def step():
        optimizer.zero_grad()
        (layer(index) ** 2).sum().backward()
        optimizer.step()

    step()
    fl.reset_peak_memory_stats()
    before = fl.memory_stats()["allocated_bytes"]
    step()
    assert fl.memory_stats()["peak_allocated_bytes"] - before < 1_000_000


# ---- replays


def test_a_replayed_step_over_a_sparse_gradient_follows_its_options():
    found = []
    for mode in ("replay", None):
        w = fl.ones(6, 2, requires_grad=True)
        optimizer = fl.optim.Adagrad([w], lr=0.1)
        w.grad = fl.sparse_coo_tensor([[1, 2]], fl.ones(2, 2), (6, 2)).coalesce()
        step = fl.compile(lambda optimizer=optimizer: optimizer.step(), mode=mode) if mode else optimizer.step
        for _ in range(7):
            step()
        optimizer.param_groups[0]["lr"] = 10.0
        step(), step()
        found.append((w.tolist(), optimizer.state[w]["step"]))
    assert found[0] == found[1]


@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("write", [lambda s: s.add_(s), lambda s: s.copy_(s * 2)], ids=["add_", "copy_"])
def test_a_replay_reads_the_parts_of_now(layout, write):
    s = fl.eye(3).to_sparse_csr() if layout == "csr" else fl.eye(3).to_sparse()
    read = (lambda: s.values()) if layout == "csr" else (lambda: s._values())
    f = fl.compile(lambda x: x + read().sum(), mode="replay")
    with fl.no_grad():
        for _ in range(7):
            assert f(fl.zeros(1)).item() == 3
        write(s)
        assert f(fl.zeros(1)).item() == 6


# ---- types and layouts


def test_casts_of_a_weight_go_on_with_sparse_gradients():
    layer = nn.Embedding(5, 2, sparse=True)
    F.embedding(fl.tensor([1, 1]), layer.weight.double(), sparse=True).sum().backward()
    grad = layer.weight.grad
    assert grad.is_sparse and grad.dtype is fl.float32
    assert grad.to_dense().tolist() == [[0, 0], [2, 2], [0, 0], [0, 0], [0, 0]]


def test_a_gradient_is_nobody_elses():
    layer, kept = nn.Embedding(5, 2, sparse=True), []
    layer.weight.grad = fl.sparse_coo_tensor(fl.empty((1, 0), dtype=fl.int64), fl.empty(0, 2), (5, 2))
    layer.weight.register_hook(kept.append)
    layer(fl.tensor([1])).sum().backward(create_graph=True)
    assert layer.weight.grad is not kept[0]
    kept[0].detach().zero_()
    assert layer.weight.grad.to_dense()[1].tolist() == [1, 1]


def test_data_of_another_layout_is_refused():
    w, s = nn.Parameter(fl.ones(3, 3)), fl.eye(3).to_sparse()
    with pytest.raises(RuntimeError, match=r"data: got a sparse tensor \[3, 3\] for a dense one"):
        w.data = s


def test_a_copy_of_a_sparse_tensor_is_sparse():
    s = fl.eye(3).to_sparse()
    t = fl.tensor(s)
    t._values().zero_()
    assert t.is_sparse and s.to_dense().tolist() == fl.eye(3).tolist()
    assert fl.tensor(s, dtype=fl.float64).dtype is fl.float64


def test_gradients_that_add_up_have_each_place_once():
    for sizes in ((3, 2), (2, 3, 2)):
        table = fl.nn.Parameter(fl.zeros(*sizes))
        index = fl.tensor([[i for i in range(sizes[0])] * 2] + [[1, 0] * sizes[0]] * (len(sizes) - 2))
        values = fl.arange(index.shape[1] * sizes[-1], dtype=fl.float32).reshape(-1, sizes[-1])
        total = fl.zeros(*sizes)
        for k in range(20):
            grad = fl.sparse_coo_tensor(index, values * k, sizes)
            total += grad.to_dense()
            table.grad = grad if table.grad is None else table.grad
            if k:
                fl.autograd.backward([table], [grad])
        assert table.grad._nnz() <= table.numel() + index.shape[1]
        assert fl.equal(table.grad.to_dense(), total)


def test_an_embedding_s_gradient_stays_small():
    layer, index = fl.nn.Embedding(3, 2, sparse=True), fl.arange(3)
    for _ in range(100):
        layer(index).sum().backward()
    assert layer.weight.grad._nnz() <= 6 and layer.weight.grad.to_dense().tolist() == [[100, 100]] * 3


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda x: x.to_dense() * fl.tensor([3.0, 4.0]), [3, 0]), (lambda x: fl.sparse.sum(x), [1, 0]),
        (lambda x: (x * x).to_dense(), [6, 0]), (lambda x: (x * 2).to_dense(), [2, 0]), (lambda x: x.coalesce().values() * 3, [3, 0]),
        (lambda x: (x + x).to_dense(), [2, 0]), (lambda x: x.clone().to(fl.float64).to_dense(), [1, 0]),
        (lambda x: fl.sparse.mm(x.unsqueeze(0), fl.tensor([[5.0], [7.0]])), [5, 0]),
    ],
)  # fmt: skip
def test_a_place_that_is_there_twice_has_its_gradient_once(f, want):
    x = fl.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,)).requires_grad_()
    f(x).sum().backward()
    assert x.grad.to_dense().tolist() == want
    (g,) = fl.autograd.grad(f(x).sum(), x)
    assert g.to_dense().tolist() == want
    again = copy.deepcopy(x)
    f(again).sum().backward()
    assert again.grad.to_dense().tolist() == [2 * g for g in want] and x.grad.to_dense().tolist() == want


def test_gradients_once_belong_to_the_tensor_and_not_to_its_values():
    v = fl.tensor([1.0, 2.0], requires_grad=True)
    x = fl.sparse_coo_tensor([[0, 0]], v, (2,))
    y = x * 3
    (g,) = fl.autograd.grad(y.to_dense().sum(), y, retain_graph=True)
    assert g.to_dense().tolist() == [1, 0]
    y.to_dense().sum().backward()
    assert v.grad.tolist() == [3, 3]
    leaf = fl.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,), requires_grad=True)
    assert leaf.is_leaf and leaf._values().tolist() == [1, 2] and not leaf._values().requires_grad
