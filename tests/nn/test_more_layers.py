"""Layers and functions that are seldom used, against NumPy and against what they promise."""

import copy
import itertools
import pickle
import warnings

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F


def double(*shape, seed=0):
    return fl.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


# ---------------------------------------------------------------- grids


def bilinear(x, grid, padding, align):
    """[C, H, W] at places [P, 2]."""
    c, h, w = x.shape

    def element(v, n):
        at = (v + 1) / 2 * (n - 1) if align else ((v + 1) * n - 1) / 2
        return np.clip(at, 0, n - 1) if padding == "border" else at

    out = np.zeros((c, len(grid)))
    for p, (gx, gy) in enumerate(grid):
        px, py = element(gx, w), element(gy, h)
        for j, i in itertools.product((int(np.floor(py)), int(np.floor(py)) + 1), (int(np.floor(px)), int(np.floor(px)) + 1)):
            weight = (1 - abs(px - i)) * (1 - abs(py - j))
            if 0 <= i < w and 0 <= j < h:
                out[:, p] += weight * x[:, j, i]
    return out


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_bilinear_samples(padding, align):
    x, grid = double(2, 3, 5, 4), double(2, 6, 1, 2, seed=1)
    got = F.grid_sample(x, grid, padding_mode=padding, align_corners=align)
    for n in range(2):
        want = bilinear(x[n].detach().numpy(), grid[n, :, 0].detach().numpy(), padding, align)
        np.testing.assert_allclose(got[n, :, :, 0].detach().numpy(), want, atol=1e-12)


@pytest.mark.parametrize("mode, shape, places", [("bilinear", (1, 2, 4, 5), (1, 3, 3, 2)), ("bicubic", (2, 2, 4, 5), (2, 3, 2, 2)), ("bilinear", (1, 2, 3, 4, 5), (1, 2, 2, 2, 3))])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_gradients_of_samples(mode, shape, places, padding):
    x, grid = double(*shape), (double(*places, seed=2).detach() * 0.9).requires_grad_()
    assert fl.autograd.gradcheck(lambda a, b: F.grid_sample(a, b, mode=mode, padding_mode=padding, align_corners=False), (x, grid), atol=1e-5)


@pytest.mark.parametrize("shape, places", [((2, 2, 4, 5), (2, 3, 2, 2)), ((1, 2, 3, 4, 3), (1, 2, 2, 2, 3))])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_second_derivatives_of_grid_sample(shape, places, mode, padding):
    if mode == "bicubic" and len(shape) == 5:
        pytest.skip("pictures with two axes alone")
    generator = fl.Generator().manual_seed(0)
    x = fl.randn(*shape, dtype=fl.float64, generator=generator).requires_grad_()
    grid = (fl.rand(*places, dtype=fl.float64, generator=generator) * 1.8 - 0.9).requires_grad_()
    assert fl.autograd.gradgradcheck(lambda a, b: F.grid_sample(a, b, mode, padding, False), (x, grid))


def test_what_grid_samples_second_gradient_refuses():
    x, grid, dy = fl.ones(1, 1, 2, 2), fl.zeros(1, 3, 3, 2), fl.ones(1, 1, 3, 3)
    call = fl._C.ops.grid_sample_double_backward
    with pytest.raises(fl.ShapeError, match="gx has shape"):
        call(fl.ones(1, 1, 2, 3), grid, dy, x, grid, 0, 0, True)
    with pytest.raises(fl.ShapeError, match="ggrid has shape"):
        call(x, fl.zeros(1, 2, 3, 2), dy, x, grid, 0, 0, True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_places_that_are_nowhere_read_nothing_else(value):
    x = fl.ones(1, 2, 3, 3)
    grid = fl.full((1, 1, 1, 2), value)
    for mode in ("bilinear", "nearest", "bicubic"):
        want = [[[[0.0]], [[0.0]]]] if mode == "nearest" or np.isfinite(value) else np.full((1, 2, 1, 1), np.nan)
        np.testing.assert_array_equal(F.grid_sample(x, grid, mode=mode, align_corners=True), want)
        F.grid_sample(x, grid, mode=mode, padding_mode="reflection", align_corners=True)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (1, 2, 3, 4, 5)], ids=str)
def test_the_identity_samples_the_picture_itself(size, align):
    n = len(size) - 2
    theta = fl.eye(n, n + 1, dtype=fl.float64).expand(size[0], n, n + 1)
    x = double(*size)
    assert fl.allclose(F.grid_sample(x, F.affine_grid(theta, size, align_corners=align), align_corners=align), x)
    assert F.grid_sample(x.float(), F.affine_grid(theta, size).float()).dtype is fl.float32


