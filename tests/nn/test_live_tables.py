"""What is put into a module's tables of hooks by hand is called; parameters by flag; attributes that frameworks read."""

import copy
import itertools
import pickle
from collections import OrderedDict

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn._hooks import TABLES
from flambeau.nn.modules import module as everywhere

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


def hooked(module, seen):
    module.register_forward_hook(lambda *args: seen.append("hook"))


def test_plain_dicts_in_place_of_the_tables():
    """As programs leave them that write a saved state into `__dict__`."""
    module, seen = nn.Linear(2, 2), []
    plain = {name: OrderedDict(table) if name in TABLES else table for name, table in vars(nn.Linear(2, 2)).items()}
    plain["_forward_pre_hooks"][3] = lambda *args: seen.append("before")
    vars(module).update(plain)
    module(fl.ones(1, 2))
    hooked(module, seen)
    module(fl.ones(1, 2))
    assert seen == ["before", "before", "hook"]
    vars(module)["_forward_pre_hooks"] = {}
    module.register_forward_pre_hook(lambda *args: seen.append("again"))
    module(fl.ones(1, 2))
    assert seen[3:] == ["again", "hook"]


def test_a_module_without_its_tables():
    class Bare(nn.Module):
        def __init__(self):
            pass

    for use in (lambda m: m(1), lambda m: m.register_forward_hook(print)):
        with pytest.raises(AttributeError, match="'Bare' object has no attribute '_forward_hooks'"):
            use(Bare())


def test_tables_are_ordered_dicts():
    module, seen = nn.Linear(2, 2), []
    assert all(isinstance(vars(module)[name], OrderedDict) and repr(vars(module)[name]) == "OrderedDict()" for name in TABLES)
    handles = [module.register_forward_hook(lambda *args, i=i: seen.append(i)) for i in range(3)]
    module._forward_hooks.move_to_end(handles[0].id)
    module._forward_hooks.move_to_end(handles[2].id, last=False)
    module(fl.ones(1, 2))
    assert seen == [2, 1, 0]
    module._forward_hooks.popitem()
    module(fl.ones(1, 2))
    assert seen == [2, 1, 0, 2, 1]


def test_a_hook_adds_no_attribute():
    module = nn.Linear(2, 2)
    before = list(vars(module))
    hooked(module, [])
    module.register_full_backward_hook(lambda *args: None)
    module(fl.ones(1, 2))
    assert list(vars(module)) == before and module._is_full_backward_hook is True


@pytest.mark.parametrize("table", ["_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"])
def test_a_table_may_be_replaced(table):
    module, seen = nn.Linear(2, 2), []
    hook = {"_forward_hooks": module.register_forward_hook, "_forward_pre_hooks": module.register_forward_pre_hook}.get(table)
    x = fl.ones(1, 2, requires_grad=True)
    if hook is not None:
        hook(lambda *args: seen.append("old"))
    setattr(module, table, OrderedDict())
    module(x).sum().backward()
    assert seen == []
    setattr(module, table, OrderedDict({3: lambda *args: seen.append("new")}))
    getattr(module, table)[4] = lambda *args: seen.append("newer")
    module(x).sum().backward()
    assert seen == ["new", "newer"]


def test_a_shallow_copy_shares_tables():
    module, seen = nn.Linear(2, 2), []
    other = copy.copy(module)
    hooked(module, seen)
    other(fl.ones(1, 2))
    hooked(other, seen)
    module(fl.ones(1, 2))
    assert seen == ["hook"] * 3
    other.register_buffer("shared", fl.ones(1))
    assert module.shared is other.shared


def test_a_state_may_lack_what_older_versions_did_not_have():
    module, seen = nn.Linear(2, 2), []
    state = {k: v for k, v in vars(module).items() if k in ("training", "_parameters", "_buffers", "_modules", "in_features", "out_features")}
    made = nn.Linear.__new__(nn.Linear)
    made.__setstate__({**state, "_forward_hooks": OrderedDict({0: lambda *args: seen.append("hook")})})
    assert vars(made).keys() == vars(module).keys() and made._is_full_backward_hook is None
    x = fl.ones(1, 2)
    assert made(x).tolist() == module(x).tolist() and seen == ["hook"]


