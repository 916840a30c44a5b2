"""`ao.quantization`: observers by histograms, layers fused into one, and options as data."""

from __future__ import annotations

import pytest
from support.compare import assert_near

import flambeau as fl
from flambeau import nn
from flambeau.ao import quantization as quant
from flambeau.ao.nn import intrinsic


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 3, 1), nn.ReLU())
        self.up, self.norm = nn.ConvTranspose2d(3, 3, 2), nn.BatchNorm2d(3)
        self.line, self.scale, self.last, self.act = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2), nn.ReLU()

    def forward(self, x):
        x = self.norm(self.up(self.body(x))).mean((2, 3))
        return self.act(self.last(self.scale(self.line(x))))


GROUPS = [["body.0", "body.1", "body.2"], ["body.3", "body.4"], ["line", "scale"], ["last", "act"]]


@pytest.fixture
def net():
    fl.manual_seed(0)
    model = Net().double()
    for p in model.parameters():
        nn.init.normal_(p)
    model(fl.randn(8, 2, 6, 6, dtype=fl.float64))  # so that statistics are none of a new layer
    return model


def test_batch_norms_are_folded_in_evaluation(net):
    x = fl.randn(4, 2, 6, 6, dtype=fl.float64)
    net.eval()
    fused = quant.fuse_modules(net, [*GROUPS, ["up", "norm"]])
    assert_near(fused(x), net(x))
    assert [type(m).__name__ for m in fused.body] == ["ConvReLU2d", "Identity", "Identity", "ConvReLU2d", "Identity"]
    assert isinstance(fused.body[0], (intrinsic.ConvReLU2d, nn.Sequential)) and isinstance(fused.last, intrinsic.LinearReLU)
    assert type(fused.line) is nn.Linear and type(fused.scale) is nn.Identity and type(fused.up) is nn.ConvTranspose2d
    assert type(net.body[1]) is nn.BatchNorm2d
    assert quant.fuse_modules(net, GROUPS[0], inplace=True) is net and type(net.body[1]) is nn.Identity


def test_batch_norms_stay_in_training(net):
    x = fl.randn(4, 2, 6, 6, dtype=fl.float64)
    fused = quant.fuse_modules_qat(net, GROUPS)
    assert_near(fused(x), net(x))
    assert_near(fused.body[0][1].running_mean, net.body[1].running_mean)
    assert isinstance(fused.body[0], intrinsic.ConvBnReLU2d) and isinstance(fused.line, intrinsic.LinearBn1d)
    assert all(m.training for m in fused.modules())


def test_hooks_stay_at_the_ends(net):
    calls = []
    net.eval()
    net.body[0].register_forward_pre_hook(lambda m, args: calls.append(("before", type(m).__name__)))
    net.body[2].register_forward_hook(lambda m, args, kwargs, y: calls.append(("behind", type(m).__name__)), with_kwargs=True)
    quant.fuse_modules(net, GROUPS[0])(fl.ones(1, 2, 6, 6, dtype=fl.float64))
    assert calls == [("before", "ConvReLU2d"), ("behind", "ConvReLU2d")]


def test_what_can_not_be_fused(net):
    with pytest.raises(NotImplementedError, match="Cannot fuse modules: BatchNorm2d, ReLU, Conv2d"):
        quant.fuse_modules(net.eval(), ["body.1", "body.2", "body.3"])
    net.norm.train()
    with pytest.raises(AssertionError, match="are in evaluation and training"):
        quant.fuse_modules(net, ["up", "norm"])
    with pytest.raises(NotImplementedError, match="Cannot fuse modules: ConvTranspose2d"):
        quant.fuse_modules_qat(net.train(), ["up", "norm"])
    with pytest.raises(AssertionError, match=r"Fusion only for eval! Call eval\(\) on both layers first"):
        quant.fuse_modules(net, GROUPS[0])
    with pytest.raises(NotImplementedError, match="fuse_custom_config_dict is given"):
        quant.fuse_modules(net, GROUPS[0], fuse_custom_config_dict={"additional_fuser_method_mapping": {1: 2}})
    with pytest.raises(AssertionError, match="LinearReLU: got ReLU, Linear; expected Linear, ReLU"):
        intrinsic.LinearReLU(nn.ReLU(), nn.Linear(1, 1))
    with pytest.raises(NotImplementedError, match="there are no quantised tensors"):
        quant.convert(net)


def test_a_histogram_takes_over_the_old_one_and_cuts_off_what_is_rare():
    watch = quant.HistogramObserver(bins=64)
    watch(fl.linspace(-1, 1, 1000))
    watch(fl.tensor([8.0]))
    assert watch.histogram.sum().item() == pytest.approx(1001) and watch.max_val.item() == 8
    assert watch.histogram[:15].sum().item() == pytest.approx(1000, rel=0.02)  # bins are 9 / 64 wide
    scale, _ = watch.calculate_qparams()
    assert scale.item() < 9 / 255
    other = quant.HistogramObserver(bins=64)
    other.load_state_dict(watch.state_dict())
    assert other.calculate_qparams()[0].item() == scale.item()
    watch.reset_min_max_vals()
    with pytest.warns(UserWarning, match="before anything was seen"):
        assert watch.calculate_qparams()[0].item() == 1


def test_a_histogram_of_one_number_and_of_infinite_ones():
    watch = quant.HistogramObserver(bins=16)
    watch(fl.full((3,), 2.0))
    watch(fl.full((2,), 4.0))
    assert watch.histogram.sum().item() == 5 and (watch.min_val.item(), watch.max_val.item()) == (2, 4)
    with pytest.warns(UserWarning, match="infinite values, which are left out"):
        watch(fl.tensor([float("inf"), 3.0]))
    assert watch.histogram.sum().item() == 6


def test_options_are_data():
    assert quant.default_observer().quant_max == 127 and quant.default_weight_observer().quant_min == -128
    assert quant.default_per_channel_weight_observer().qscheme == "per_channel_symmetric"
    rounds = quant.default_fake_quant()
    assert (rounds.quant_min, rounds.quant_max) == (0, 127)
    assert isinstance(quant.default_weight_fake_quant().activation_post_process, quant.MovingAverageMinMaxObserver)
    config = quant.get_default_qat_qconfig("x86")
    assert isinstance(config.weight(), quant.FusedMovingAvgObsFakeQuantize)
    assert config.activation is not None and config == tuple(config)
    with pytest.raises(AssertionError, match="backend = 'gpu'; expected one of fbgemm, x86, qnnpack, onednn"):
        quant.get_default_qconfig("gpu")
    with pytest.raises(AssertionError, match="version = 3; expected 0 or 1"):
        quant.get_default_qat_qconfig(version=3)
    with pytest.raises(AssertionError, match="the observer is a MinMaxObserver; expected one of moving averages"):
        quant.FusedMovingAvgObsFakeQuantize(quant.MinMaxObserver)


def test_rounding_by_moving_averages_with_zero_in_the_middle():
    rounds = quant.FusedMovingAvgObsFakeQuantize(quant_min=-128, quant_max=127, dtype=fl.int8, qscheme="per_tensor_symmetric")
    rounds(fl.tensor([-1.0, 2.54]))
    assert rounds.scale.item() == pytest.approx(2.54 / 127) and rounds.zero_point.item() == 0
    rounds.disable_observer()
    assert rounds(fl.tensor([0.013]))[0].item() == pytest.approx(0.02)
