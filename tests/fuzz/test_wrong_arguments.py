"""Each tensor of each call that works is something else once: the error names what was wrong, and is not Python's own."""

from __future__ import annotations

import ast

import pytest

import flambeau as fl
import flambeau.compiler  # noqa: F401  (loaded when it is first used)
from fuzz.calls import Calls
from fuzz.catalogue import catalogue
from fuzz.child import Caller, Wrong

INSTEAD = ("np.ones((2, 3), 'float32')", "None", "2.5")


class _Replaced(ast.NodeTransformer):
    """The n-th tensor of a call gives way to something else; `tensors` counts those that were seen."""

    def __init__(self, n, text):
        self.n, self.node, self.tensors = n, ast.parse(text, mode="eval").body, 0

    def visit_Call(self, node):
        if not (isinstance(node.func, ast.Name) and node.func.id == "T"):
            return self.generic_visit(node)
        self.tensors += 1
        return self.node if self.tensors == self.n else node


def wrong_calls(text, instead):
    """A call's texts with one of its tensors replaced."""
    for n in range(1, text.count("T(") + 1):
        replaced = _Replaced(n, instead)
        tree = replaced.visit(ast.parse(text, mode="eval"))
        if replaced.tensors >= n:
            yield f"r = {ast.unparse(tree)}"


@pytest.mark.slow
@pytest.mark.parametrize("instead", INSTEAD)
def test_a_tensor_that_is_something_else(instead):
    caller = Caller(lambda text, what: None)
    found, tried = [], 0
    for text in Calls(catalogue(), seed=0).examples:
        for wrong in wrong_calls(text, instead):
            tried += 1
            fl.manual_seed(0)
            try:
                caller.run(wrong, "0")
            except Wrong as e:
                found.append(f"{wrong}\n    {e}")
    assert tried > 1000
    assert not found, "\n".join(found)
