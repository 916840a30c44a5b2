"""Every function and method that both libraries have takes the keywords of every schema that PyTorch prints for it.

The schemas are asked of PyTorch (`torch._C._jit_get_schemas_for_operator`), and each is called with its required arguments, and with all of them, by
keyword. What PyTorch does not bind itself is left out; what it binds and we refuse as a call (an unknown keyword, no such form) fails. Whether
values fit is other tests' matter.

Arguments by position are given in tensors of several shapes, each with values of its own; results are compared, so that an order that is another
shows. What PyTorch refuses is left out, and draws are.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import flambeau as fl  # noqa: E402

REFUSED = re.compile(r"unexpected keyword|no form of it takes|is missing|missing \d+ required|takes \d+ positional|multiple values|has no effect")
# Arguments of PyTorch's that say where and how a tensor is made, and are tested with the constructors.
PLACES = {"device", "layout", "pin_memory", "memory_format", "generator", "names", "dtype"}

# Forms that are not taken, by function or method, each with its reason.
KNOWN: dict[str, str] = {
    "randint_like": "bounds are numbers",
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


# ---- by position

# Sizes of the first tensor, of the others, and whether the others are indices.
SETS = (((2, 2), (2, 2), False), ((2, 2), (2,), False), ((1, 2, 2), (2,), False), ((2, 2), (2,), True), ((1, 2, 4), (1, 2, 2), False))
DRAWS = re.compile(r"rand|normal|bernoulli|binomial|poisson|multinomial|dropout|cauchy|exponential|geometric|uniform|random|empty|rrelu|dirichlet")

# As KNOWN, of forms by position.
KNOWN_POSITIONS: dict[str, str] = {
    "instance_norm": "one position per channel normalises to zeros there; here it is refused, as in training",
    "hinge_embedding_loss": "losses do not broadcast",
    "kl_div": "losses do not broadcast",
    "margin_ranking_loss": "losses do not broadcast",
    "max_pool1d_with_indices": "without a batch: an inner function there",
    "sparse_coo_tensor": "the form without values",
    **dict.fromkeys([f"sparse_{kind}_tensor" for kind in ("csr", "csc", "bsr", "bsc")], "indices that are no integers"),
    "svd": "signs of singular vectors are free",
    "unique_consecutive": "an inverse that is asked for is empty there, unless counts are, too",
    "Tensor.svd": "signs of singular vectors are free",
    "Tensor.to": "a truth value is taken for the type bool there",
}


def given(library, kind, i, sizes, flag):
    """The value of argument i."""
    kind = kind.removesuffix("?")
    first, others, indices = sizes
    shape = others if i else first

    def tensor(k):
        if i and indices:
            return library.tensor([1, 0])
        return library.tensor(np.random.default_rng(10 * i + k).uniform(0.2, 0.9, shape).astype("f4"))

    if kind in ("Tensor", "Tensor(a)", "Tensor(a!)"):
        return tensor(0)
    if kind in ("Tensor[]", "List[Tensor]"):
        return [tensor(0), tensor(1)]
    if kind.startswith(("int[", "SymInt[", "List[int]")):
        return [1]
    return {"int": int(flag) if i else 1, "SymInt": 1, "number": 2 + i / 4, "Scalar": 2 + i / 4, "float": 0.1 + i / 16, "bool": flag}.get(kind)


def flat(value):
    return [part for item in value for part in flat(item)] if isinstance(value, (tuple, list)) else [value]


def arrays(values):
    return [np.asarray(x.detach()) for x in flat(values) if hasattr(x, "detach") and str(x.layout).endswith("strided")]


def positional(name, method):
    """Forms by position that PyTorch takes, and that we refuse or that give something else here."""
    found = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        arguments = list(schema.arguments)
        if any(a.is_out for a in arguments) or not arguments or (method and (arguments[0].name != "self" or str(arguments[0].type) != "Tensor")):
            continue
        kinds = []
        for a in arguments:
            if a.kwarg_only or a.name in PLACES:
                break
            kinds.append(str(a.type).removeprefix("Optional[").removesuffix("]" if str(a.type).startswith("Optional[") else ""))
        required = sum(not a.has_default_value() for a in arguments)
        for count in range(required, len(kinds) + 1):
            for sizes in SETS:
                for flag in (False, True):
                    answers = []
                    for library in (torch, fl):
                        values = [given(library, k, i, sizes, flag) for i, k in enumerate(kinds[:count])]
                        if any(v is None for v in values):
                            break
                        function = getattr(values[0], name) if method else getattr(library, name)
                        try:
                            with torch.no_grad(), fl.no_grad():
                                answers.append(arrays([function(*values[method:]), values]))
                        except Exception as error:
                            answers.append(f"{type(error).__name__}: {error}".splitlines()[0])
                    if len(answers) < 2 or isinstance(answers[0], str):
                        continue
                    theirs, ours = answers
                    if isinstance(ours, str) or [x.shape for x in ours] != [x.shape for x in theirs]:
                        wrong = str(ours)[:200] if isinstance(ours, str) else f"shapes {[x.shape for x in ours]}, there {[x.shape for x in theirs]}"
                    elif not all(np.allclose(a, b, 1e-4, 1e-5, equal_nan=True) for a, b in zip(ours, theirs, strict=True)):
                        wrong = "other values"
                    else:
                        continue
                    found.append(f"{name}({', '.join(kinds[:count])}) of {sizes}, {flag}: {wrong}")
    return found


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if not DRAWS.search(n)])
def test_a_function_by_position(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = positional(name, False)
    assert bool(found) == (name in KNOWN_POSITIONS), "\n".join(found[:5]) or f"{name} takes all forms; take it out of KNOWN_POSITIONS"


@pytest.mark.parametrize("name", [n for n in METHODS if not DRAWS.search(n)])
def test_a_method_by_position(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = positional(name, True)
    assert bool(found) == (f"Tensor.{name}" in KNOWN_POSITIONS), "\n".join(found[:5]) or f"Tensor.{name} takes all forms; take it out of KNOWN_POSITIONS"
