"""What the reference shows is true: examples of the op table run, and each of the names that are used most has one."""

import doctest
import importlib.util
import inspect
import pathlib
import pkgutil
import re
import sys

import pytest

import flambeau as fl

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
specification = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
reference = importlib.util.module_from_spec(specification)
specification.loader.exec_module(reference)

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
WITH_EXAMPLES = sorted({op.name: op for ops in reference.table().values() for op in ops if op.get("example")}.items())


@pytest.mark.parametrize("op", [op for _, op in WITH_EXAMPLES], ids=[name for name, _ in WITH_EXAMPLES])
def test_examples_of_the_table(op):
    test = doctest.DocTestParser().get_doctest(op.get("example"), {"fl": fl}, op.name, op.file, op.line)
    assert test.examples
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    said = []
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("name", reference.most_used())
def test_the_most_used_names_have_examples(name):
    """An example that the tests run (here, of docstrings or of docs/members.md), and that shows the name in use."""
    example = reference.example(name)
    assert ">>> " in example, f"{name} has no example"
    short = name.rpartition(".")[2]
    if name == "flambeau.Tensor.indices" or not inspect.ismodule(reference.find(name)):  # of sparse tensors alone
        assert re.search(rf"\b{re.escape(short)}\b", example), f"the example of {name} does not show it: {example}"


def public_modules():
    """Modules that declare what of them is public."""
    for found in pkgutil.walk_packages(fl.__path__, "flambeau."):
        if not any(part.startswith("_") for part in found.name.split(".")[1:]) and not found.name.startswith("flambeau.compat"):
            module = importlib.import_module(found.name)
            if hasattr(module, "__all__"):
                yield found.name, module


@pytest.mark.slow
def test_public_names_have_a_page():
    """Each name that a public module declares stands on a page of the reference, or its module says why it has none."""
    shown = {id(reference.find(f"{module}.{name}")) for module in reference.MODULES for name in reference.names_of(module)}
    lacking = []
    for path, module in public_modules():
        if path in reference.MODULES or any(path.startswith(prefix) for prefix in reference.WITHOUT_PAGE):
            continue
        lacking += [
            f"{path}.{name}" for name in reference.names_of(path) if callable(value := getattr(module, name)) and id(value) not in shown
        ]
    assert not lacking


@pytest.mark.parametrize("module", reference.MODULES)
def test_names_on_a_page_are_explained(module):
    """A class or function without a word would be a bare signature."""
    values = {name: reference.find(f"{module}.{name}") for name in reference.names_of(module)}
    assert [name for name, value in values.items() if callable(value) and not reference.said(f"{module}.{name}")] == []


def test_the_list_of_names():
    names = reference.most_used()
    assert len(names) == len(set(names)) == 200
