"""Autocast's loss and gradients are as far from float32's as bfloat16's rounding allows, and no further.

How far that is depends on the network, so it is computed and not guessed: the same network runs in float32 with a random
relative error of exactly bfloat16's unit roundoff, 2^-8, at every place where autocast rounds to bfloat16 (operands and
results of products, and what works on those; the same places in backward). A rounding is at most as large, so what these
errors make of loss and gradients is a bound of what roundings make of them, as long as both are small; of some draws the
largest counts.
"""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn

F = nn.functional
UNIT = 2.0**-8
DRAWS = 6


class Noise(fl.autograd.Function):
    """A relative error of UNIT, up or down, for every element, and others for its gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * (1 + UNIT * (2 * fl.randint(0, 2, x.shape).float() - 1))

    @staticmethod
    def backward(ctx, dy):
        return dy * (1 + UNIT * (2 * fl.randint(0, 2, dy.shape).float() - 1))


def exact(x):
    return x


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(40, 64), nn.Linear(64, 48), nn.Linear(48, 10)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = layer(x).tanh()
        return self.layers[-1](x)

    def rounded(self, x, q):
        for layer in self.layers[:-1]:
            x = q(q(F.linear(q(x), q(layer.weight), q(layer.bias))).tanh())
        return q(F.linear(x, q(self.layers[-1].weight), q(self.layers[-1].bias)))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 24, 3, stride=2)
        self.norm, self.out = nn.BatchNorm2d(16), nn.Linear(24, 10)

    def forward(self, x):
        x = F.silu(self.norm(self.a(x)))
        return self.out(F.silu(self.b(x)).mean((2, 3)))

    def rounded(self, x, q):
        x = q(F.conv2d(q(x), q(self.a.weight), q(self.a.bias), padding=1))
        x = q(F.batch_norm(x, None, None, self.norm.weight, self.norm.bias, training=True))
        x = q(F.conv2d(q(F.silu(x)), q(self.b.weight), q(self.b.bias), stride=2))
        return q(F.linear(q(q(F.silu(x)).mean((2, 3))), q(self.out.weight), q(self.out.bias)))


class Block(nn.Module):
    HEADS = 4

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(32), nn.LayerNorm(32)])
        self.qkv, self.mix, self.up, self.down, self.out = (nn.Linear(*s) for s in ((32, 96), (32, 32), (32, 64), (64, 32), (32, 10)))

    def heads(self, x):
        return x.reshape(*x.shape[:2], 3, self.HEADS, -1).permute(2, 0, 3, 1, 4)

    def forward(self, x):
        y = F.scaled_dot_product_attention(*self.heads(self.qkv(self.norms[0](x))), is_causal=True)
        x = x + self.mix(y.transpose(1, 2).reshape(x.shape))
        x = x + self.down(F.gelu(self.up(self.norms[1](x))))
        return self.out(x.mean(1))

    def rounded(self, x, q):
        def linear(layer, x):
            return q(F.linear(q(x), q(layer.weight), q(layer.bias)))

        y = q(F.scaled_dot_product_attention(*self.heads(linear(self.qkv, self.norms[0](x))), is_causal=True))
        x = x + linear(self.mix, y.transpose(1, 2).reshape(x.shape))
        x = x + linear(self.down, q(F.gelu(linear(self.up, self.norms[1](x)))))
        return linear(self.out, x.mean(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(12, 24, batch_first=True), nn.Linear(24, 10)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])

    def rounded(self, x, q):
        p = self.lstm
        gates_x = q(F.linear(q(x), q(p.weight_ih_l0), q(p.bias_ih_l0 + p.bias_hh_l0)))
        h = c = fl.zeros(x.shape[0], 24)
        weight = q(p.weight_hh_l0)
        for t in range(x.shape[1]):
            i, f, g, o = (gates_x[:, t] + q(F.linear(q(h), weight))).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return q(F.linear(q(h), q(self.out.weight), q(self.out.bias)))


MODELS = {"mlp": (MLP, (32, 40)), "convnet": (ConvNet, (16, 3, 12, 12)), "transformer block": (Block, (8, 10, 32)), "lstm": (Recurrent, (16, 9, 12))}


def loss_and_gradients(model, x, target, forward):
    model.zero_grad()
    x = x.clone().requires_grad_()
    loss = F.cross_entropy(forward(x).float(), target)
    loss.backward()
    found = {"loss": loss, "x": x.grad} | {n: p.grad for n, p in model.named_parameters()}
    return {n: v.detach().double().numpy().copy() for n, v in found.items()}


def distances(found, plain):
    return {n: float(np.linalg.norm(found[n] - plain[n])) for n in plain}


def all_of(model, x, target):
    """Float32's results, autocast's distance from them, and the bound."""
    plain = loss_and_gradients(model, x, target, model)
    same = loss_and_gradients(model, x, target, lambda v: model.rounded(v, exact))
    for name in plain:
        np.testing.assert_allclose(same[name], plain[name], rtol=1e-3, atol=1e-5, err_msg=f"{name}: `rounded` is the same network")

    def low(v):
        with fl.autocast("cpu", dtype=fl.bfloat16):
            return model(v)

    draws = [distances(loss_and_gradients(model, x, target, lambda v: model.rounded(v, Noise.apply)), plain) for _ in range(DRAWS)]
    bound = {n: max(d[n] for d in draws) for n in plain}
    return plain, distances(loss_and_gradients(model, x, target, low), plain), bound


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MODELS))
def test_autocast_is_within_the_error_of_bfloat16(name):
    make, shape = MODELS[name]
    model, x = make(), fl.randn(*shape)
    plain, found, bound = all_of(model, x, fl.arange(shape[0]) % 10)
    assert any(found[n] > 0 for n in found), "autocast computes in another type"
    beyond = {n: (found[n], bound[n]) for n in plain if found[n] > bound[n]}
    assert beyond == {}
