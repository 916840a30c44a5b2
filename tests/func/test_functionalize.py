"""`functionalize` leaves a function what it is for its caller."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau.func import functionalize, grad, vmap


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_results_and_writes(remove):
    def f(x, *, by=1.0):
        """Adds."""
        return x.add_(by).sum()

    g, x = functionalize(f, remove=remove), fl.ones(2)
    assert g(x, by=2.0) == 6.0 and x.tolist() == [3.0, 3.0] and g.__name__ == "f" and g.__doc__ == "Adds."
    assert fl.equal(vmap(functionalize(lambda x: x.clone().mul_(2)))(x), x * 2)
    assert fl.equal(grad(functionalize(lambda x: x.clone().mul_(2).sum()))(x), fl.full((2,), 2.0))


def test_another_word_is_refused():
    with pytest.raises(RuntimeError, match="remove = 'views'"):
        functionalize(abs, remove="views")