def test_halves_are_sampled_in_float32():
    x, grid = fl.randn(1, 2, 4, 4), fl.rand(1, 3, 3, 2) - 0.5
    want = F.grid_sample(x, grid, align_corners=False)
    assert fl.allclose(F.grid_sample(x.bfloat16(), grid.bfloat16(), align_corners=False).float(), want, atol=0.2)


# ---------------------------------------------------------------- alignments


def all_alignments(log_probs, target, blank):
    """log of the summed probability of all ways, by trying all of them."""
    t, c = log_probs.shape
    total = -np.inf
    for path in itertools.product(range(c), repeat=t):
        merged = [k for k, _ in itertools.groupby(path)]
        if [k for k in merged if k != blank] == list(target):
            total = np.logaddexp(total, sum(log_probs[i, k] for i, k in enumerate(path)))
    return total


@pytest.mark.parametrize("target", [[], [1], [1, 1], [2, 1], [1, 2, 1], [1, 1, 1]], ids=str)
@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_loss_is_the_sum_over_alignments(target, blank):
    target = [(k + 1) % 3 if k == blank else k for k in target]
    scores = double(4, 3)
    log_probs = scores.log_softmax(-1)
    got = F.ctc_loss(log_probs, fl.tensor(target, dtype=fl.int64), [4], [len(target)], blank=blank, reduction="none")
    want = -all_alignments(log_probs.detach().numpy(), target, blank)
    assert got.item() == pytest.approx(want, rel=1e-9)
    if np.isfinite(want):
        check = lambda s: F.ctc_loss(s.log_softmax(-1), fl.tensor([target], dtype=fl.int64).reshape(1, -1), [4], [len(target)], blank=blank)  # noqa: E731
        assert fl.autograd.gradcheck(check, (double(4, 1, 3),))


def test_ctc_loss_of_batches_is_that_of_each():
    x = double(9, 3, 5).log_softmax(-1)
    targets = fl.tensor([[1, 2, 3], [4, 4, 1], [2, 1, 1]])
    lengths, counts = [9, 5, 3], [3, 2, 0]
    both = F.ctc_loss(x, targets, lengths, counts, reduction="none")
    for i in range(3):
        one = F.ctc_loss(x[: lengths[i], i], targets[i, : counts[i]], lengths[i], counts[i], reduction="none")
        assert both[i].item() == pytest.approx(one.item())
    flat = fl.cat([targets[i, : counts[i]] for i in range(3)])
    assert fl.allclose(F.ctc_loss(x, flat, lengths, counts, reduction="none"), both)
    assert fl.equal(F.ctc_loss(x, targets + 0.5, lengths, counts, reduction="none"), both)  # as PyTorch reads floats
    mean = (both / fl.tensor([3.0, 2.0, 1.0], dtype=fl.float64)).mean()
    assert F.ctc_loss(x, targets, lengths, counts).item() == pytest.approx(mean.item())


def test_what_can_not_be_aligned_is_infinite_or_nothing():
    scores = fl.zeros(2, 1, 3, requires_grad=True)
    args = (fl.tensor([[1, 1]]), [2], [2])
    assert F.ctc_loss(scores.log_softmax(-1), *args).item() == np.inf
    loss = nn.CTCLoss(zero_infinity=True)(scores.log_softmax(-1), *args)
    loss.backward()
    assert loss.item() == 0 and scores.grad.abs().sum().item() == 0


# ---------------------------------------------------------------- bags


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_reduced_rows(mode):
    weight = double(6, 3)
    index, offsets = fl.tensor([0, 5, 5, 2, 1]), fl.tensor([0, 2, 2])
    got = F.embedding_bag(index, weight, offsets, mode=mode)
    w = weight.detach().numpy()
    reduce = {"sum": lambda r: r.sum(0), "mean": lambda r: r.mean(0), "max": lambda r: r.max(0)}[mode]
    want = [reduce(w[[0, 5]]), np.zeros(3), reduce(w[[5, 2, 1]])]
    np.testing.assert_allclose(got.detach().numpy(), want)
    assert fl.autograd.gradcheck(lambda v: F.embedding_bag(index, v, offsets, mode=mode), (weight,))


