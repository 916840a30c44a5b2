"""Each entry of PyTorch's databases of functions, modules and optimizers does here what it does there, or differences.py says why not."""

from __future__ import annotations

import pytest
from differences import EVERYWHERE
from verdict import entries, verdict_of


@pytest.mark.parametrize("name", entries())
def test_entry(name):
    assert not verdict_of(name).unexpected


@pytest.mark.parametrize("rule", EVERYWHERE, ids=lambda rule: rule.example)
def test_rule_for_all_entries_is_needed(rule):
    assert rule in verdict_of(rule.example).rules
