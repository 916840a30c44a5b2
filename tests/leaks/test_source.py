"""What makes a cycle at every call: a function inside of a function that calls itself, since it is a variable of its own closure.

All that the two hold stays until the collector comes: a tensor, a graph's constants. A function of the module, or a loop, leaves nothing.
"""

from __future__ import annotations

import ast
import pathlib

import pytest

import flambeau as fl

# Functions that make a few others when the library is loaded, or decorate: these stay in any case.
MAKERS = {"_at_least", "_register_classes", "_register_pad", "at_once", "_convolution", "_with_hooks", "decorate"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def inner(function):
    """The functions that are defined in a function itself, by their names."""
    todo, found = list(function.body), {}
    while todo:
        node = todo.pop()
        if isinstance(node, FUNCTIONS):
            found[node.name] = node
        elif not isinstance(node, (ast.ClassDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(node))
    return found


def own(function):
    """The names that are the function's own."""
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *filter(None, (arguments.vararg, arguments.kwarg))]
    return {a.arg for a in given} | {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def cycles(source):
    """(line, function around, function) of those that reach themselves."""
    for around in ast.walk(ast.parse(source)):
        if not isinstance(around, FUNCTIONS):
            continue
        functions = inner(around)
        used = {}
        for name, function in functions.items():
            read = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            used[name] = (read - own(function)) & functions.keys()
        for name in functions:
            reached, todo = set(), list(used[name])
            while todo:
                other = todo.pop()
                if other not in reached:
                    reached.add(other)
                    todo.extend(used[other])
            if name in reached:
                yield functions[name].lineno, around.name, name


def test_the_search_finds_them():
    source = """
def one():
    def again(n): return again(n - 1)
    def a(): return b()
    def b(): return c()
    def c(): return a()
    def shadow(loss): return loss
    def loss(x):
        loss = x
        return loss
"""
    assert sorted(name for _, _, name in cycles(source)) == ["a", "again", "b", "c"]


@pytest.mark.slow
def test_no_function_inside_of_a_function_calls_itself():
    package = pathlib.Path(fl.__file__).parent
    found = [
        f"{path.relative_to(package)}:{line}: {name} in {around}"
        for path in sorted(package.rglob("*.py"))
        for line, around, name in cycles(path.read_text(encoding="utf-8"))
        if around not in MAKERS
    ]
    assert found == []