def test_the_first_of_equal_rows_has_the_gradient():
    weight = fl.tensor([[1.0, 0.0], [1.0, 2.0], [0.0, 2.0]], requires_grad=True)
    F.embedding_bag(fl.tensor([0, 1, 2, 2]), weight, fl.tensor([0, 3, 3]), mode="max").sum().backward()
    assert weight.grad.tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_what_lies_behind_the_last_bag_is_in_none(mode):
    got = F.embedding_bag(fl.tensor([0, 1, 2, 3]), 2 * fl.eye(4), fl.tensor([0, 2, 3]), mode=mode, include_last_offset=True)
    half = 1.0 if mode == "mean" else 2.0
    assert got.tolist() == [[half, half, 0, 0], [0, 0, 2, 0]]


def test_bags_with_weights_and_padding():
    weight, factors = double(4, 2), double(2, 3, seed=1)
    index = fl.tensor([[0, 1, 3], [3, 3, 3]])
    got = F.embedding_bag(index, weight, per_sample_weights=factors, mode="sum", padding_idx=3)
    want = factors[0, 0] * weight[0] + factors[0, 1] * weight[1]
    assert fl.allclose(got[0], want) and got[1].tolist() == [0.0, 0.0]
    assert fl.autograd.gradcheck(lambda v, f: F.embedding_bag(index, v, per_sample_weights=f, mode="sum", padding_idx=3), (weight, factors))
    layer = nn.EmbeddingBag(4, 2, padding_idx=-1)
    assert layer.padding_idx == 3 and layer.weight[3].tolist() == [0.0, 0.0]
    assert nn.EmbeddingBag.from_pretrained(weight.detach(), mode="max")(index).shape == (2, 2)
    assert repr(layer) == "EmbeddingBag(4, 2, mode='mean', padding_idx=3)"


# ---------------------------------------------------------------- pools


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags_of_samples_and_on_meta(mode):
    weight = fl.tensor(np.random.default_rng(3).normal(size=(5, 3)))
    index, offsets = fl.tensor([[0, 1, 3, 3], [3, 3, 3, 4], [2, 2, 0, 3]]), fl.tensor([0, 3])
    each = lambda i: F.embedding_bag(i, weight, offsets, mode=mode, padding_idx=3)  # noqa: E731
    assert fl.allclose(fl.func.vmap(each)(index), fl.stack([each(i) for i in index]))
    pairs = lambda i: F.embedding_bag(i.reshape(2, 2), weight, mode=mode, padding_idx=3)  # noqa: E731
    assert fl.allclose(fl.func.vmap(pairs)(index), fl.stack([pairs(i) for i in index]))
    layer = nn.EmbeddingBag(5, 3, mode=mode, padding_idx=3, device="meta")
    for got in (layer(index.to("meta")), layer(index.to("meta").reshape(-1), fl.zeros(3, dtype=fl.int64, device="meta"))):
        assert got.is_meta and got.shape == (3, 3) and got.requires_grad
    assert nn.EmbeddingBag(5, 3, mode=mode, include_last_offset=True, device="meta")(index[0].to("meta"), offsets.to("meta")).shape == (1, 3)


@pytest.mark.slow
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_maxima_go_back_where_they_were(axes):
    x = fl.randn(2, 3, *(6, 4, 8)[:axes])
    top, at = getattr(F, f"max_pool{axes}d")(x, 2, return_indices=True)
    back = getattr(nn, f"MaxUnpool{axes}d")(2)(top, at)
    assert back.shape == x.shape and fl.equal(back[back != 0].sort()[0], top.reshape(-1).sort()[0])
    assert fl.equal(back[back != 0], x[back != 0])
    up = double(2, 3, *(3, 2, 4)[:axes])
    assert fl.autograd.gradcheck(lambda v: getattr(F, f"max_unpool{axes}d")(v, at, 2), (up,))


@pytest.mark.slow
@pytest.mark.parametrize("axes", [2, 3])
def test_fractional_windows_cover_what_they_may(axes):
    x = fl.arange(2 * 3 * 9**axes, dtype=fl.float64).reshape(2, 3, *(9,) * axes)
    layer = getattr(nn, f"FractionalMaxPool{axes}d")(2, output_ratio=0.5, return_indices=True)
    values, at = layer(x)
    assert values.shape == (2, 3, *(4,) * axes)
    assert fl.equal(x.reshape(2, 3, -1).gather(2, at.reshape(2, 3, -1)).reshape(values.shape), values)
    assert fl.equal(values[..., -1], x.reshape(2, 3, -1).gather(2, at.reshape(2, 3, -1)).reshape(values.shape)[..., -1])
    assert (values.diff(dim=-1) > 0).all() and values.reshape(2, 3, -1).max(-1)[0].tolist() == x.reshape(2, 3, -1).max(-1)[0].tolist()
    fl.manual_seed(4)
    first = layer(x)[0]
    fl.manual_seed(4)
    assert fl.equal(first, layer(x)[0])
    samples = fl.rand(2, 3, axes, dtype=fl.float64)
    pool = getattr(F, f"fractional_max_pool{axes}d")
    assert fl.autograd.gradcheck(lambda v: pool(v, 2, 3, _random_samples=samples), (double(2, 3, *(5,) * axes),))


