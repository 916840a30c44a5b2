"""Programs do with fewer passes over memory what was recorded: the same bits, in less memory."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import flambeau as fl
import flambeau.nn.functional as F  # noqa: N812
from flambeau import Tensor, nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": lambda: nn.ReLU(),
    "relu in place": lambda: nn.ReLU(inplace=True),
    "relu6": lambda: nn.ReLU6(),
    "relu6 in place": lambda: nn.ReLU6(inplace=True),
    "hardtanh": lambda: nn.Hardtanh(-0.3, 0.8),
    "hardtanh in place": lambda: nn.Hardtanh(-0.3, 0.8, inplace=True),
}


def steps(make: Callable[[], nn.Module], x: Tensor, replay: bool, extra: Callable[[Tensor], Tensor] = lambda y: y) -> list[Tensor]:
    """Results and what training leaves, after some steps."""
    fl.manual_seed(0)
    net = make()
    optimizer = fl.optim.SGD(net.parameters(), 0.1, momentum=0.9)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = extra(net(x)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    f = fl.compile(step, mode="replay") if replay else step
    losses = [f(x).clone() for _ in range(7)]
    if replay:
        assert "replayed" in fl.compiler.explain(f)
    return [*losses, *net.state_dict().values(), *(p.grad for p in net.parameters() if p.grad is not None)]


def same(make: Callable[[], nn.Module], x: Tensor, extra: Callable[[Tensor], Tensor] = lambda y: y) -> None:
    for eager, replayed in zip(steps(make, x, False, extra), steps(make, x, True, extra), strict=True):
        assert fl.equal(eager, replayed)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(4, 3, 6, 5), (2, 3, 4), (7, 3)])
def test_batch_norm_and_what_limits_it(name: str, shape: tuple[int, ...]) -> None:
    norm = {4: nn.BatchNorm2d, 3: nn.BatchNorm1d, 2: nn.BatchNorm1d}[len(shape)]
    head = nn.Linear if len(shape) == 2 else nn.Conv1d if len(shape) == 3 else nn.Conv2d
    more = () if len(shape) == 2 else (1,)
    same(lambda: nn.Sequential(head(3, 5, *more), norm(5), ACTIVATIONS[name](), head(5, 4, *more)), fl.randn(*shape))


def test_nobody_computes_what_went_into_another() -> None:
    """The pattern is found; one whose middle somebody sees is not."""
    norm = nn.BatchNorm2d(4)
    conv = nn.Conv2d(4, 4, 3, padding=1)
    x = fl.randn(2, 4, 8, 8)

    def names(function: Callable[[Tensor], object]) -> list[str]:
        compiled = fl.compile(function, mode="replay")
        for _ in range(4):
            compiled(x)
        (entries,) = compiled.entries.values()  # type: ignore[attr-defined]
        return [name for name, runs in entries[0].program.nodes() if runs]

    with fl.no_grad():
        fused = names(lambda x: F.relu(norm(conv(x))))
        assert "batch_norm_clamp" in fused and "relu" not in fused and "batch_norm" not in fused

        def both(x: Tensor) -> tuple[Tensor, Tensor]:
            y = norm(conv(x))
            return y, F.relu(y)

        assert "relu" in names(both)

    def step(x: Tensor) -> Tensor:
        loss = F.relu6(norm(conv(x))).square().mean()
        for p in (*conv.parameters(), *norm.parameters()):
            p.grad = None
        loss.backward()
        return loss

    trained = names(step)
    assert {"batch_norm_clamp", "batch_norm_clamp_backward"} <= set(trained)
    assert not {"batch_norm", "batch_norm_backward", "hardtanh_backward", "relu6"} & set(trained)


def test_a_bias_that_changes_before_the_backward() -> None:
    """Which the recomputed activation would not know."""

    class Changing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.head = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            y = self.head(F.relu(self.norm(x)))
            with fl.no_grad():
                self.norm.bias.add_(0.5)
            return y

    same(Changing, fl.randn(6, 3))


@pytest.mark.slow
def test_several_readers() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            y = F.relu(self.b(self.a(x)))
            return self.c(y) + y + F.relu(self.b(y))

    same(Twice, fl.randn(2, 3, 6, 6))


class Random(nn.Module):
    """Layers, sums and norms at random."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.plan = [random.Random(seed).randrange(6) for _ in range(9)]
        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in self.plan)
        self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in self.plan)
        self.limits = nn.ModuleList(random.Random(seed + i).choice(list(ACTIVATIONS.values()))() for i in range(len(self.plan)))

    def forward(self, x: Tensor) -> Tensor:
        kept = [x * 1]
        for i, kind in enumerate(self.plan):
            y = kept[-1]
            if kind == 0:
                y = self.convs[i](y)
            elif kind < 3:
                y = self.limits[i](self.norms[i](self.convs[i](y)))
            elif kind == 3:
                y = y + kept[len(kept) // 2]
            elif kind == 4:
                y = self.limits[i](self.norms[i](y) + y)
            else:
                y = F.gelu(F.layer_norm(y, y.shape[2:]))
            kept.append(y)
        return self.convs[0](kept[-1] + kept[-2])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_random_networks(seed: int) -> None:
    same(lambda: Random(seed), fl.randn(2, 4, 6, 6))


@pytest.mark.slow
def test_an_arena_holds_what_a_step_needs_and_no_more() -> None:
    """Bytes in use after a step: parameters, momentum, gradients in the arena, and activations that share their places."""
    layers = 12
    fl.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(layers)))
    optimizer = fl.optim.SGD(net.parameters(), 0.1)
    x = fl.randn(512, 256)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    f = fl.compile(step, mode="replay")
    for _ in range(3):
        f(x)
    before = fl._C.memory_stats()["allocated_bytes"]
    f(x)
    activation, weights = 512 * 256 * 4, layers * 256 * 257 * 4
    # A product's input and GELU's are kept per layer, and at the beginning of the backward there are a few gradients.
    assert fl._C.memory_stats()["allocated_bytes"] - before < 1 << 20
    (entries,) = f.entries.values()
    places = entries[0].program.lives()
    peak = max(sum(nbytes for _, nbytes, first, last in places if first <= k <= last) for k in range(len(entries[0].program) + 1))
    assert peak < 2 * layers * activation + weights + 4 * activation


def test_gradients_that_somebody_keeps() -> None:
    """They lie in the arena until one is kept from a step to the next; what is kept does not change."""
    fl.manual_seed(0)
    net = nn.Linear(64, 64)
    optimizer = fl.optim.SGD(net.parameters(), 0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    f = fl.compile(step, mode="replay")
    x = fl.randn(32, 64)
    for _ in range(5):
        f(x)
    kept, copies = [], []
    for _ in range(6):
        f(x)
        assert net.weight.grad is not None
        kept.append(net.weight.grad)
        copies.append(net.weight.grad.clone())
    for a, b in zip(kept, copies, strict=True):
        assert fl.equal(a, b)
    array = net.weight.grad.numpy()
    copy = array.copy()
    f(x)
    assert (array == copy).all()
    net.weight.grad.resize_(70, 64)
    assert net.weight.grad.shape == (70, 64)
