"""Methods that a module in a tree overrides are asked by those of the tree's root as often, and in the order, that PyTorch asks them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import flambeau as fl  # noqa: E402

METHODS = (
    "train _apply requires_grad_ zero_grad state_dict _save_to_state_dict _load_from_state_dict named_parameters parameters named_modules children "
    "named_children modules named_buffers buffers apply _named_members get_extra_state"
).split()
CALLS = {
    "train": lambda m: m.train(),
    "eval": lambda m: m.eval(),
    "double": lambda m: m.double(),
    "requires_grad_": lambda m: m.requires_grad_(True),
    "zero_grad": lambda m: m.zero_grad(),
    "state_dict": lambda m: m.state_dict(),
    "load_state_dict": lambda m: m.load_state_dict(m.state_dict()),
    "parameters": lambda m: list(m.parameters()),
    "named_parameters": lambda m: list(m.named_parameters()),
    "buffers": lambda m: list(m.buffers()),
    "named_modules": lambda m: list(m.named_modules()),
    "modules": lambda m: list(m.modules()),
    "children": lambda m: list(m.children()),
    "apply": lambda m: m.apply(lambda part: None),
    "share_memory": lambda m: m.share_memory(),
    "to_empty": lambda m: m.to_empty(device="cpu"),
}


def _noting(base, name, asked):
    def method(self, *args, **kwargs):
        asked.append(name)
        return getattr(base, name)(self, *args, **kwargs)

    return method


def _asked(lib, call, whole):
    asked = []
    own = {name: _noting(lib.nn.BatchNorm1d, name, asked) for name in METHODS if name != "get_extra_state"}
    own["get_extra_state"] = lambda self: asked.append("get_extra_state")
    own["set_extra_state"] = lambda self, state: asked.append("set_extra_state")
    inner = type("Noting", (lib.nn.BatchNorm1d,), own)(2)
    tree = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Sequential(inner))
    asked.clear()
    call(tree if whole else inner)
    return asked


@pytest.mark.parametrize("whole", [True, False], ids=["of the root", "of the module"])
@pytest.mark.parametrize("name", CALLS)
def test_the_same_methods_are_asked(name, whole):
    assert _asked(fl, CALLS[name], whole) == _asked(torch, CALLS[name], whole)