@pytest.mark.parametrize("axes", [1, 3])
def test_norms_over_windows(axes):
    x = fl.rand(2, 3, *(4, 4, 4)[:axes], dtype=fl.float64)
    got = getattr(nn, f"LPPool{axes}d")(3, 2)(x)
    blocks = x.numpy().reshape(2, 3, *[k for _ in range(axes) for k in (2, 2)])
    want = (blocks**3).sum(tuple(range(3, 3 + 2 * axes, 2))) ** (1 / 3)
    np.testing.assert_allclose(got.numpy(), want)


# ---------------------------------------------------------------- losses and distances


@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin_loss(p):
    x, y, w = np.random.default_rng(0).normal(size=(5, 4)), np.array([0, 3, 1, 1, 2]), np.array([0.5, 2.0, 1.0, 0.1])
    want = [sum(w[t] * max(0, 0.7 - r[t] + r[j]) ** p for j in range(4) if j != t) / 4 for r, t in zip(x, y)]
    got = F.multi_margin_loss(fl.tensor(x), fl.tensor(y), p, 0.7, fl.tensor(w), reduction="none")
    np.testing.assert_allclose(got.numpy(), want)


def test_multilabel_losses():
    x, y = np.random.default_rng(0).normal(size=(3, 4)), np.array([[3, 0, -1, 1], [-1, 0, 1, 2], [0, 1, 2, 3]])
    want = []
    for r, t in zip(x, y):
        named = list(itertools.takewhile(lambda k: k >= 0, t))
        want.append(sum(max(0, 1 - r[a] + r[b]) for a in named for b in range(4) if b not in named) / 4)
    np.testing.assert_allclose(nn.MultiLabelMarginLoss(reduction="none")(fl.tensor(x), fl.tensor(y)).numpy(), want)
    z = (y > 0).astype(np.float64)
    s = 1 / (1 + np.exp(-x))
    want = -(z * np.log(s) + (1 - z) * np.log(1 - s)).mean(1)
    np.testing.assert_allclose(nn.MultiLabelSoftMarginLoss(reduction="none")(fl.tensor(x), fl.tensor(z)).numpy(), want)


@pytest.mark.parametrize("layer, shape", [
    (nn.MaxPool3d(2, return_indices=True), (2, 4, 4, 4)), (nn.AdaptiveMaxPool3d(2, return_indices=True), (2, 4, 4, 4)),
    (nn.FractionalMaxPool2d(2, output_size=2, return_indices=True), (2, 4, 4)),
    (nn.FractionalMaxPool3d(2, output_size=2, return_indices=True), (2, 4, 4, 4)),
])  # fmt: skip
def test_maxima_of_no_batch(layer, shape):
    values, indices = layer(fl.ones(0, *shape))
    assert values.shape == indices.shape == (0, *[2] * len(shape))
    unpool = nn.MaxUnpool3d(2) if len(shape) == 4 else nn.MaxUnpool2d(2)
    assert unpool(values, indices).shape == (0, *shape)


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 4, 0), (0, 4, 2, 2)])
def test_channels_without_values_are_shuffled(shape):
    assert nn.ChannelShuffle(2)(fl.ones(shape)).shape == shape


def test_no_gradient_where_a_class_of_multilabel_margin_loss_is_just_far_enough():
    x = fl.tensor([[1.0, 0.0, 0.5]], requires_grad=True)
    F.multilabel_margin_loss(x, fl.tensor([[0, -1, 0]])).backward()
    assert (x.grad * 3).tolist() == [[-1, 0, 1]]


def test_triplets_with_a_distance():
    a, b, c = (double(4, 3, seed=k) for k in range(3))
    far = nn.TripletMarginWithDistanceLoss(distance_function=lambda u, v: (u - v).abs().max(-1)[0], margin=0.4, swap=True)(a, b, c)
    d = lambda u, v: np.abs(u.detach().numpy() - v.detach().numpy()).max(-1)  # noqa: E731
    want = np.maximum(d(a, b) - np.minimum(d(a, c), d(b, c)) + 0.4, 0).mean()
    assert far.item() == pytest.approx(want)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, float("inf")])
