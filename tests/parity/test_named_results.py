"""Results of several named parts print in PyTorch as here, and have its parts."""

import importlib.util
import pathlib
import warnings

import pytest

import flambeau as fl

torch = pytest.importorskip("torch")

A = [[4.0, 1.0], [1.0, 3.0]]
_spec = importlib.util.spec_from_file_location("named_results", pathlib.Path(__file__).parents[1] / "ops" / "test_named_results.py")
assert _spec is not None and _spec.loader is not None
ours = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ours)
PLAIN = {"var_mean": lambda lib: lib.var_mean(lib.tensor(A)), "std_mean": lambda lib: lib.std_mean(lib.tensor(A))}


@pytest.mark.parametrize("name", list(ours.CALLS))
def test_they_print_alike(name, monkeypatch):
    mine = ours.CALLS[name](fl.tensor(A))
    monkeypatch.setattr(ours, "fl", torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = ours.CALLS[name](torch.tensor(A))
    assert type(theirs).__name__ == type(mine).__name__ and [f"{field}=" in repr(theirs) for field in ours.fields(mine)] == [True] * len(mine)
    first = repr(mine).split("tensor")[0].replace("flambeau.", "torch.")
    assert repr(theirs).startswith(first) and repr(theirs).endswith("))") == repr(mine).endswith("))")
    assert type(theirs).n_fields == type(mine).n_fields


def test_all_of_pytorchs_are_here():
    theirs = {kind.__name__ for kind in torch.return_types.all_return_types if isinstance(kind, type) and issubclass(kind, tuple)}
    assert {name for name in theirs if not name.endswith("_out")} == set(ours.CALLS)


@pytest.mark.parametrize("name", list(PLAIN))
def test_plain_tuples(name):
    assert type(PLAIN[name](torch)) is tuple and type(PLAIN[name](fl)) is tuple
