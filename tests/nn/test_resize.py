"""What gives an image other extents: interpolation, shuffled pixels, borders."""

import numpy as np
import pytest
from support.compare import assert_near
from support.tensors import doubles

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn.functional import _vision


def test_pixel_shuffle_round_trip():
    x = fl.arange(2 * 8 * 3 * 5).reshape(2, 8, 3, 5)
    y = F.pixel_shuffle(x, 2)
    assert y.shape == (2, 2, 6, 10)
    assert y[0, 0, 0, 1].item() == x[0, 1, 0, 0].item()
    assert (F.pixel_unshuffle(y, 2) == x).all()
    with pytest.raises(ValueError, match="is not divisible by"):
        F.pixel_shuffle(x, 3)


def test_interpolate():
    x = doubles([[[1.0, 3.0]]])
    assert F.interpolate(x, scale_factor=2).tolist() == [[[1, 1, 3, 3]]]
    assert F.interpolate(x, size=4, mode="linear").tolist() == [[[1, 1.5, 2.5, 3]]]
    assert F.interpolate(x, size=3, mode="linear", align_corners=True).tolist() == [[[1, 2, 3]]]
    with pytest.raises(ValueError, match="either size or scale_factor should be defined"):
        F.interpolate(x)


def test_upsample_aligns_corners():
    x = fl.arange(4.0).reshape(1, 1, 2, 2)
    want = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
    assert_near(F.upsample(x, None, 2, "bilinear", True), want.numpy())
    assert_near(nn.UpsamplingBilinear2d(scale_factor=2)(x), want.numpy())
    assert_near(nn.UpsamplingNearest2d(size=(4, 4))(x), F.interpolate(x, (4, 4)).numpy())


def test_bicubic_is_a_convolution_by_keys_kernel():
    def kernel(d, a=-0.75):
        d = abs(d)
        return ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0

    def matrix(n_in, n_out):
        out = np.zeros((n_out, n_in))
        for i in range(n_out):
            at = (i + 0.5) * n_in / n_out - 0.5
            for j in range(int(np.floor(at)) - 1, int(np.floor(at)) + 3):
                out[i, min(max(j, 0), n_in - 1)] += kernel(at - j)
        return out

    x = np.random.default_rng(0).normal(size=(2, 3, 5, 7))
    assert_near(F.interpolate(doubles(x), size=(8, 4), mode="bicubic"), matrix(5, 8) @ x @ matrix(7, 4).T)
    y = fl.tensor(x[:1, :1], requires_grad=True)
    assert fl.autograd.gradcheck(lambda v: F.interpolate(v, scale_factor=2, mode="bicubic", align_corners=True), (y,))


def test_pads_below_zero_on_one_side():
    x = fl.arange(5.0)[None, None]
    assert F.pad(x, (-4, 3), mode="reflect").tolist() == [[[4, 3, 2, 1]]]
    assert F.pad(x, (2, -4), mode="replicate").tolist() == [[[0, 0, 0]]]
    assert F.pad(x, (-1, 2), mode="circular").tolist() == [[[1, 2, 3, 4, 1, 2]]]
    with pytest.raises(fl.ShapeError, match="^pad:"):
        F.pad(x, (-3, 4), mode="circular")
    assert F.pad(x, (-1, -1), mode="reflect").tolist() == [[[1, 2, 3]]]


NOTHING_TO_DO = {
    **{mode: lambda x, mode=mode: F.pad(x, (0, 0, 0, 0), mode=mode) for mode in ("reflect", "replicate", "circular", "constant")},
    "part": lambda x: F.pad(x, (-1, 0), mode="reflect"),
    "ReflectionPad2d": nn.ReflectionPad2d(0), "ReplicationPad2d": nn.ReplicationPad2d(0), "CircularPad2d": nn.CircularPad2d(0),
    "groups": lambda x: F.channel_shuffle(x, 1), "groups of one": nn.ChannelShuffle(4),
    "bilinear": lambda x: F.interpolate(x, size=(2, 3), mode="bilinear", antialias=True),
    "bicubic": lambda x: F.interpolate(x, scale_factor=1, mode="bicubic", antialias=True),
}  # fmt: skip


@pytest.mark.parametrize("how", NOTHING_TO_DO.values(), ids=NOTHING_TO_DO)
def test_where_nothing_is_to_do_the_result_is_a_new_tensor(how):
    x = fl.arange(24.0).reshape(1, 4, 2, 3).requires_grad_()
    y = how(x)
    np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy()[..., -y.shape[-1] :])
    y.detach().fill_(-1.0)
    assert x.detach().flatten().tolist() == list(range(24))
    assert fl.autograd.grad(y.sum(), x)[0].sum().item() == y.numel()
    with fl.no_grad():
        assert fl.func.vmap(how)(fl.stack([x, -x])).shape == (2, *y.shape)