def test_distances_of_all_pairs(p):
    from scipy.spatial.distance import pdist

    x = double(5, 3)
    kind = {1.0: ("cityblock", {}), 2.0: ("euclidean", {}), 3.0: ("minkowski", {"p": 3}), float("inf"): ("chebyshev", {})}[p]
    np.testing.assert_allclose(F.pdist(x, p).detach().numpy(), pdist(x.detach().numpy(), kind[0], **kind[1]))


def test_channels_are_dealt_like_cards():
    x = fl.arange(6.0).reshape(1, 6, 1)
    assert nn.ChannelShuffle(2)(x).reshape(-1).tolist() == [0, 3, 1, 4, 2, 5]


def test_whole_channels_are_dropped():
    fl.manual_seed(0)
    x = fl.randn(200, 50, 4, 4)
    y = nn.FeatureAlphaDropout(0.3)(x)
    same = (y == y[:, :, :1, :1]).all(-1).all(-1)
    assert 0.27 < same.float().mean().item() < 0.33
    assert abs(y.mean().item()) < 0.05 and abs(y.var().item() - 1) < 0.1
    assert nn.FeatureAlphaDropout(0.3).eval()(x) is x


# ---------------------------------------------------------------- adaptive softmax


def test_adaptive_softmax_is_a_softmax_over_all():
    fl.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 9, 15], div_value=2.0, head_bias=True).double()
    x, target = fl.randn(50, 8, dtype=fl.float64), fl.randint(0, 20, (50,))
    whole = layer.log_prob(x)
    np.testing.assert_allclose(whole.exp().sum(1).detach().numpy(), 1)
    got = layer(x, target)
    assert fl.allclose(got.output, whole.gather(1, target.unsqueeze(1)).squeeze(1)) and got.loss.item() == pytest.approx(-got.output.mean().item())
    assert fl.equal(layer.predict(x), whole.argmax(1))
    got.loss.backward()
    assert all(p.grad is not None for p in layer.parameters())


# ---------------------------------------------------------------- lazy layers


def test_lazy_layers_learn_their_shapes_and_keep_their_parameters():
    net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    optimizer = fl.optim.SGD(net.parameters(), lr=0.1)
    held = list(net.parameters())
    assert net[0].has_uninitialized_params() and repr(held[0]) == "<UninitializedParameter>"
    net(fl.randn(2, 3, 6, 6)).sum().backward()
    assert [type(m).__name__ for m in net] == ["Conv2d", "BatchNorm2d", "ReLU", "Flatten", "Linear"]
    assert all(a is b for a, b in zip(held, net.parameters())) and net[4].weight.shape == (2, 64)
    before = net[4].weight.clone()
    optimizer.step()
    assert not fl.equal(before, net[4].weight) and net[1].num_batches_tracked.item() == 1
    assert not net[0]._forward_pre_hooks


@pytest.mark.parametrize("copied", [False, True])
def test_lazy_layers_are_made_where_the_region_says_in_which_they_were_named(copied):
    with fl.device("meta"):
        net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    net = copy.deepcopy(net) if copied else net
    assert {x.device.type for x in net.state_dict().values()} == {"meta"}
    assert net(fl.ones(2, 3, 6, 6, device="meta")).shape == (2, 2)
    assert {x.device.type for x in net.state_dict().values()} == {"meta"}
    layer = nn.LazyLinear(2)
    with fl.device("meta"):  # and not the region of the first input
        layer(fl.ones(1, 3, device="cpu"))
    assert layer.weight.device.type == layer.bias.device.type == "cpu"


def test_lazy_layers_can_be_copied_pickled_and_loaded_before_their_first_input():
    full = nn.Linear(5, 2)
    for lazy in (nn.LazyLinear(2), copy.deepcopy(nn.LazyLinear(2)), pickle.loads(pickle.dumps(nn.LazyLinear(2)))):
        assert lazy.has_uninitialized_params()
        lazy.load_state_dict(full.state_dict())
        assert fl.equal(lazy(fl.ones(1, 5)), full(fl.ones(1, 5))) and lazy.in_features == 5 and type(lazy) is nn.Linear
    assert nn.LazyLinear(2, dtype=fl.float64)(fl.ones(1, 3, dtype=fl.float64)).dtype is fl.float64
    again = pickle.loads(pickle.dumps(nn.UninitializedParameter(dtype=fl.float64)))
    again.materialize((2,))
    assert again.dtype is fl.float64 and type(again) is nn.Parameter


