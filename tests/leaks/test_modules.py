"""No module leaves memory behind: made, run forwards and backwards, saved, loaded, copied; without the collector."""

from __future__ import annotations

import copy

import pytest
from fuzz.values import T
from support.leaks import assert_nothing_stays
from support.modules import NAMES, given_to, made

import flambeau as fl

names = {"fl": fl, "T": T}


def tensors_in(result):
    if isinstance(result, fl.Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from tensors_in(part)


@pytest.mark.parametrize("name", NAMES)
def test_module(name):
    """Fails for a module that is called otherwise than with one (4, 6) tensor until it has an entry in support/modules.py."""
    make, given = compile(made(name), name, "eval"), compile(given_to(name), name, "eval")

    def action():
        module = eval(make, names)  # noqa: S307
        inputs = eval(given, names)  # noqa: S307
        if inputs is not None:
            loss = sum(y.sum() for y in tensors_in(module(*inputs)) if y.is_floating_point())
            if loss.requires_grad:
                loss.backward()
        twin = copy.deepcopy(module)
        twin.load_state_dict(module.state_dict())
        twin.zero_grad()

    assert_nothing_stays(action)
