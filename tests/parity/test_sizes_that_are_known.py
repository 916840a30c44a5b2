"""Questions about symbolic sizes, beside PyTorch: here and there plain numbers have plain answers, and tensors are refused."""

import pytest
from beside import fl, torch

pytest.importorskip("sympy")

ASKED = (
    "free_symbols free_unbacked_symbols guard_bool guard_float guard_int guard_or_false guard_or_true guard_scalar has_free_symbols "
    "has_free_unbacked_symbols has_static_value is_concrete_bool is_concrete_float is_concrete_int statically_known_false statically_known_true"
).split()


def answer(lib, name, values):
    from importlib import import_module

    try:
        found = getattr(import_module(f"{lib.__name__}.fx.experimental.symbolic_shapes"), name)(*values(lib))
    except (AssertionError, TypeError):
        return "refused"
    return set(found) if name.startswith("free") else found


@pytest.mark.parametrize("value", [True, False, 3, 0, 2.5, "tensor"])
@pytest.mark.parametrize("name", ASKED)
def test_one_value(name, value):
    found, known = (answer(lib, name, lambda lib: (lib.ones(2) if value == "tensor" else value,)) for lib in (fl, torch))
    assert (found, type(found)) == (known, type(known))


@pytest.mark.parametrize("values", [(1, 2), (2, 2), ([1, 2], [1, 2]), ((1,), (1, 2)), ((1, [2, 3]), (1, [2, 4])), (1, "a")], ids=str)
def test_equal_sizes(values):
    assert answer(fl, "sym_eq", lambda lib: values) == answer(torch, "sym_eq", lambda lib: values)


@pytest.mark.parametrize("values", [(True,), (True, False), (True, True, True), (False, True)], ids=str)
@pytest.mark.parametrize("name", ["sym_and", "sym_or"])
def test_all_and_one(name, values):
    assert answer(fl, name, lambda lib: values) == answer(torch, name, lambda lib: values)
