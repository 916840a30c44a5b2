"""What compiled programs compute once, and batch norms that become part of convolutions: never stale, and bits where they are promised."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F
from flambeau import nn

pytestmark = pytest.mark.filterwarnings("error:compile:UserWarning")
CALLS = 6


def once(compiled):
    """How many ops of its program are computed once."""
    text = fl.compiler.explain(compiled)
    assert "replayed; 1 program" in text
    found = re.search(r"\((\d+) computed once\)", text)
    return int(found[1]) if found else 0


def called(compiled, *args):
    with fl.no_grad():
        for _ in range(CALLS):
            out = compiled(*args)
    return out


def bits(x):
    return x.dtype, tuple(x.shape), x.detach().contiguous().float().numpy().tobytes()


def assert_near(a, b, tol=2e-6):
    assert a.shape == b.shape and a.dtype is b.dtype
    assert float((a - b).abs().max()) <= tol * max(1e-3, float(b.abs().max()))


def trained(*layers):
    """A Sequential whose batch norms have seen something."""
    model = nn.Sequential(*layers)
    for layer in model:
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.3, 3.0)
            if layer.affine:
                with fl.no_grad():
                    layer.weight.uniform_(-2, 2)
                    layer.bias.normal_()
    return model.eval()


def block(bias=True, affine=True):
    return trained(nn.Conv2d(3, 8, 3, padding=1, bias=bias), nn.BatchNorm2d(8, affine=affine), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 1))


NETS = {
    "images": (block, (2, 3, 12, 12)),
    "no bias": (lambda: block(bias=False), (2, 3, 12, 12)),
    "not affine": (lambda: block(affine=False), (2, 3, 12, 12)),
    "depthwise": (lambda: trained(nn.Conv2d(16, 16, 3, groups=16, stride=2), nn.BatchNorm2d(16), nn.ReLU6()), (1, 16, 14, 14)),
    "groups": (lambda: trained(nn.Conv2d(8, 12, 3, groups=4, dilation=2), nn.BatchNorm2d(12)), (3, 8, 9, 9)),
    "small images": (lambda: trained(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)), (1, 3, 3, 3)),
    "one axis": (lambda: trained(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6), nn.SiLU()), (2, 4, 20)),
    "three axes": (lambda: trained(nn.Conv3d(2, 6, 3), nn.BatchNorm3d(6)), (1, 2, 6, 6, 6)),
}


@pytest.mark.parametrize("name", NETS)
def test_batch_norms_become_part_of_convolutions(name):
    make, shape = NETS[name]
    fl.manual_seed(0)
    model, x = make(), fl.randn(*shape)
    compiled = fl.compile(model, mode="predict")
    assert_near(called(compiled, x), model(x).detach())
    assert once(compiled) == 1
    assert bits(called(fl.compile(model, mode="replay"), x)) == bits(model(x))


def test_a_residual_network():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = trained(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
            self.b = trained(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))

        def forward(self, x):
            y = self.b(self.a(x))
            y += x
            return F.relu(y, inplace=True)

    model, x = nn.Sequential(*(Residual() for _ in range(4))).eval(), fl.randn(2, 8, 16, 16)
    compiled = fl.compile(model, mode="predict")
    assert_near(called(compiled, x), model(x).detach(), tol=1e-5)
    assert once(compiled) == 8


# Each writes something that a convolution was folded of.
WRITES = {
    "weight": lambda m: m[0].weight.mul_(2),
    "bias": lambda m: m[0].bias.add_(1),
    "statistic": lambda m: m[1].running_mean.fill_(3),
    "variance": lambda m: m[1].running_var.mul_(4),
    "scale": lambda m: m[1].weight.neg_(),
    "state dict": lambda m: m.load_state_dict({k: v * 1.5 if v.is_floating_point() else v for k, v in m.state_dict().items()}),
    "step": lambda m: _stepped(m),
    "view": lambda m: m[0].weight[:4].zero_(),
    "data": lambda m: setattr(m[0].weight, "data", m[0].weight.data * 3),
    "another parameter": lambda m: setattr(m[1], "bias", nn.Parameter(fl.ones(8))),
    "training": lambda m: (m.train(), m(fl.randn(4, 3, 12, 12)), m.eval()),
}


def _stepped(model):
    optimizer = fl.optim.SGD(model.parameters(), lr=0.5)
    with fl.enable_grad():
        model(fl.ones(1, 3, 12, 12)).square().mean().backward()
    optimizer.step()
    model.zero_grad()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", WRITES)
def test_writes_are_followed(name):
    fl.manual_seed(1)
    model, x = block(), fl.randn(2, 3, 12, 12)
    compiled = fl.compile(model, mode="predict")
    before = called(compiled, x)
    with fl.no_grad():
        WRITES[name](model)
        after = compiled(x)
        assert_near(after, model(x))
    assert float((after - before).abs().max()) > 1e-3
    assert_near(called(compiled, x), model(x).detach())


def test_memory_that_numpy_sees_is_followed():
    model, x = block(), fl.randn(2, 3, 12, 12)
    compiled = fl.compile(model, mode="predict")
    called(compiled, x)
    weight = model[0].weight.detach().numpy()
    for k in range(3):
        weight[:] = k
        with fl.no_grad():
            assert_near(compiled(x), model(x))


def test_what_numpy_sees_from_the_beginning_is_not_kept():
    weight = np.ones((8, 3, 3, 3), dtype=np.float32)
    model, x = block(), fl.randn(2, 3, 12, 12)
    model[0].weight.data = fl.from_numpy(weight)
    compiled = fl.compile(model, mode="predict")
    assert_near(called(compiled, x), model(x).detach())
    assert once(compiled) == 0
    weight *= 2
    with fl.no_grad():
        assert_near(compiled(x), model(x))


def test_training_statistics_are_not_folded():
    model, other = block().train(), block().train()
    other.load_state_dict(model.state_dict())
    x = fl.randn(4, 3, 12, 12)
    compiled = fl.compile(model, mode="predict")
    assert bits(called(compiled, x)) == bits(called(other, x))
    assert once(compiled) == 0
    assert bits(model[1].running_var) == bits(other[1].running_var)


def _used_twice(conv, norm, x):
    h = conv(x)
    return norm(h) + h


def _returned(conv, norm, x):
    h = conv(x)
    return norm(h), h


def _input_written(conv, norm, x):
    x = x * 1
    h = conv(x)
    x.zero_()
    return norm(h) + x


def _normed_first(conv, norm, x):
    return norm(conv(norm(x)))


def _written_between(conv, norm, x):
    h = conv(x)
    h[0] = 0
    return norm(h)


@pytest.mark.parametrize("function, folds", [(_used_twice, False), (_returned, False), (_input_written, False), (_written_between, False), (_normed_first, True)])
def test_only_what_nobody_else_sees_is_folded(function, folds):
    conv, norm = trained(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4))
    x = fl.randn(2, 4, 9, 9)
    compiled = fl.compile(lambda x: function(conv, norm, x), mode="predict")
    got, wanted = called(compiled, x), called(lambda x: function(conv, norm, x), x)
    assert once(compiled) == folds
    for a, b in zip(got if isinstance(got, tuple) else [got], wanted if isinstance(wanted, tuple) else [wanted]):
        assert_near(a, b)
        assert folds or bits(a) == bits(b)


def test_one_batch_norm_behind_two_convolutions():
    a, norm, b = trained(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3))
    x = fl.randn(2, 4, 9, 9)
    compiled = fl.compile(lambda x: norm(b(norm(a(x)))), mode="predict")
    assert_near(called(compiled, x), called(lambda x: norm(b(norm(a(x)))), x))
    assert once(compiled) == 2


def test_nan_goes_through():
    model, x = block(), fl.randn(2, 3, 12, 12)
    compiled = fl.compile(model, mode="predict")
    called(compiled, x)
    x[0, 0, 0, 0] = float("nan")
    with fl.no_grad():
        assert (compiled(x).isnan() == model(x).isnan()).all() and compiled(x).isnan().any()


# ------------------------------------------------------------------------------------------------------------ what is computed once


def test_what_parameters_alone_give_is_computed_once():
    w = fl.randn(64, 32)
    compiled = fl.compile(lambda x: (w.contiguous() * 2).tanh() @ x, mode="replay")
    x = fl.randn(32, 5)
    assert bits(called(compiled, x)) == bits((w * 2).tanh() @ x)
    assert once(compiled) >= 2
    w[3] = 1.0
    assert bits(compiled(x)) == bits((w * 2).tanh() @ x)


def test_casts_of_weights_are_followed():
    model, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval(), fl.randn(4, 64)

    def predict(x):
        with fl.autocast("cpu"):
            return model(x)

    compiled = fl.compile(predict, mode="replay")
    assert bits(called(compiled, x)) == bits(called(predict, x))
    with fl.no_grad():
        model[0].weight.mul_(2)
    with pytest.warns(UserWarning, match="differ in op 0"):
        assert bits(called(compiled, x)) == bits(called(predict, x))


def test_draws_are_drawn_each_time():
    w = fl.ones(50, 50)
    compiled = fl.compile(lambda x: F.dropout(w, 0.5) + x, mode="replay")
    x = fl.zeros(50, 50)
    fl.manual_seed(3)
    got = [bits(compiled(x)) for _ in range(8)]
    fl.manual_seed(3)
    assert got == [bits(F.dropout(w, 0.5) + x) for _ in range(8)]
    assert len(set(got)) == 8


def test_what_is_returned_is_fresh():
    w = fl.ones(8)
    compiled = fl.compile(lambda x: (w * 2, x + 1), mode="replay")
    called(compiled, fl.zeros(8))
    a, _ = compiled(fl.zeros(8))
    a.zero_()
    assert (compiled(fl.zeros(8))[0] == 2).all()


def test_what_is_written_inside_is_not_kept():
    w, total = fl.ones(8), fl.zeros(8)

    def step(x):
        h = w * 2
        h.add_(x)
        total.add_(total + 1)
        return h + total * 2

    compiled = fl.compile(step, mode="replay")
    got = [bits(compiled(fl.full((8,), float(k)))) for k in range(8)]
    total.zero_()
    assert got == [bits(step(fl.full((8,), float(k)))) for k in range(8)]


def test_no_more_is_kept_than_was_read():
    """An outer product of two vectors is made anew in each run."""
    w = fl.randn(400)
    compiled = fl.compile(lambda x: (w[:, None] * w[None, :]) @ x, mode="replay")
    x = fl.randn(400, 2)
    assert bits(called(compiled, x)) == bits((w[:, None] * w[None, :]) @ x)
    assert once(compiled) == 0


@pytest.mark.eager("how much memory there is")
def test_what_is_kept_goes_with_the_program():
    def used():
        gc.collect()
        return fl.memory_stats()["allocated_bytes"]

    w, x = fl.randn(256, 256), fl.randn(256)
    before = used()
    compiled = fl.compile(lambda x: (w * 2) @ x, mode="replay")
    called(compiled, x)
    assert once(compiled) == 1 and used() >= before + w.numel() * 4
    del compiled
    assert used() <= before + 4096


# What NumPy, DLPack or a buffer wrote between two runs, and let go of again.
OUTSIDERS = {
    "numpy": lambda w: w.numpy().fill(5),
    "asarray": lambda w: np.asarray(w).fill(5),
    "a view's": lambda w: w[3:5].numpy().fill(5),
    "buffer": lambda w: np.frombuffer(memoryview(w), dtype=np.float32).copy() is None or memoryview(w).cast("B").__setitem__(slice(0, 64), bytes(64)),
    "dlpack": lambda w: fl.from_dlpack(w).mul_(3),
}


@pytest.mark.parametrize("name", OUTSIDERS)
def test_who_saw_the_memory_and_let_go_may_have_written_it(name):
    w, x = fl.randn(16, 16), fl.randn(16, 5)
    compiled = fl.compile(lambda x: (w * 2) @ x, mode="replay")
    with fl.no_grad():
        for _ in range(8):  # so that the next call is replayed
            before = compiled(x)
        OUTSIDERS[name](w)
        assert bits(compiled(x)) == bits((w * 2) @ x) != bits(before)


@pytest.mark.parametrize("which", ["running_mean", "running_var", "weight", "bias"])
def test_statistics_written_between_are_those_of_the_norm(which):
    conv, norm = trained(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))
    other_conv, other = trained(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))
    other_conv.load_state_dict(conv.state_dict())
    other.load_state_dict(norm.state_dict())
    x = fl.randn(2, 4, 9, 9)

    def step(conv, norm, x):
        h = conv(x)
        getattr(norm, which)[:2].mul_(1.1)
        return norm(h)

    compiled = fl.compile(lambda x: step(conv, norm, x), mode="predict")
    with fl.no_grad():
        for _ in range(9):
            assert_near(compiled(x), step(other_conv, other, x))


@pytest.mark.eager("how much memory there is")
def test_what_is_on_the_way_is_not_kept():
    w, x = fl.randn(128, 128), fl.randn(128)

    def deep(x):
        h = w
        for _ in range(20):
            h = (h * 1.01).t().contiguous()
        return h @ x

    compiled = fl.compile(deep, mode="replay")
    before = fl.memory_stats()["allocated_bytes"]
    assert bits(called(compiled, x)) == bits(deep(x))
    assert once(compiled) == 40 and fl.memory_stats()["allocated_bytes"] - before < 3 * w.numel() * 4
