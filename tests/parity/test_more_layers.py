"""Layers and functions that are seldom used, beside PyTorch: random arguments, gradients and wrong calls."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest
from beside import assert_same, beside, both_raise, randn, torch

import flambeau as fl


def ints(*shape, low=0, high, seed=0):
    return np.random.default_rng(seed).integers(low, high, shape)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("size", [((2, 3, 5, 4), (2, 3, 6, 2)), ((1, 1, 1, 7), (1, 4, 4, 2)), ((2, 2, 3, 4, 5), (2, 2, 3, 4, 3)), ((1, 2, 1, 1), (1, 2, 2, 2)), ((0, 3, 5, 4), (0, 3, 6, 2))], ids=str)
def test_grid_sample(size, mode, padding, align):
    if mode == "bicubic" and len(size[0]) == 5:
        both_raise(lambda lib: lib.nn.functional.grid_sample(lib.zeros(*size[0]), lib.zeros(*size[1]), mode=mode))
        return
    for scale in (0.7, 3.0):
        beside(lambda lib, x, g: lib.nn.functional.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=align), randn(*size[0]), scale * randn(*size[1], seed=3), scale=100)


@pytest.mark.parametrize("dtype", [np.float32])
def test_grid_sample_of_floats(dtype):
    beside(lambda lib, x, g: lib.nn.functional.grid_sample(x, g, align_corners=False), randn(2, 8, 9, 9, dtype=dtype), 0.8 * randn(2, 5, 5, 2, dtype=dtype))


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 3, 4, 5), (1, 1, 1, 1), (2, 3, 1, 6)], ids=str)
def test_affine_grid(size, align):
    n = len(size) - 2
    beside(lambda lib, t: lib.nn.functional.affine_grid(t, size, align_corners=align), randn(size[0], n, n + 1))


CTC = [(12, 4, 6, 5), (5, 3, 4, 2), (8, 1, 3, 3), (20, 6, 9, 7)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("t, n, c, s", CTC)
def test_ctc_loss(t, n, c, s, reduction, seed):
    rng = np.random.default_rng(seed)
    blank = int(rng.integers(0, c))
    labels = rng.integers(0, c - 1, (n, s))
    labels += labels >= blank
    inputs, counts = rng.integers(1, t + 1, n), rng.integers(0, s + 1, n)
    rows = np.concatenate([labels[i, : counts[i]] for i in range(n)])
    lengths = tuple(inputs.tolist()), tuple(counts.tolist())
    for given in (labels, rows):
        for zero in (True, False):
            if not zero and reduction != "none":
                continue  # infinite
            def call(lib, x, given=given, zero=zero):
                loss = lib.nn.functional.ctc_loss(x.log_softmax(-1), lib.tensor(given), *lengths, blank=blank, reduction=reduction, zero_infinity=zero)
                return loss if zero else loss.masked_fill(loss == float("inf"), 0.0)
            if len(rows):
                beside(call, randn(t, n, c, seed=seed), scale=100, grad=zero)  # PyTorch multiplies 0 by infinity without zero_infinity
    m = {"reduction": reduction, "blank": blank, "zero_infinity": True}
    tensors = [np.asarray(v) for v in lengths]
    beside(lambda lib, x, a, b: lib.nn.CTCLoss(**m)(x.log_softmax(-1), lib.tensor(labels), a, b), randn(t, n, c, seed=seed), *tensors, scale=100)


def test_ctc_loss_of_one_sequence():
    beside(lambda lib, x: lib.nn.functional.ctc_loss(x.log_softmax(-1), lib.tensor([1, 2]), lib.tensor(7), lib.tensor(2)), randn(7, 4), scale=10)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 3, -1])
def test_embedding_bag(mode, padding_idx):
    w = randn(7, 4)
    for index, offsets, last in ((ints(3, 5, high=7), None, False), (ints(9, high=7), np.array([0, 0, 4, 9]), False), (ints(9, high=7), np.array([0, 3, 9]), True)):
        def call(lib, weight, index=index, offsets=offsets, last=last):
            return lib.nn.functional.embedding_bag(lib.tensor(index), weight, None if offsets is None else lib.tensor(offsets), mode=mode, include_last_offset=last, padding_idx=padding_idx)
        beside(call, w)
    if mode == "sum":
        beside(lambda lib, weight, f: lib.nn.functional.embedding_bag(lib.tensor(ints(3, 5, high=7)), weight, per_sample_weights=f, mode="sum", padding_idx=padding_idx), w, randn(3, 5))
    else:
        both_raise(lambda lib: lib.nn.functional.embedding_bag(lib.tensor([[1]]), lib.ones(2, 2), per_sample_weights=lib.ones(1, 1), mode=mode))
    beside(lambda lib, weight: lib.nn.EmbeddingBag(7, 4, _weight=weight, mode=mode, padding_idx=padding_idx)(lib.tensor(ints(3, 5, high=7))), w, grad=False)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("batch", [(2, 3), (3,)], ids=str)
def test_max_unpool(axes, batch):
    x = randn(*batch, *(7, 6, 5)[:axes])
    for kernel, stride, padding in ((2, None, 0), (3, 2, 1), (2, 1, 0)):
        def call(lib, x, kernel=kernel, stride=stride, padding=padding):
            top, at = getattr(lib.nn.functional, f"max_pool{axes}d")(x, kernel, stride, padding, return_indices=True)
            return getattr(lib.nn.functional, f"max_unpool{axes}d")(top, at, kernel, stride, padding, output_size=x.shape[-axes:] if stride != 1 else None)
        beside(call, x, grad=stride != 1)  # of windows that overlap, one of equal places wins
    def pool(lib):
        return getattr(lib.nn, f"MaxUnpool{axes}d")(2)
    beside(lambda lib, x, at: pool(lib)(x, at), randn(*batch, *(2,) * axes), np.broadcast_to(np.arange(2**axes).reshape((2,) * axes), (*batch, *(2,) * axes)).copy())


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("batch", [(2, 3), (3,)], ids=str)
@pytest.mark.parametrize("how", [{"output_size": 3}, {"output_size": (4, 2, 3)}, {"output_ratio": 0.5}, {"output_ratio": (0.5, 0.3, 0.8)}], ids=str)
def test_fractional_max_pool(axes, batch, how):
    how = {k: v[:axes] if isinstance(v, tuple) else (v,) * axes for k, v in how.items()}
    samples = np.random.default_rng(1).uniform(size=((1, 3) if len(batch) == 1 else batch) + (axes,))
    def call(lib, x):
        return getattr(lib.nn.functional, f"fractional_max_pool{axes}d")(x, 2, **how, return_indices=True, _random_samples=lib.tensor(samples))
    beside(call, randn(*batch, *(9, 8, 7)[:axes]))
    beside(lambda lib, x: getattr(lib.nn, f"FractionalMaxPool{axes}d")(2, **how, _random_samples=lib.tensor(samples))(x), randn(*batch, *(9, 8, 7)[:axes]))


@pytest.mark.parametrize("axes", [1, 3])
def test_lp_pool(axes):
    x = np.abs(randn(2, 3, *(9, 8, 7)[:axes])) + 0.1
    for p, kernel, stride, ceil in ((2, 2, None, False), (3, 3, 2, True), (1.5, 2, 1, False)):
        beside(lambda lib, x, p=p, kernel=kernel, stride=stride, ceil=ceil: getattr(lib.nn, f"LPPool{axes}d")(p, kernel, stride, ceil)(x), x)


@pytest.mark.parametrize("name", ["max_pool1d", "max_pool2d", "max_pool3d"])
def test_pools_with_indices(name):
    axes = int(name[-2])
    beside(lambda lib, x: getattr(lib.nn.functional, f"{name}_with_indices")(x, 2, 1), randn(2, 3, *(5, 4, 3)[:axes]))
    beside(lambda lib, x: getattr(lib.nn.functional, f"adaptive_{name}_with_indices")(x, 2), randn(2, 3, *(5, 4, 3)[:axes]))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins(reduction):
    for p, margin, weight, shape in itertools.product((1, 2), (1.0, 0.3), (None, np.array([0.5, 1.0, 2.0, 0.1])), ((5, 4), (4,))):
        target = ints(*shape[:-1], high=4) if len(shape) == 2 else np.array(2)
        beside(lambda lib, x, p=p, margin=margin, weight=weight, target=target: lib.nn.functional.multi_margin_loss(x, lib.tensor(target), p, margin, None if weight is None else lib.tensor(weight), reduction=reduction), randn(*shape))
    for target in ([[1, 3, -1, 0], [0, -1, -1, -1], [-1, 2, 1, 0], [3, 2, 1, 0], [2, 2, -1, 1]], [1, 3, -1, 0]):
        beside(lambda lib, x, target=target: lib.nn.MultiLabelMarginLoss(reduction=reduction)(x, lib.tensor(target)), randn(*np.shape(target)))
    y = ints(5, 4, high=2).astype(np.float64)
    for weight in (None, np.array([0.5, 1.0, 2.0, 0.1])):
        beside(lambda lib, x, weight=weight: lib.nn.MultiLabelSoftMarginLoss(None if weight is None else lib.tensor(weight), reduction=reduction)(x, lib.tensor(y)), randn(5, 4))
    for swap in (True, False):
        beside(lambda lib, a, b, c, swap=swap: lib.nn.TripletMarginWithDistanceLoss(margin=0.5, swap=swap, reduction=reduction)(a, b, c), randn(5, 4), randn(5, 4, seed=1), randn(5, 4, seed=2), scale=10)
        beside(lambda lib, a, b, c, swap=swap: lib.nn.functional.triplet_margin_with_distance_loss(a, b, c, distance_function=lambda u, v: (u - v).abs().sum(-1), swap=swap, reduction=reduction), randn(5, 4), randn(5, 4, seed=1), randn(5, 4, seed=2))


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("shape", [(5, 3), (1, 3), (0, 3), (4, 1)], ids=str)
def test_pdist(shape, p):
    beside(lambda lib, x: lib.nn.functional.pdist(x, p), randn(*shape), grad=p > 0 and shape[0] > 1)  # PyTorch's gradient of no pairs reads beyond memory


def test_channel_shuffle():
    for shape, groups in (((2, 6, 3), 2), ((2, 6, 3, 4), 3), ((1, 4, 2, 2, 2), 4), ((2, 4, 3), 1)):
        beside(lambda lib, x, groups=groups: lib.nn.ChannelShuffle(groups)(x), randn(*shape))


@pytest.mark.parametrize("seed", range(8))
def test_multi_head_attention_forward(seed):
    rng = np.random.default_rng(seed)
    e, heads, length, s, n = 8, 2, 4, 5, 3
    batched, separate, kv, zero, average, weights = (bool(b) for b in rng.integers(0, 2, 6))
    def shape(k):
        return (k, n, e) if batched else (k, e)
    masks = {0: None, 1: rng.normal(size=(length, s)), 2: rng.integers(0, 2, (length, s)).astype(bool) & (np.arange(s) > 0), 3: rng.normal(size=((n if batched else 1) * heads, length, s))}
    mask, pad = masks[int(rng.integers(0, 4))], rng.integers(0, 2, (n, s)).astype(bool) & (np.arange(s) > 0) if rng.random() < 0.5 else None
    if pad is not None and not batched:
        pad = pad[0]
    if mask is not None and mask.dtype == bool:
        pad = None  # else torch warns of two kinds of masks
    static = rng.normal(size=((n if batched else 1) * heads, s, e // heads)) if rng.random() < 0.3 and not kv else None

    def call(lib, q, k, v, w, b, ow, ob, wq, wk, wv, bk, bv):
        def t(x):
            return None if x is None else lib.tensor(x)
        return lib.nn.functional.multi_head_attention_forward(
            q, k, v, e, heads, None if separate else w, b, bk if kv else None, bv if kv else None, zero, 0.0, ow, ob, True, t(pad), weights, t(mask),
            use_separate_proj_weight=separate, q_proj_weight=wq if separate else None, k_proj_weight=wk if separate else None, v_proj_weight=wv if separate else None,
            static_k=t(static), static_v=t(static), average_attn_weights=average,
        )  # fmt: skip

    def first_two(lib, *args):
        out, w = call(lib, *args)
        return (out, w) if weights else out

    args = [randn(*shape(length)), randn(*shape(s), seed=1), randn(*shape(s), seed=2), randn(3 * e, e), randn(3 * e), randn(e, e), randn(e), randn(e, e, seed=1), randn(e, e, seed=2), randn(e, e, seed=3), randn(1, 1, e), randn(1, 1, e, seed=1)]
    beside(first_two, *args, scale=100)


@pytest.mark.parametrize("bias", [False, True])
def test_adaptive_log_softmax(bias):
    ours, theirs = fl.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [3, 7, 12], 2.0, bias).double(), torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [3, 7, 12], 2.0, bias).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: fl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    for target in (ints(9, high=20), ints(4, high=3), np.array([19, 0, 12])):
        x = randn(len(target), 8)
        a, b = fl.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        got, want = ours(a, fl.tensor(target)), theirs(b, torch.tensor(target))
        assert_same(tuple(got), tuple(want))
        got.loss.backward()
        want.loss.backward()
        assert_same(a.grad, b.grad)
    assert_same(ours.log_prob(fl.tensor(x)), theirs.log_prob(torch.tensor(x)))
    assert_same(ours.predict(fl.tensor(x)), theirs.predict(torch.tensor(x)))
    assert_same(tuple(ours(fl.tensor(x[0]), fl.tensor(5))), tuple(theirs(torch.tensor(x[0]), torch.tensor(5))))
    for q, p in zip(ours.parameters(), theirs.parameters()):
        assert_same(q.grad, p.grad)


LAZY = {
    "LazyLinear": (lambda m: m(5), (3, 4)), "LazyConv1d": (lambda m: m(6, 3, groups=2), (2, 4, 9)), "LazyConv2d": (lambda m: m(4, 3, 2, 1, bias=False), (2, 3, 8, 8)), "LazyConv3d": (lambda m: m(2, 2), (1, 3, 4, 4, 4)),
    "LazyConvTranspose1d": (lambda m: m(4, 3, groups=2), (2, 4, 9)), "LazyConvTranspose2d": (lambda m: m(4, 3), (2, 3, 8, 8)), "LazyConvTranspose3d": (lambda m: m(2, 2), (1, 3, 4, 4, 4)),
    "LazyBatchNorm1d": (lambda m: m(), (4, 3)), "LazyBatchNorm2d": (lambda m: m(affine=False), (4, 3, 2, 2)), "LazyBatchNorm3d": (lambda m: m(track_running_stats=False), (4, 3, 2, 2, 2)),
    "LazyInstanceNorm1d": (lambda m: m(affine=True), (4, 3, 5)), "LazyInstanceNorm2d": (lambda m: m(track_running_stats=True), (4, 3, 2, 2)), "LazyInstanceNorm3d": (lambda m: m(), (4, 3, 2, 2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(LAZY))
def test_lazy_layers(name):
    make, shape = LAZY[name]
    ours, theirs = make(getattr(fl.nn, name)), make(getattr(torch.nn, name))
    x = randn(*shape, dtype=np.float32)
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
    theirs(torch.tensor(x))
    filled = {k: fl.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
    if name not in ("LazyBatchNorm3d", "LazyInstanceNorm3d"):
        before = make(getattr(fl.nn, name))
        before.load_state_dict(filled)
        assert_same(before.eval()(fl.tensor(x)), theirs.eval()(torch.tensor(x)))
        assert type(before).__name__ == name.removeprefix("Lazy")
    ours(fl.tensor(x))
    assert type(ours).__name__ == type(theirs).__name__ and repr(ours) == repr(theirs)
    ours.load_state_dict(filled)
    assert_same(ours.eval()(fl.tensor(x)), theirs.eval()(torch.tensor(x)))


def test_weight_norm_and_fusion():
    for make, x in ((lambda lib: lib.nn.Linear(4, 3), randn(2, 4)), (lambda lib: lib.nn.Conv2d(3, 4, 2), randn(2, 3, 5, 5))):
        for dim in (0, 1, None):
            ours, theirs = (lib.nn.utils.parametrizations.weight_norm(make(lib).double(), dim=dim) for lib in (fl, torch))
            assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
            ours.load_state_dict({k: fl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
            a, b = ours(fl.tensor(x)), theirs(torch.tensor(x))
            assert_same(a, b)
            a.sum().backward()
            b.sum().backward()
            for n, p in theirs.named_parameters():
                assert_same(dict(ours.named_parameters())[n].grad, p.grad)
            assert_same(ours.weight, theirs.weight)


_READY = {
    "spectral": lambda p, m: p.spectral_norm(m, n_power_iterations=3), "spectral, axis": lambda p, m: p.spectral_norm(m, dim=1),
    **{f"orthogonal, {kind}": lambda p, m, kind=kind: p.orthogonal(m, orthogonal_map=kind) for kind in (None, "matrix_exp", "cayley", "householder")},
    "householder alone": lambda p, m: p.orthogonal(m, orthogonal_map="householder", use_trivialization=False),
}  # fmt: skip


@pytest.mark.parametrize("name", _READY)
@pytest.mark.parametrize("shape", [(4, 4), (4, 3), (3, 4)], ids=str)
def test_ready_parametrizations(name, shape):
    x = randn(2, shape[0])
    theirs = _READY[name](torch.nn.utils.parametrizations, torch.nn.Linear(*shape).double())
    ours = _READY[name](fl.nn.utils.parametrizations, fl.nn.Linear(*shape).double())
    with torch.no_grad():
        for p in theirs.parameters():
            noise = torch.tensor(randn(*p.shape)) * 0.1
            p.add_(noise if p.ndim < 2 else noise * (1 - torch.eye(*p.shape)))  # there the signs of a diagonal are its integers
    assert sorted(ours.state_dict()) == sorted(theirs.state_dict())
    ours.load_state_dict({k: fl.tensor(v.numpy().copy()) for k, v in theirs.state_dict().items()})
    for _ in range(2):
        a, b = ours(fl.tensor(x)), theirs(torch.tensor(x))
        assert_same(a, b)
        (a * a).sum().backward()
        (b * b).sum().backward()
    for n, p in theirs.named_parameters():
        assert_same(dict(ours.named_parameters())[n].grad, p.grad)
    for n, value in theirs.state_dict().items():
        assert_same(ours.state_dict()[n], value)
    ours.eval(), theirs.eval()
    assert_same(ours.weight, theirs.weight)


WRONG = {
    "grid_batch": lambda lib, F: F.grid_sample(lib.zeros(2, 1, 3, 3), lib.zeros(1, 2, 2, 2)), "grid_axes": lambda lib, F: F.grid_sample(lib.zeros(2, 1, 3, 3), lib.zeros(2, 2, 2, 3)), "grid_mode": lambda lib, F: F.grid_sample(lib.zeros(1, 1, 3, 3), lib.zeros(1, 2, 2, 2), mode="cubic"),
    "grid_padding": lambda lib, F: F.grid_sample(lib.zeros(1, 1, 3, 3), lib.zeros(1, 2, 2, 2), padding_mode="mirror"), "grid_types": lambda lib, F: F.grid_sample(lib.zeros(1, 1, 3, 3), lib.zeros(1, 2, 2, 2, dtype=lib.float64)), "grid_empty": lambda lib, F: F.grid_sample(lib.zeros(1, 1, 0, 3), lib.zeros(1, 2, 2, 2)),
    "affine": lambda lib, F: F.affine_grid(lib.zeros(1, 2, 2), (1, 1, 3, 3)), "affine_int": lambda lib, F: F.affine_grid(lib.zeros(1, 2, 3, dtype=lib.int64), (1, 1, 3, 3)), "affine_size": lambda lib, F: F.affine_grid(lib.zeros(1, 2, 3), (1, 1, 0, 3)),
    "ctc_blank": lambda lib, F: F.ctc_loss(lib.zeros(3, 1, 2), lib.tensor([[1]]), (3,), (1,), blank=2), "ctc_input": lambda lib, F: F.ctc_loss(lib.zeros(3, 1, 2), lib.tensor([[1]]), (4,), (1,)), "ctc_lengths": lambda lib, F: F.ctc_loss(lib.zeros(3, 1, 2), lib.tensor([[1]]), (3, 3), (1,)),
    "ctc_target": lambda lib, F: F.ctc_loss(lib.zeros(3, 1, 2), lib.tensor([[1]]), (3,), (2,)), "ctc_reduction": lambda lib, F: F.ctc_loss(lib.zeros(3, 1, 2), lib.tensor([[1]]), (3,), (1,), reduction="max"),
    "bag_mode": lambda lib, F: F.embedding_bag(lib.tensor([[1]]), lib.ones(2, 2), mode="min"), "bag_offsets": lambda lib, F: F.embedding_bag(lib.tensor([1]), lib.ones(2, 2)), "bag_both": lambda lib, F: F.embedding_bag(lib.tensor([[1]]), lib.ones(2, 2), lib.tensor([0])), "bag_start": lambda lib, F: F.embedding_bag(lib.tensor([1, 0]), lib.ones(2, 2), lib.tensor([1])),
    "bag_row": lambda lib, F: F.embedding_bag(lib.tensor([[5]]), lib.ones(2, 2)), "bag_end": lambda lib, F: F.embedding_bag(lib.tensor([1, 0]), lib.ones(2, 2), lib.tensor([0, 5])), "unpool_index": lambda lib, F: F.max_unpool1d(lib.ones(1, 1, 2), lib.tensor([[[0, 9]]]), 2), "unpool_shape": lambda lib, F: F.max_unpool1d(lib.ones(1, 1, 2), lib.tensor([[[0]]]), 2),
    "unpool_size": lambda lib, F: F.max_unpool1d(lib.ones(1, 1, 2), lib.tensor([[[0, 2]]]), 2, output_size=(9,)), "fractional": lambda lib, F: F.fractional_max_pool2d(lib.ones(1, 1, 3, 3), 2, 4), "fractional_none": lambda lib, F: F.fractional_max_pool2d(lib.ones(1, 1, 3, 3), 2),
    "multi_margin_p": lambda lib, F: F.multi_margin_loss(lib.ones(2, 3), lib.tensor([0, 1]), p=3), "multi_margin_class": lambda lib, F: F.multi_margin_loss(lib.ones(2, 3), lib.tensor([0, 3])), "multi_margin_shape": lambda lib, F: F.multi_margin_loss(lib.ones(2, 3), lib.tensor([0])),
    "multilabel_class": lambda lib, F: F.multilabel_margin_loss(lib.ones(1, 2), lib.tensor([[2, -1]])), "multilabel_shape": lambda lib, F: F.multilabel_margin_loss(lib.ones(1, 2), lib.tensor([[1]])), "pdist": lambda lib, F: F.pdist(lib.ones(3)), "pdist_p": lambda lib, F: F.pdist(lib.ones(3, 2), -1.0),
    "shuffle": lambda lib, F: F.channel_shuffle(lib.ones(1, 3, 2), 2), "adaptive": lambda lib, F: lib.nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5, 3]), "adaptive_target": lambda lib, F: lib.nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5])(lib.ones(1, 4), lib.tensor([10])),
    "lazy_conv": lambda lib, F: lib.nn.LazyConv2d(3, 2)(lib.ones(4, 4)), "lazy_groups": lambda lib, F: lib.nn.LazyConv2d(4, 2, groups=2)(lib.ones(1, 3, 4, 4)), "lazy_shape": lambda lib, F: lib.nn.LazyLinear(3).weight.shape, "alpha": lambda lib, F: F.feature_alpha_dropout(lib.ones(3, 3), 1.5, True),
    "fuse": lambda lib, F: lib.nn.utils.fusion.fuse_conv_bn_eval(lib.nn.Conv2d(1, 1, 1), lib.nn.BatchNorm2d(1)), "norm": lambda lib, F: lib.nn.utils.parametrizations.weight_norm(lib.nn.Linear(2, 2), name="nothing"), "triplet": lambda lib, F: F.triplet_margin_with_distance_loss(lib.ones(1), lib.ones(1), lib.ones(1), margin=-1.0),
}  # fmt: skip


@pytest.mark.parametrize("case", list(WRONG))
def test_wrong_calls(case):
    both_raise(lambda lib: WRONG[case](lib, lib.nn.functional))


# ---- pruning, parametrizations, filters that are as wide as what a result stands for


def _filled(library, module):
    with library.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_((library.arange(p.numel()) * 37 % 211 - 105.5 + i / 7).view(p.shape))  # no two of equal size
    return module


def _pruned(library):
    prune = importlib.import_module(f"{library.__name__}.nn.utils.prune")
    net = _filled(library, library.nn.Sequential(library.nn.Conv2d(3, 4, 3), library.nn.Linear(6, 5)))
    prune.ln_structured(net[0], "weight", 2, 2, 0)
    prune.l1_unstructured(net[0], "weight", 0.3)
    masks = [net[0].weight_mask.flatten().tolist()]
    prune.l1_unstructured(net[1], "bias", 2)
    prune.global_unstructured([(net[0], "weight"), (net[1], "weight")], prune.L1Unstructured, amount=0.4)
    prune.ln_structured(net[1], "weight", 1, 1, 1)
    masks += [net[0].weight_mask.flatten().tolist(), net[1].weight_mask.flatten().tolist(), sorted(net.state_dict())]
    prune.remove(net[1], "weight")
    return masks + [[name for name, _ in net.named_parameters()], [v != 0 for v in net[1].weight.flatten().tolist()]]


def test_pruning():
    assert _pruned(fl) == _pruned(torch)


def _parametrized(library):
    class Symmetric(library.nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).transpose(-1, -2)

        def right_inverse(self, w):
            return w.triu()

    class Doubled(library.nn.Module):
        def forward(self, w):
            return w * 2

        def right_inverse(self, w):
            return w / 2

    parametrize = library.nn.utils.parametrize
    layer = parametrize.register_parametrization(_filled(library, library.nn.Linear(3, 3)), "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Doubled())
    out = [layer.weight.flatten().tolist(), sorted(layer.state_dict()), type(layer).__name__]
    layer.weight = library.ones(3, 3)
    layer(library.ones(1, 3)).sum().backward()
    out += [layer.parametrizations.weight.original.flatten().tolist(), layer.parametrizations.weight.original.grad.flatten().tolist()]
    parametrize.remove_parametrizations(layer, "weight")
    return out + [type(layer).__name__, sorted(layer.state_dict()), layer.weight.flatten().tolist()]


def test_parametrizations():
    ours, theirs = _parametrized(fl), _parametrized(torch)
    for a, b in zip(ours, theirs, strict=True):
        assert a == (pytest.approx(b) if isinstance(b[0], float) else b)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_resizing_of_bytes(mode):
    ours, theirs = (library.nn.functional.interpolate((library.arange(2 * 3 * 17 * 24) * 7 % 256).to(library.uint8).view(2, 3, 17, 24), size=(9, 12), mode=mode,
                                                      antialias=True).numpy().astype(int) for library in (fl, torch))  # fmt: skip
    assert abs(ours - theirs).max() <= 1  # weights of 16 bits there
    assert (ours == theirs).mean() > 0.98


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("options", [
    {"size": (7, 9)}, {"size": (30, 11)}, {"scale_factor": 0.4}, {"scale_factor": (0.3, 1.7)}, {"size": (7, 9), "align_corners": True},
    {"scale_factor": 0.4, "recompute_scale_factor": True},
], ids=str)  # fmt: skip
def test_antialiased_resizing(mode, options):
    results = []
    for library in (fl, torch):
        x = library.sin(library.arange(2 * 3 * 17 * 23, dtype=library.float64) * 0.31).view(2, 3, 17, 23).requires_grad_()
        y = library.nn.functional.interpolate(x, mode=mode, antialias=True, **options)
        y.square().sum().backward()
        results.append((y.detach().numpy(), x.grad.numpy()))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
