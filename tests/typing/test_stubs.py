"""The stubs say what there is: names of the extension, of Tensor and of the package, no more and no fewer."""

import ast
import inspect
import pathlib

import pytest

import flambeau as fl
from flambeau import _C

FOLDER = pathlib.Path(fl.__file__).parent


def names_of(body):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets)
        elif isinstance(node, ast.ImportFrom):
            yield from (a.asname or a.name for a in node.names)


def tree(name):
    return ast.parse((FOLDER / name).read_text()).body


@pytest.mark.slow
def test_the_extension():
    private = {name for name in names_of(tree("_C.pyi")) if name.startswith("_") or not hasattr(_C, name)}
    assert {n for n in private if not n.startswith("_")} <= {
        "Any", "Callable", "EllipsisType", "Frexp", "Histogram", "Iterable", "Iterator", "Literal", "NamedTuple", "NoReturn", "Number", "SVD",
        "RemovableHandle", "Self", "Sequence", "SupportsIndex", "TriangularSolve", "TypeAlias", "TypeVar", "TypedStorage", "UntypedStorage", "overload",
    }  # fmt: skip
    assert {n for n in dir(_C) if not n.startswith("__")} - set(names_of(tree("_C.pyi"))) == set()


@pytest.mark.slow
def test_the_table():
    said = {node.name for node in tree("_table.pyi") if isinstance(node, ast.FunctionDef)}
    assert said == {n for n in dir(_C.ops) if not n.startswith("__")}


@pytest.mark.slow
def test_tensor():
    (body,) = (node.body for node in tree("_C.pyi") if isinstance(node, ast.ClassDef) and node.name == "Tensor")
    said = set(names_of(body))
    have = {n for n in dir(fl.Tensor) if n not in dir(object)} - {"__dict__", "__module__", "__annotations__"}  # the last: once somebody has asked for it
    assert have - said == set()
    assert said - set(dir(fl.Tensor)) - {"__buffer__"} == set()  # a slot of C, which Python names from 3.12 on


def test_the_package():
    said = {name for name in names_of(tree("__init__.pyi")) if not name.startswith("_")}
    have = {name for name in dir(fl) if not name.startswith("_")}
    assert said - have == set()
    other = {name for name in have - said if not inspect.ismodule(getattr(fl, name))}  # modules that a test imported
    assert other == {"annotations"}


@pytest.mark.parametrize("name", ["relu", "max", "add_", "zeros"])
def test_functions_say_what_they_do(name):
    """`help()` and editors show the table's sentence and the call."""
    says = getattr(_C.ops, name).__doc__
    assert says.startswith(f"{name}(") and "\n\n" in says
    sentence = says.split("\n\n")[1]
    assert sentence in (FOLDER / "_table.pyi").read_text()
