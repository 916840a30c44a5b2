"""`ModuleTracker`: which modules run, forward and backward."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau.utils.module_tracker import ModuleTracker

pytestmark = pytest.mark.eager("asks while modules run")


class Pair(fl.nn.Module):
    def __init__(self, ask):
        super().__init__()
        self.a, self.b = fl.nn.Linear(2, 2), fl.nn.Linear(2, 2)
        self.ask = ask

    def forward(self, x):
        y = self.a(x)
        self.ask()
        z = y * 1
        z.register_hook(lambda _: self.ask())
        return self.b(z)


def test_parents_are_the_modules_that_run():
    seen = []
    net = fl.nn.Sequential(Pair(lambda: seen.append((sorted(tracker.parents), tracker.is_bw))), fl.nn.ReLU())
    with ModuleTracker() as tracker:
        y = net(fl.ones(1, 2, requires_grad=True))
        assert tracker.parents == {"Global"}
        assert not tracker.is_bw
        y.sum().backward()
        assert tracker.parents == {"Global"}
        assert not tracker.is_bw
    inside = ["Global", "Sequential", "Sequential.0"]
    assert seen == [(inside, False), ([*inside, "Sequential.0.b"], True)]
    net(fl.ones(1, 2))
    assert seen[2:] == [(["Global"], False)]


def test_what_backward_leaves_behind_goes_with_it():
    """No input needs a gradient, so that nothing says when a module's backward is over; another backward, or one that fails, starts anew."""
    net = fl.nn.Linear(2, 2)
    with ModuleTracker() as tracker:
        for _ in range(2):
            y = net(fl.ones(1, 2))
            y.register_hook(lambda g: g / (tracker.parents == {"Global", "Linear"}))
            y.sum().backward()
            assert tracker.parents == {"Global"}
        y = net(fl.ones(1, 2)) * 1
        net.weight.register_hook(lambda g: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        assert tracker.parents == {"Global"}
        assert not tracker.is_bw
    assert bool(fl.isfinite(net.weight.grad).all())