def test_all_modules_have_one_kind_of_backward_hooks():
    names = [name for name in vars(everywhere) if name.startswith("_global_") and "_hooks" in name]
    assert len(names) == 9 and all(isinstance(getattr(everywhere, name), OrderedDict) for name in names)
    everywhere._global_is_full_backward_hook = None
    with everywhere.register_module_full_backward_hook(lambda *args: None):
        with pytest.raises(RuntimeError, match="all modules have a hook of register_module_full_backward_hook"):
            everywhere.register_module_backward_hook(lambda *args: None)
    everywhere._global_is_full_backward_hook = None
    with everywhere.register_module_backward_hook(lambda *args: None):
        with pytest.raises(RuntimeError, match="all modules have a hook of register_module_backward_hook"):
            everywhere.register_module_full_backward_hook(lambda *args: None)
    everywhere._global_is_full_backward_hook = None


def test_backward_hooks_without_gradients_of_the_arguments():
    module, seen = nn.Linear(2, 2), []
    module.register_full_backward_hook(lambda m, grad_input, grad_output: seen.append(grad_input))
    with pytest.warns(UserWarning, match="hooks of Linear are called without a grad_input: none of the module's arguments requires grad"):
        module(fl.ones(1, 2)).sum().backward()
    assert seen == [(None,)]


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
    with pytest.raises(fl.ArgumentError, match="Anti-alias option is restricted to bilinear"):
        fl.nn.functional.interpolate(x, size=(1, 4), antialias=True)


# ---------------------------------------------------------------- handles and hooks that were there before


def as_in_a_new_process(monkeypatch):
    monkeypatch.setattr("flambeau._handles._next_id", itertools.count())


REGISTER = {
    "forward": lambda module, hook: module.register_forward_hook(lambda m, args, out: hook()),
    "forward_pre": lambda module, hook: module.register_forward_pre_hook(lambda m, args, kwargs: hook(), with_kwargs=True),
    "full_backward": lambda module, hook: module.register_full_backward_hook(lambda m, grads, outs: hook()),
    "load": lambda module, hook: module.register_load_state_dict_post_hook(lambda m, keys: hook()),
    "optimizer": lambda module, hook: module.optimizer.register_step_post_hook(lambda optimizer, args, kwargs: hook()),
}


@pytest.mark.parametrize("register", REGISTER.values(), ids=REGISTER)
def test_new_hooks_do_not_replace_those_of_a_file(register, monkeypatch):
    seen = []
    as_in_a_new_process(monkeypatch)
    module = nn.Linear(2, 2)
    module.optimizer = fl.optim.SGD(module.parameters(), lr=0.1)
    register(module, lambda: seen.append("old"))
    as_in_a_new_process(monkeypatch)  # the hook is under a number that comes again
    new = register(module, lambda: seen.append("new"))

    def use():
        seen.clear()
        module(fl.ones(1, 2, requires_grad=True)).sum().backward()
        module.load_state_dict(module.state_dict())
        module.optimizer.step()
        return seen

    assert use() == ["old", "new"]
    new.remove()
    assert use() == ["old"]


def test_new_hooks_do_not_replace_those_that_were_put_in_by_hand(monkeypatch):
    as_in_a_new_process(monkeypatch)
    module, seen = nn.Linear(2, 2), []
    module._forward_hooks[1] = lambda *args: seen.append("by hand")
    for name in "abc":
        module.register_forward_hook(lambda *args, name=name: seen.append(name))
    module(fl.ones(1, 2))
    assert seen == ["by hand", "a", "b", "c"]


def test_handles_of_a_file_remove_no_hooks_but_their_own(monkeypatch):
    as_in_a_new_process(monkeypatch)
    written = pickle.dumps([nn.Linear(2, 2).register_forward_hook(print) for _ in range(3)][-1])
    as_in_a_new_process(monkeypatch)
    handle, seen = pickle.loads(written), []
    assert handle.id == 2
    handle.remove()  # its number is free again
    others = [nn.Linear(2, 2).register_forward_hook(print) for _ in range(3)]
    assert handle.id not in {other.id for other in others}
    module = nn.Linear(2, 2)
    twin, kept = pickle.loads(pickle.dumps((module, module.register_forward_pre_hook(print))))
    kept.remove()
    twin.register_forward_pre_hook(lambda *args: seen.append("stays"))
    kept.remove()
    twin(fl.ones(1, 2))
    assert seen == ["stays"]