def test_what_has_no_shape_is_refused():
    p = nn.LazyLinear(3).weight
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer before the first forward"):
        _ = p.shape
    for call in (lambda: p + fl.ones(1), lambda: fl.add(p, 1), lambda: p.view(1), p.numel):
        with pytest.raises(ValueError, match="UninitializedParameter, which has no shape before the first forward"):
            call()
    with pytest.raises(RuntimeError, match="no memory before the first forward"):
        p.share_memory_()
    with pytest.raises(ValueError, match=r"Expected 3D \(unbatched\) or 4D"):
        nn.LazyConv2d(3, 2)(fl.ones(4, 4))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups, got 3 and 2"):
        nn.LazyConv2d(4, 2, groups=2)(fl.ones(1, 3, 4, 4))


def test_what_has_no_shape_is_moved_and_cast():
    net = nn.Sequential(nn.LazyConv1d(4, 3), nn.LazyBatchNorm1d(), nn.Flatten(), nn.LazyLinear(2))
    first = net[0].weight
    assert net.to("cpu") is net and first.device == fl.device("cpu") and not first.is_meta
    net.double()
    assert net(fl.ones(2, 3, 5, dtype=fl.float64)).dtype == fl.float64
    assert net[0].weight is first and net[1].running_mean.dtype == fl.float64 and net[1].num_batches_tracked.dtype == fl.int64
    layer = nn.LazyLinear(2).half()
    copied = copy.deepcopy(layer)
    assert copied.to(device="meta")(fl.ones(1, 3, dtype=fl.float16, device="meta")).dtype == fl.float16 and copied.weight.is_meta
    assert layer.to(fl.ones(1)).weight.dtype == fl.float32 and layer.type(fl.float64).weight.dtype == fl.float64
    with pytest.raises(RuntimeError, match="cuda"):
        layer.to("cuda")


def test_a_lazy_module_of_ones_own():
    class Scale(nn.Module):
        def __init__(self, n=0):
            super().__init__()
            self.scale = nn.Parameter(fl.ones(n))

        def forward(self, x):
            return x * self.scale

    from flambeau.nn.modules.lazy import LazyModuleMixin

    class LazyScale(LazyModuleMixin, Scale):
        cls_to_become = Scale

        def __init__(self):
            super().__init__()
            self.scale = nn.UninitializedParameter()

        def initialize_parameters(self, x):
            self.scale.materialize(x.shape[-1:])
            nn.init.constant_(self.scale, 2.0)

    layer = LazyScale()
    assert layer(fl.ones(3)).tolist() == [2.0, 2.0, 2.0] and type(layer) is Scale


# ---------------------------------------------------------------- helpers of modules


@pytest.mark.parametrize("transpose", [False, True])
def test_fused_layers_compute_the_same(transpose):
    conv = (nn.ConvTranspose2d if transpose else nn.Conv2d)(3, 4, 3, bias=not transpose).double().eval()
    bn = nn.BatchNorm2d(4).double()
    bn(fl.randn(8, 4, 5, 5, dtype=fl.float64) * 3 + 1)
    bn.eval()
    x = fl.randn(2, 3, 6, 6, dtype=fl.float64)
    assert fl.allclose(nn.utils.fusion.fuse_conv_bn_eval(conv, bn, transpose)(x), bn(conv(x)))
    linear, norm = nn.Linear(3, 4).double().eval(), nn.BatchNorm1d(4).double().eval()
    assert fl.allclose(nn.utils.fusion.fuse_linear_bn_eval(linear, norm)(x[:, :, 0, 0]), norm(linear(x[:, :, 0, 0])))
    one = nn.BatchNorm1d(1).double().eval()  # for all features
    one.running_mean.fill_(0.5)
    one.running_var.fill_(4.0)
    assert fl.allclose(nn.utils.fusion.fuse_linear_bn_eval(linear, one)(x[:, :, 0, 0]), (linear(x[:, :, 0, 0]) - 0.5) / (4.0 + 1e-5) ** 0.5)
    assert one.running_mean.shape == (1,)
    with pytest.raises(AssertionError, match=r"Fusion only for eval! Call eval\(\) on both layers first"):
        nn.utils.fusion.fuse_conv_bn_eval(conv.train(), bn)


