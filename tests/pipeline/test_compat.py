"""A program that was written for torchgpipe, but for its imports."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.compat.torchgpipe import GPipe, is_checkpointing, is_recomputing
from flambeau.compat.torchgpipe.balance import balance_by_size, balance_by_time
from flambeau.compat.torchgpipe.batchnorm import DeferredBatchNorm
from flambeau.compat.torchgpipe.skip import Namespace, pop, skippable, stash, verify_skippables


@skippable(stash=["skip"])
class Down(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)

    def forward(self, x):
        yield stash("skip", x)
        return self.conv(x).relu()


@skippable(pop=["skip"])
class Up(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)

    def forward(self, x):
        skip = yield pop("skip")
        return self.conv(x) + skip


def u_net():
    torch.manual_seed(0)
    outer, inner = Namespace(), Namespace()
    return nn.Sequential(
        Down(4).isolate(outer), nn.BatchNorm2d(8), Down(8).isolate(inner), nn.Conv2d(16, 16, 1), Up(8).isolate(inner), Up(4).isolate(outer)
    )


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.rand(6, 4, 8, 8)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
def test_a_u_net_trains_as_without_a_pipeline():
    model = u_net().eval()  # batch norms by running statistics: those of micro-batches differ from the batch's
    expected = train(model)
    verify_skippables(model)
    for balance in ([6], [3, 3], [1, 2, 2, 1]):
        assert all(abs(a - b) < 1e-6 for a, b in zip(train(GPipe(u_net(), balance, devices=["cpu"] * len(balance), chunks=3).eval()), expected))


@pytest.mark.slow
def test_state_goes_from_one_balance_to_another():
    trained = GPipe(u_net(), [2, 4], chunks=3, deferred_batch_norm=True)
    train(trained)
    assert any(isinstance(layer, DeferredBatchNorm) for layer in trained.modules())
    plain = u_net()
    plain.load_state_dict(trained.state_dict())
    other = GPipe(u_net(), [3, 2, 1], chunks=3, deferred_batch_norm=True)
    other.load_state_dict(plain.state_dict())
    x = torch.rand(6, 4, 8, 8)
    assert torch.equal(trained.eval()(x), other.eval()(x))


def test_balances():
    model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)])
    assert sum(balance_by_time(2, model, torch.rand(8, 64), timeout=0.0)) == 4
    assert balance_by_size(2, model, torch.rand(8, 64), chunks=2) == [2, 2]


def test_flags():
    seen = []

    class Look(nn.Linear):
        def forward(self, x):
            seen.append((is_checkpointing(), is_recomputing()))
            return super().forward(x)

    GPipe(nn.Sequential(Look(2, 2)), [1], chunks=1, checkpoint="always")(torch.rand(1, 2)).sum().backward()
    assert seen == [(True, False), (False, True)]
