"""Every function and method that both libraries have takes the keywords of every schema that PyTorch prints for it.

The schemas are asked of PyTorch (`torch._C._jit_get_schemas_for_operator`), and each is called with its required arguments, and with all of them, by
keyword. What PyTorch does not bind itself is left out; what it binds and we refuse as a call (an unknown keyword, no such form) fails. Whether
values fit is other tests' matter.
"""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch")

import flambeau as fl  # noqa: E402

REFUSED = re.compile(r"unexpected keyword|no form of it takes|is missing|missing \d+ required|takes \d+ positional|multiple values|has no effect")
# Arguments of PyTorch's that say where and how a tensor is made, and are tested with the constructors.
PLACES = {"device", "layout", "pin_memory", "memory_format", "generator", "names", "dtype"}

# Forms that are not taken, by function or method, each with its reason.
KNOWN: dict[str, str] = {
    "batch_norm": "the functional's arguments, whose order is another",
    "dropout": "the functional's arguments",
    "embedding": "frequencies do not scale gradients at the top level; nn.functional.embedding has the argument",
    "gru_cell": "a kernel of cells that are composed already",
    "histogram": "bins are always said",
    "instance_norm": "the functional's arguments",
    "lstm_cell": "a kernel of cells that are composed already",
    "randint_like": "bounds are numbers",
    "repeat_interleave": "the form without a tensor to repeat",
    "sparse_coo_tensor": "the form without values",
    "Tensor.histogram": "bins are always said",
}


def value_of(library, kind, name):
    """A value for an argument of this type, or None where there is none to be made."""
    kind = kind.removesuffix("?")
    if kind in ("Tensor", "Tensor(a)", "Tensor(a!)"):
        return library.ones(2, 2)
    if kind in ("Tensor[]", "List[Tensor]"):
        return [library.ones(2, 2), library.ones(2, 2)]
    if kind.startswith(("int[", "SymInt[", "List[int]")):
        return [1]
    return {"int": 1, "SymInt": 1, "number": 2, "Scalar": 2, "float": 1.0, "bool": False, "Optional[Scalar]": 2}.get(kind)


def forms(name, method):
    """(text, names and types of arguments) of each schema, with all arguments and with the required ones."""
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        arguments = list(schema.arguments)
        if any(a.is_out for a in arguments) or not arguments:
            continue
        if method:
            if arguments[0].name != "self":
                continue
            arguments = arguments[1:]
        kinds = [("input" if a.name == "self" else a.name, str(a.type).replace("Optional[", "").rstrip("]") if "Optional" in str(a.type) else str(a.type),
                  a.has_default_value()) for a in arguments if a.name not in PLACES]  # fmt: skip
        for only_required in (False, True):
            yield f"{name}({', '.join(f'{k} {n}' for n, k, d in kinds if not (only_required and d))})", [
                (n, k) for n, k, d in kinds if not (only_required and d)
            ]


def refusals(name, method):
    """Forms that PyTorch binds and we do not."""
    found = []
    for text, arguments in forms(name, method):
        answers = []
        for library in (torch, fl):
            values = {n: value_of(library, k, n) for n, k in arguments}
            if any(v is None for v in values.values()):
                break
            function = getattr(library.ones(2, 2), name) if method else getattr(library, name)
            try:
                with torch.no_grad(), fl.no_grad():
                    function(**values)
                answers.append("")
            except Exception as error:
                answers.append(f"{type(error).__name__}: {error}")
        if len(answers) == 2 and not answers[0].startswith("TypeError") and answers[1].startswith("TypeError") and REFUSED.search(answers[1]):
            found.append(f"{text}: {answers[1].splitlines()[0][:200]}")
    return found


def public(space):
    skipped = {"manual_seed", "set_", "resize_", "requires_grad_", "detach_", "backward", "retain_grad", "share_memory_", "apply_", "map_", "map2_"}
    return {n for n in dir(space) if not n.startswith("_") and n not in skipped and callable(getattr(space, n))}


FUNCTIONS = sorted(public(torch) & public(fl))
METHODS = sorted(public(torch.Tensor) & public(fl.Tensor))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_takes_every_form(name):
    found = refusals(name, method=False)
    assert bool(found) == (name in KNOWN), "\n".join(found) or f"{name} takes all forms; take it out of KNOWN"


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_every_form(name):
    found = refusals(name, method=True)
    assert bool(found) == (f"Tensor.{name}" in KNOWN), "\n".join(found) or f"Tensor.{name} takes all forms; take it out of KNOWN"
