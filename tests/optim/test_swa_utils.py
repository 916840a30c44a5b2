"""Averages of a model's weights."""

import copy
import math

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.optim import swa_utils


def net_with(value):
    net = nn.BatchNorm1d(2)
    with fl.no_grad():
        for x in (*net.parameters(), net.running_mean):
            x.fill_(value)
    return net


HOW = {
    "mean": ({}, [1.0, 2.0, 3.0]),
    "ema": ({"avg_fn": swa_utils.get_ema_avg_fn(0.5)}, [1.0, 2.0, 3.5]),
    "multi ema": ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)}, [1.0, 2.0, 3.5]),
}


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("name", list(HOW))
def test_averages(name, use_buffers):
    options, wants = HOW[name]
    average = swa_utils.AveragedModel(net_with(0.0), use_buffers=use_buffers, **options)
    for value, want in zip((1.0, 3.0, 5.0), wants):
        average.update_parameters(net_with(value))
        assert average.module.weight.tolist() == [want] * 2
        assert average.module.running_mean.tolist() == [want if use_buffers else value] * 2
    assert average.n_averaged.item() == 3
    again = swa_utils.AveragedModel(net_with(0.0))
    again.load_state_dict(copy.deepcopy(average.state_dict()))
    x = fl.randn(4, 2)
    assert again.eval()(x).tolist() == average.eval()(x).tolist()


@pytest.mark.parametrize("name", list(HOW))
def test_averages_of_complex_numbers(name):
    options, wants = HOW[name]
    layer = nn.Linear(1, 1, bias=False).to(fl.complex128)
    average = swa_utils.AveragedModel(layer, **options)
    for value, want in zip((1.0, 3.0, 5.0), wants):
        with fl.no_grad():
            layer.weight.fill_(value * (1 + 2j))
        average.update_parameters(layer)
        assert average.module.weight.item() == want * (1 + 2j)


def test_update_bn_counts_every_batch_alike():
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)).eval()
    data = fl.randn(3, 8, 2)
    swa_utils.update_bn([(x, None) for x in data], net)
    np.testing.assert_allclose(net[0].running_mean.numpy(), data.mean(1).mean(0).numpy(), rtol=1e-5, atol=1e-6)
    assert not net.training and net[0].momentum == 0.1


def test_errors():
    with pytest.raises(ValueError, match=r"Invalid decay value 1\.5 provided"):
        swa_utils.get_ema_avg_fn(1.5)
    with pytest.raises(ValueError, match="avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(nn.Linear(1, 1), avg_fn=swa_utils.get_swa_avg_fn(), multi_avg_fn=swa_utils.get_ema_multi_avg_fn())


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_swalr_goes_from_the_rate_to_its_own(strategy, epochs):
    net = nn.Linear(2, 1)
    opt = fl.optim.SGD([{"params": [net.weight]}, {"params": [net.bias], "lr": 0.2}], lr=1.0)
    schedule = swa_utils.SWALR(opt, [0.5, 0.1], anneal_epochs=epochs, anneal_strategy=strategy)
    for step in range(1, 7):
        opt.step()
        schedule.step()
        t = min(step / max(1, epochs), 1.0)
        share = t if strategy == "linear" else (1 - math.cos(math.pi * t)) / 2
        expected = [0.5 * share + 1.0 * (1 - share), 0.1 * share + 0.2 * (1 - share)]
        assert [g["lr"] for g in opt.param_groups] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"swa_lr": [0.1, 0.2]}, "2 swa_lr for 1 parameter groups"),
        ({"swa_lr": 0.1, "anneal_strategy": "steps"}, "anneal_strategy must be one of 'cos' or 'linear'"),
        ({"swa_lr": 0.1, "anneal_epochs": -1}, "anneal_epochs = -1"),
    ],
)
def test_swalr_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        swa_utils.SWALR(fl.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1), **options)


def test_an_exponential_average_of_counts():
    net = nn.BatchNorm1d(1)
    average = swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5), use_buffers=True)
    for count, want in ((10, 10), (20, 15), (30, 22)):
        net.num_batches_tracked.fill_(count)
        average.update_parameters(net)
        assert average.module.num_batches_tracked.item() == want