def test_a_parametrised_weight_is_computed_when_it_is_read():
    layer = nn.Linear(4, 3)
    before = layer.weight.detach().clone()
    assert nn.utils.parametrizations.weight_norm(layer) is layer
    assert fl.allclose(layer.weight, before) and isinstance(layer, nn.Linear) and type(layer).__name__ == "ParametrizedLinear"
    names = [n for n, _ in layer.named_parameters()]
    assert names == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    with fl.no_grad():
        layer.parametrizations.weight.original0.mul_(2)
    assert fl.allclose(layer.weight, before * 2)
    layer(fl.ones(1, 4)).sum().backward()
    assert layer.parametrizations.weight.original1.grad is not None
    assert fl.allclose(copy.deepcopy(layer).weight, layer.weight)
    with pytest.raises(RuntimeError, match="is parametrised already"):
        nn.utils.parametrizations.weight_norm(layer)
    with pytest.raises(RuntimeError, match="save its state_dict"):
        pickle.dumps(layer)
    with pytest.raises(ValueError, match="Linear does not have a parameter"):
        nn.utils.parametrizations.weight_norm(nn.Linear(2, 2), "nothing")


def test_multi_head_attention_forward_is_the_layer():
    layer = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)
    q, k = fl.randn(4, 3, 8), fl.randn(5, 3, 8)
    padding = fl.tensor([[False] * 4 + [True]] * 3)
    want = layer(q, k, k, key_padding_mask=padding)
    got = F.multi_head_attention_forward(
        q, k, k, 8, 2, layer.in_proj_weight, layer.in_proj_bias, layer.bias_k, layer.bias_v, True, 0.0, layer.out_proj.weight,
        layer.out_proj.bias, key_padding_mask=padding,
    )  # fmt: skip
    assert fl.allclose(got[0], want[0], atol=1e-6) and fl.allclose(got[1], want[1], atol=1e-6)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: F.grid_sample(fl.ones(1, 1, 2, 2), fl.ones(1, 1, 1, 3)), r"size 2 in last dimension, but got grid with sizes \[1, 1, 1, 3\]"),
        (lambda: F.grid_sample(fl.ones(1, 1, 2, 2), fl.ones(1, 1, 1, 2), mode="cubic"), "expected mode to be 'bilinear'"),
        (lambda: F.grid_sample(fl.ones(1, 1, 0, 2), fl.ones(1, 1, 1, 2)), "at least one element along every axis"),
        (lambda: F.grid_sample(fl.ones(1, 1, 2, 2), fl.ones(1, 1, 1, 2).double()), "expected one dtype"),
        (lambda: F.ctc_loss(fl.zeros(3, 1, 2), fl.tensor([[1]]), [3], [1], blank=2), "blank = 2; expected 0 <= blank < 2"),
        (lambda: F.ctc_loss(fl.zeros(3, 1, 2), fl.tensor([[1]]), [4], [1]), "input_lengths to have value at most 3, but got value 4 at element 0"),
        (lambda: F.ctc_loss(fl.zeros(3, 1, 2), fl.tensor([[5]]), [3], [1]), "value 5"),
        (lambda: F.ctc_loss(fl.zeros(3, 0, 2), fl.zeros(0, 1, dtype=fl.int64), [], []), "not empty"),
        (lambda: F.ctc_loss(fl.zeros(3, 2, 2), fl.tensor([1, 1]), [3, 3], [1, 2]), r"expected \[3\], the sum of target_lengths"),
        (lambda: F.embedding_bag(fl.tensor([1, 0]), fl.ones(2, 2), fl.tensor([0, 5])), "up to 2"),
        (lambda: F.embedding_bag(fl.tensor([1, 0]), fl.ones(2, 2), fl.tensor([1])), r"offsets\[0\] has to be 0"),
        (lambda: F.embedding_bag(fl.tensor([[3]]), fl.ones(2, 2)), "value 3"),
        (lambda: F.max_unpool2d(fl.ones(1, 1, 1, 1), fl.tensor([[[[4]]]]), 2), "Found an invalid max index"),
        (lambda: F.max_unpool1d(fl.ones(1, 1, 2), fl.tensor([[[0, 2]]]), 2, output_size=(9,)), r'invalid output_size "\(9,\)"'),
        (lambda: F.fractional_max_pool2d(fl.ones(1, 1, 3, 3), 2, 3), "3 windows of 2 do not fit into the 3 elements of axis 0"),
        (lambda: F.multi_margin_loss(fl.ones(2, 3), fl.tensor([0, 1]), p=3), "only p == 1 and p == 2 supported"),
        (lambda: F.multilabel_margin_loss(fl.ones(1, 2), fl.tensor([[2, -1]])), "expected -1 to 1"),
        (lambda: F.channel_shuffle(fl.ones(1, 3, 2), 2), "Number of channels must be divisible by groups. Got 3 channels and 2 groups"),
        (lambda: F.pdist(fl.ones(3)), r"input has shape \[3\]; expected \[N, M\]"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5, 3]), "cutoffs should be a sequence of unique"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5])(fl.ones(1, 4), fl.tensor([10])), r"Target values should be in \[0"),
        (lambda: F.affine_grid(fl.ones(1, 2, 2), (1, 1, 3, 3)), "Expected a batch of 2D affine matrices of shape 1x2x3 for size"),
    ],
)
def test_what_is_refused(call, text):
    with pytest.raises((ValueError, IndexError, TypeError, RuntimeError), match=text):
        call()


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
def test_bags_of_16_bits_are_summed_in_float32(dtype):
    numbers = np.random.default_rng(0)
    weight = fl.tensor(numbers.uniform(0.5, 1.5, (9, 4))).to(dtype)
    index, factors = fl.tensor(numbers.integers(0, 9, (2, 6000))), fl.tensor(numbers.uniform(0.5, 1.5, (2, 6000))).to(dtype)
    for mode, given in (("sum", None), ("mean", None), ("sum", factors)):
        y = F.embedding_bag(index, weight, mode=mode, per_sample_weights=given)
        exact = F.embedding_bag(index, weight.double(), mode=mode, per_sample_weights=None if given is None else given.double())
        assert y.dtype == dtype
        assert ((y.double() - exact).abs() <= exact.abs() * fl.finfo(dtype).eps).all()


