"""`utils.hooks`: hooks of the backward around calls of one's own."""

from __future__ import annotations

import flambeau as fl
from flambeau import nn
from flambeau.utils.hooks import BackwardHook, RemovableHandle, unserializable_hook


def test_hooks_see_gradients_ahead_of_a_part_of_the_backward_and_behind_it():
    seen = []
    module = nn.Identity()
    before = [lambda m, out: seen.append(("before", m is module, out))]
    after = [lambda m, into, out: seen.append(("after", into, out)), lambda m, into, out: (into[0] * 2, None)]
    around = BackwardHook(module, after, before)
    x = fl.ones(1, requires_grad=True)
    given, factor = around.setup_input_hook((x, 3))
    y, other = around.setup_output_hook((given * factor, "other"))
    y.backward()
    assert other == "other" and factor == 3
    assert [kind for kind, *_ in seen] == ["before", "after"]
    assert seen[0][1] and seen[0][2] == (fl.ones(1), None)
    assert seen[1][1:] == ((fl.tensor([3.0]), None), (fl.ones(1), None))
    assert x.grad.item() == 6.0


def test_a_mark_of_hooks_and_the_class_of_handles():
    def hook(grad):
        return None

    assert unserializable_hook(hook) is hook and hook.__torch_unserializable__
    x = fl.ones(1, requires_grad=True)
    assert isinstance(x.register_hook(hook), RemovableHandle)
