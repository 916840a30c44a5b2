"""What is put into a module's tables of hooks by hand is called; parameters by flag; attributes that frameworks read."""

import copy
import pickle

import pytest

import flambeau as fl
from flambeau import nn

PUT = {
    "item": lambda table, hook: table.__setitem__(7, hook),
    "update": lambda table, hook: table.update({7: hook}),
    "setdefault": lambda table, hook: table.setdefault(7, hook),
    "or": lambda table, hook: table.__ior__({7: hook}),
}


@pytest.mark.parametrize("made", [lambda m: m, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["new", "deepcopy", "pickle"])
@pytest.mark.parametrize("put", PUT.values(), ids=PUT)
def test_hooks_that_are_put_in_by_hand(put, made):
    module, seen = made(nn.Linear(2, 2)), []
    put(module._forward_hooks, lambda *args: seen.append("after"))
    put(module._forward_pre_hooks, lambda *args: seen.append("before"))
    module(fl.ones(1, 2))
    assert seen == ["before", "after"]
    module._forward_hooks.clear()
    module(fl.ones(1, 2))
    assert seen == ["before", "after", "before"]


def test_tables_do_not_keep_their_module():
    import weakref

    module = nn.Linear(2, 2)
    table, gone = module._forward_hooks, weakref.ref(module)
    del module
    assert gone() is None
    table[1] = print


def test_a_tensor_may_say_that_it_is_a_parameter():
    class Own(fl.Tensor):
        pass

    x = fl.ones(2).as_subclass(Own)
    assert not isinstance(x, nn.Parameter)
    x._is_param = True
    assert isinstance(x, nn.Parameter)
    assert not isinstance(x, nn.UninitializedParameter)
    module = nn.Module()
    module.weight = x
    assert [name for name, _ in module.named_parameters()] == ["weight"]
    assert isinstance(nn.Parameter(fl.ones(1)), nn.Parameter)
    assert not isinstance(fl.ones(1), nn.Parameter)


def test_an_optimizer_that_wraps_another_leaves_init_out():
    class Wrapping(fl.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        @property
        def param_groups(self):
            return self.inner.param_groups

        def step(self, closure=None):
            return self.inner.step(closure)

    w = fl.ones(1, requires_grad=True)
    optimizer = Wrapping(fl.optim.SGD([w], lr=1.0))
    schedule = fl.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for expected in (0.0, -0.5):
        w.grad = fl.ones(1)
        optimizer.step()
        schedule.step()
        assert w.item() == expected


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiasing_takes_all_positions_into_account(mode):
    x = fl.zeros(1, 1, 1, 16)
    x[..., ::4] = 1
    plain = fl.nn.functional.interpolate(x, size=(1, 4), mode=mode)
    wide = fl.nn.functional.interpolate(x, size=(1, 4), mode=mode, antialias=True)
    assert plain.std() == pytest.approx(0, abs=1e-6)
    assert plain.mean() < 0.2
    assert wide.mean() == pytest.approx(0.25, abs=0.02)
    with pytest.raises(fl.ArgumentError, match="antialias = True with mode = 'nearest'"):
        fl.nn.functional.interpolate(x, size=(1, 4), antialias=True)
