"""Who owns memory and graphs: lines of the program, variables, lists and attributes."""

from __future__ import annotations

import gc
import inspect
import re

import pytest

import flambeau as fl
from flambeau import nn

pytestmark = pytest.mark.eager("what is in memory, and which line made it")
HERE = "test_owners.py"


def line() -> int:
    return inspect.currentframe().f_back.f_lineno


def owner_at(number: int) -> list[fl._memory.MemoryOwner]:
    return [owner for owner in fl.memory_owners(1000) if f"{HERE}:{number}," in owner.line]


def test_large_blocks_are_owned_by_their_line_while_they_live():
    at, x = line(), [fl.zeros(1 << 18) for _ in range(3)]
    (owner,) = owner_at(at)
    assert (owner.blocks, owner.bytes) == (3, 3 << 20)
    assert "x = line(), [fl.zeros(1 << 18) for _ in range(3)]" in owner.line
    del x[0]
    assert owner_at(at)[0].bytes == 2 << 20
    del x
    assert owner_at(at) == []


def test_small_blocks_are_named_on_request():
    at, x = line(), fl.zeros(100)
    assert owner_at(at) == []
    with fl.name_memory():
        inside, y = line(), [fl.zeros(100), fl.zeros(1000)]
        with fl.name_memory():
            pass
        again, z = line(), fl.zeros(10)
    after, w = line(), fl.zeros(100)
    assert [owner.bytes for owner in owner_at(inside)] == [512 + 4096]
    assert [owner.blocks for owner in owner_at(again)] == [1]
    assert owner_at(after) == []
    del x, y, z, w
    assert owner_at(inside) == owner_at(again) == []


def test_blocks_through_layers_belong_to_the_line_of_the_user():
    layer = nn.Linear(512, 1024)
    at, y = line(), layer(fl.ones(512, 512))
    assert any(owner.bytes >= y.numel() * 4 for owner in owner_at(at))


def test_the_summary_has_the_lines():
    at, x = line(), fl.zeros(1 << 20)
    assert re.search(rf"{HERE}:{at}, .* +1 +4\.\S+ M", fl.memory_summary(row_limit=1000)), fl.memory_summary()
    del x


def test_out_of_memory_lists_the_largest():
    at, x = line(), fl.zeros(1 << 21)
    with pytest.raises(MemoryError) as caught:
        fl.empty(1 << 48)
    text = str(caught.value)
    assert f"{4 << 48} bytes were asked for" in text
    assert re.search(rf"\n  {8 << 20} bytes in 1 block, made at .*{HERE}:{at}, in test_out_of_memory_lists_the_largest", text), text
    del x


class Trainer:
    def __init__(self):
        self.history = []


def of_line(number: int) -> list[fl._memory.GraphOwner]:
    return [owner for owner in fl.graph_owners(1000) if f"{HERE}:{number}," in owner.line]


def test_graphs_are_held_by_variables_lists_and_attributes():
    x = fl.ones(3, requires_grad=True)
    trainer = Trainer()
    at = line() + 1
    loss = (x * x).exp().sum()
    trainer.history.append(loss)
    trainer.last = loss
    entries = {"loss": loss}
    (owner,) = of_line(at)
    assert (owner.nodes, owner.shape) == (3, [])
    assert owner.bytes == 12  # what exp() keeps; x is a leaf
    assert [(HERE in made, nodes) for made, nodes in owner.made_by] == [(True, 3)]
    assert owner.held_by == [
        "a list of 1, the attribute 'history' of a Trainer",
        "the attribute 'last' of a Trainer",
        "the entry 'loss' of a dict, the variable 'entries' of test_graphs_are_held_by_variables_lists_and_attributes()",
        "the variable 'loss' of test_graphs_are_held_by_variables_lists_and_attributes()",
    ]
    loss.backward()
    assert of_line(at)[0].bytes == 0
    trainer.history[0] = trainer.last = entries["loss"] = loss.detach()
    loss = loss.item()
    assert of_line(at) == []


def test_the_sum_of_losses_holds_the_graphs_of_all():
    x = fl.ones(3, requires_grad=True)
    total = 0.0
    for _ in range(7):
        at = line() + 1
        total = total + (x * x).sum()
    (owner,) = of_line(at)
    assert owner.nodes == 21
    assert "21 of the nodes were made at" in str(owner) and "held by the variable 'total'" in str(owner)


def test_nothing_stays_behind():
    x = (fl.ones(3, requires_grad=True) * 2).sum()
    before = fl._C.live_objects()
    for _ in range(3):
        fl.graph_owners()
        fl.memory_owners()
    gc.collect()
    assert fl._C.live_objects() == before
    del x


def test_objects_that_answer_for_others_are_not_asked():
    asked = []

    class Proxy:
        @property
        def __class__(self):
            asked.append("__class__")
            return dict

        def __getattr__(self, name):
            asked.append(name)
            raise RuntimeError(name)

    proxies = [Proxy()]
    at = line() + 1
    loss = (fl.ones(3, requires_grad=True) * 2).sum()
    proxies[0].loss = loss
    asked.clear()
    (owner,) = of_line(at)
    assert asked == []
    assert "the attribute 'loss' of a" in str(owner)