def test_upsample_can_compute_its_scale_again():
    x = doubles(np.arange(10.0).reshape(1, 1, 10))
    layer = nn.Upsample(None, 0.75, "linear", False, True)
    assert fl.equal(layer(x), F.interpolate(x, scale_factor=0.75, mode="linear", recompute_scale_factor=True))
    assert not fl.equal(layer(x), nn.Upsample(scale_factor=0.75, mode="linear", align_corners=False)(x))
    del layer.__dict__["recompute_scale_factor"]  # as what was pickled before there was the argument
    again = nn.Upsample.__new__(nn.Upsample)
    again.__setstate__(layer.__dict__)
    assert again.recompute_scale_factor is True
    to_size = nn.Upsample.__new__(nn.Upsample)
    to_size.__setstate__({k: v for k, v in vars(nn.Upsample(4)).items() if k != "recompute_scale_factor"})
    assert to_size(x).shape == (1, 1, 4)


def test_a_factor_may_be_a_tensor_of_one_number():
    x = fl.arange(4.0).view(1, 1, 2, 2)
    for factor in (fl.tensor(2.0), fl.tensor(2)):
        assert fl.equal(F.interpolate(x, scale_factor=factor, mode="bilinear"), F.interpolate(x, scale_factor=2.0, mode="bilinear"))


def test_a_size_leaves_no_scale_to_compute_again():
    with pytest.raises(ValueError, match="recompute_scale_factor = True has no meaning with a size"):
        F.interpolate(fl.ones(1, 1, 4), size=2, recompute_scale_factor=True)
    assert F.interpolate(fl.ones(1, 1, 4), size=2, recompute_scale_factor=False).shape == (1, 1, 2)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", ["Reflection", "Replication", "Circular"])
def test_layers_of_borders_take_one_number_of_axes(kind, axes):
    layer = getattr(nn, f"{kind}Pad{axes}d")(1)
    for more in (1, 2):
        assert layer(fl.ones((3,) * (axes + more))).shape[-axes:] == (5,) * axes
    for wrong in (axes, axes + 3):
        with pytest.raises(NotImplementedError, match=rf"{kind}Pad{axes}d: input has shape .*; expected {axes + 1} or {axes + 2} axes") as caught:
            layer(fl.ones((3,) * wrong))
        assert isinstance(caught.value, ValueError)


CONTEXTS = {
    "inference": fl.inference_mode, "lazy": fl.lazy, "no_grad": fl.no_grad, "meta": lambda: fl.device("meta"),
    "autocast": lambda: fl.autocast("cpu", fl.bfloat16),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("how", [*CONTEXTS, "vmap", "grad", "compile"])
def test_what_an_interpolation_keeps_serves_others(how, mode):
    """Indices and weights are made by the first call of a size, wherever that is, and used by all later ones."""
    for kept in (_vision._mixture, _vision._antialiased):
        kept.cache_clear()
    cases = [dict(scale_factor=3, mode=mode), dict(size=(7, 3), mode=mode)]
    cases += [dict(size=(3, 2), mode=mode, antialias=True)] if mode != "nearest" else []

    def all_of(x):
        return [F.interpolate(x, **case) for case in cases]

    if how == "vmap":
        fl.func.vmap(lambda x: tuple(all_of(x)))(fl.randn(2, 1, 2, 4, 5))
    elif how == "grad":
        fl.func.grad(lambda x: sum(y.sum() for y in all_of(x)))(fl.randn(1, 2, 4, 5))
    elif how == "compile":
        fl.compile(lambda x: tuple(all_of(x)))(fl.randn(1, 2, 4, 5))
    else:
        with CONTEXTS[how]():
            all_of(fl.randn(1, 2, 4, 5))
    x = fl.randn(1, 2, 4, 5, dtype=fl.float64, requires_grad=True)
    single = x.detach().float().requires_grad_()
    for wide, narrow in zip(all_of(x), all_of(single), strict=True):
        assert narrow.device.type == "cpu"
        assert_near(narrow, wide)
    fl.autograd.gradcheck(lambda v: tuple(all_of(v)), (x,))
    assert all(y.is_meta for y in all_of(fl.empty(1, 2, 4, 5, device="meta")))