def test_nearest_pixels_of_sizes_that_are_the_same_or_twice_it():
    x = fl.arange(3.0).view(1, 1, 1, 3)
    sizes = {1.0: [0, 1, 2], 1.2: [0, 1, 2], 2.3: [0, 0, 1, 1, 2, 2], 1.7: [0, 0, 1, 1, 2]}
    for factor, expected in sizes.items():
        assert F.interpolate(x, scale_factor=(1.0, factor)).flatten().tolist() == expected
        assert nn.Upsample(scale_factor=(1.0, factor))(x).flatten().tolist() == expected
    assert F.interpolate(x[0], scale_factor=1.2).flatten().tolist() == [0, 0, 1]  # a line goes by the factor
    assert F.interpolate(x.transpose(2, 3), size=(1, 1), mode="bilinear", antialias=True, align_corners=True).item() == 0


@pytest.mark.parametrize("antialias", [False, True])
def test_axes_that_keep_their_size_stay_as_they_are(antialias):
    x = fl.rand(1, 2, 3, 4, dtype=fl.float64)
    assert fl.equal(F.interpolate(x, scale_factor=(1.3, 1.2), mode="bilinear", antialias=antialias), x)
    wide = F.interpolate(x, scale_factor=(1.3, 2.1), mode="bilinear", antialias=antialias)
    rows = [F.interpolate(x[:, :, i : i + 1], scale_factor=(1.0, 2.1), mode="bilinear", antialias=antialias) for i in range(3)]
    assert fl.allclose(wide, fl.cat(rows, 2))
    assert antialias or fl.equal(F.interpolate(x[0], scale_factor=1.2, mode="linear"), x[0])


@pytest.mark.parametrize(("size", "corners", "said"), [((1, 1, 1, 3), True, True), ((1, 1, 2, 3), True, False), ((1, 1, 1, 3), False, False)])
def test_a_grid_of_a_single_row_says_where_it_lies(size, corners, said):
    with pytest.warns(UserWarning, match="affine_grid: size = .* lies in the middle") if said else warnings.catch_warnings():
        grid = F.affine_grid(fl.eye(2, 3)[None], size, align_corners=corners)
    assert grid[0, :, 0, 1].tolist() == ([0] if size[2] == 1 else [-1, 1])


def test_ctc_loss_is_no_number_where_its_last_label_has_none():
    x = fl.zeros(6, 1, 4).log_softmax(-1)
    x[5, 0, 1] = float("nan")
    assert F.ctc_loss(x, fl.tensor([[2, 1]]), (6,), (2,), reduction="none").isnan().all()


@pytest.mark.parametrize(("dtype", "error"), [(fl.bfloat16, 8e-3), (fl.float16, 1e-3)], ids=str)
def test_ctc_gradients_of_16_bits_are_as_exact_as_these(dtype, error):
    """The losses that come back are rounded to 16 bits, too, and are no exponents."""
    fl.manual_seed(0)
    x, targets = (fl.randn(200, 2, 30) * 4).log_softmax(-1).to(dtype), fl.randint(1, 30, (2, 50))
    gradients = []
    for scores in (x, x.double()):
        scores = scores.detach().requires_grad_()
        F.ctc_loss(scores, targets, (200, 200), (50, 50), reduction="sum").backward()
        gradients.append(scores.grad.double())
    assert (gradients[0] - gradients[1]).abs().max() < error
