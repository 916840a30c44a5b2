"""Small random networks with their gradients, inside of lazy() and outside."""

from __future__ import annotations

import numpy as np
import pytest
from support.both import both

import flambeau as fl

F = fl.nn.functional
pytestmark = pytest.mark.eager("has regions of its own")

# Of a network's tensors of shape (2, c, 8, 8): y is one, z another, `leaf` makes a parameter.
LAYERS = [
    lambda y, z, c, leaf: F.conv2d(y, leaf(c, c, 3, 3), leaf(c), padding=1),
    lambda y, z, c, leaf: F.conv2d(y, leaf(c, 1, 3, 3), None, padding=1, groups=c),
    lambda y, z, c, leaf: F.batch_norm(y, fl.zeros(c), fl.ones(c), leaf(c), leaf(c), training=True),
    lambda y, z, c, leaf: F.relu(y),
    lambda y, z, c, leaf: y + z,
    lambda y, z, c, leaf: y * z,
    lambda y, z, c, leaf: F.gelu(y) * 0.5,
    lambda y, z, c, leaf: F.max_pool2d(y, 3, 1, 1),
    lambda y, z, c, leaf: F.avg_pool2d(y, 3, 1, 1),
    lambda y, z, c, leaf: F.dropout(y, 0.3),
    lambda y, z, c, leaf: F.layer_norm(y, (8,), leaf(8), leaf(8)),
    lambda y, z, c, leaf: F.group_norm(y, 2, leaf(c), leaf(c)),
    lambda y, z, c, leaf: F.softmax(y, 1),
    lambda y, z, c, leaf: y.transpose(2, 3),
    lambda y, z, c, leaf: fl.cat([y[:, : c // 2], z[:, c // 2 :]], 1),
    lambda y, z, c, leaf: (y.flatten(2).transpose(1, 2) @ leaf(c, c)).transpose(1, 2).reshape(2, c, 8, 8),
    lambda y, z, c, leaf: y.clone().add_(z).tanh_(),
    lambda y, z, c, leaf: fl.where(y > 0, y, y.exp().clamp(max=1) - 1),
    lambda y, z, c, leaf: F.interpolate(F.avg_pool2d(y, 2), scale_factor=2),
]


def network(seed):
    rng = np.random.default_rng(seed)

    def pick(list_):
        return list_[rng.integers(len(list_))]

    dtype, c = pick([fl.float32, fl.float32, fl.bfloat16, fl.float64]), pick([4, 8, 16])
    leaves = [fl.randn(2, c, 8, 8, dtype=dtype, requires_grad=True)]
    pool, read = [leaves[0] * 1], []

    def leaf(*sizes):
        leaves.append((fl.randn(*sizes) * 0.3).to(dtype).requires_grad_())
        return leaves[-1]

    for _ in range(rng.integers(4, 14)):
        y = pick(LAYERS)(pick(pool), pick(pool), c, leaf)
        if rng.random() < 0.15:
            written = y * 1
            written[:, 0] = written[:, 1] * 2
            written[:, :, 1:3].mul_(0.5)
            y = written
        if rng.random() < 0.1:
            read.append(repr(y.double().sum().item()))
        pool.append(y)
        if len(pool) > 4:
            pool.pop(rng.integers(len(pool)))
    loss = sum((y.double() ** 2).mean() for y in pool)
    if rng.random() < 0.3:
        first = fl.autograd.grad(loss, leaves[0], create_graph=True, allow_unused=True)[0]
        loss = loss if first is None else loss + (first.double() ** 2).sum()
    loss.backward()
    return [loss, *pool, read, *(x.grad for x in leaves)]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 90, 15))
def test_networks(first):
    for seed in range(first, first + 15):
        both(network, seed)
