"""Python functions, methods and constructors take PyTorch's parameters: the same names, in the same order, with the same defaults.

Both sides are asked by `inspect.signature`, so that what is bound in C++ on either side is other tests' matter (`test_call_forms.py`). Parameters of ours
may follow PyTorch's own, as keywords alone, and PyTorch's keyword-only parameters may stand anywhere. What differs without being in KNOWN, DEFAULTS or
ADDED fails, and so does what is there and does not differ any more.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import warnings

import pytest

torch = pytest.importorskip("torch")

MODULES = [
    "", "amp", "autograd", "autograd.forward_ad", "autograd.functional", "autograd.graph", "autograd.profiler", "backends.cuda", "backends.mha",
    "compiler", "cuda", "cuda.amp", "distributions",
    "distributions.constraints", "distributions.kl", "distributions.transforms", "distributions.utils", "fft", "func", "futures", "hub", "jit", "library", "linalg",
    "masked", "multiprocessing", "nn", "nn.attention", "nn.attention.bias", "nn.functional", "nn.init", "nn.parameter", "nn.utils", "nn.utils.parametrizations", "nn.utils.parametrize",
    "nn.utils.prune", "nn.utils.rnn", "optim", "optim.lr_scheduler", "optim.swa_utils", "overrides", "profiler", "random",
    "serialization", "signal.windows", "sparse", "special", "storage", "testing", "utils.benchmark", "utils.checkpoint", "utils.data", "utils.flop_counter", "utils.model_zoo",
]  # fmt: skip
KIND = inspect.Parameter

# What stays different, by name, each with its reason.
KNOWN: dict[str, str] = {
    "Tensor.index": "by tensors, as x[...] is; PyTorch's binds dimensions of `functorch.dim`, which are not here",
    "layout": "made by its name; PyTorch's can not be made",
    "library.CustomOpDef": "`custom_op` and `define` make it, of a schema",
    "memory_format": "made by its name; PyTorch's can not be made",
    "multiprocessing.ProcessContext": "`start_processes` makes it; errors come through pipes, not through files",
    "multiprocessing.SpawnContext": "`spawn` makes it; errors come through pipes, not through files",
}

# What has another default, by name, each with its reason.
DEFAULTS: dict[str, str] = {
    "compile.backend": "one of its own names, which means the only one",
    "cuda.amp.autocast.dtype": "the type that the device's autocast has; there is no CUDA",
    "hub.load_state_dict_from_url.weights_only": "nothing is run from files without being asked for",
    "load.weights_only": "PyTorch's None means True, too",
    "nn.Transformer.activation": "the function's name; the layer has the function",
    "nn.TransformerDecoderLayer.activation": "the function's name; the layer has the function",
    "nn.TransformerEncoderLayer.activation": "the function's name; the layer has the function",
    "nn.functional.fractional_max_pool2d_with_indices.return_indices": "not looked at; it returns them always",
    "nn.functional.fractional_max_pool3d_with_indices.return_indices": "not looked at; it returns them always",
    "save.pickle_module": "a module of Python's, which is not used",
    "utils.benchmark.Timer.timer": "a wrapper of the same clock, which waits for a GPU",
    "utils.data.random_split.generator": "the default generator when it is called, and not when it was defined",
}
# What takes a keyword more, each with its reason.
ADDED: dict[str, str] = {
    "nn.utils.parametrize.ParametrizationList.name": "what errors call the tensor",
    "autograd.profiler.EventList.table.limits": "tables beside numbers of the machine",
    "autograd.profiler.profile.key_averages.group_by": "by lines of the program, too",
    "autograd.profiler.profile.max_events": "how much memory a profile may take",
    "func.jacfwd.chunk_size": "jacrev has it",
    "hub.help.source": "hub.load has it",
    "hub.list.source": "hub.load has it",
    "no_grad.orig_func": "`@no_grad` without a call, which PyTorch's `__new__` takes and its signature hides",
    "profiler.profile.key_averages.group_by": "by lines of the program, too",
    "profiler.profile.max_events": "how much memory a profile may take",
    "save.format": "which of two formats",
    "utils.data.MapDataPipe.register_datapipe_as_function.enable_df_api_tracing": "IterDataPipe has it, and the method is the same",
    "utils.data.Sampler.data_source": "PyTorch's own until 2.5; classes that hand it on still run",
}


def parameters(function):
    """The parameters of a function or class; None where Python does not know them."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def of_method(kind, name):
    """The parameters of a method, without the first, which is the object, whatever its name is."""
    method = getattr(kind, name)
    found = parameters(method)
    is_plain = not inspect.ismethod(method) and not isinstance(inspect.getattr_static(kind, name), staticmethod)
    return found[1:] if found and is_plain else found


def differences(wanted, given):
    """Lines that say what a caller who knows PyTorch's parameters, `wanted`, can not pass, or passes to something else."""
    if wanted is None or given is None or any(p.kind is KIND.VAR_POSITIONAL for p in wanted + given):
        return []
    keywords = {p.name for p in given if p.kind is not KIND.POSITIONAL_ONLY}
    takes_any = any(p.kind is KIND.VAR_KEYWORD for p in given)
    places = [p for p in given if p.kind in (KIND.POSITIONAL_ONLY, KIND.POSITIONAL_OR_KEYWORD)]
    found = []
    for i, p in enumerate(p for p in wanted if p.kind in (KIND.POSITIONAL_ONLY, KIND.POSITIONAL_OR_KEYWORD)):
        if i >= len(places):
            found.append(f"there is no position {i}, {p.name}")
            break
        if p.kind is KIND.POSITIONAL_OR_KEYWORD and (places[i].name != p.name or places[i].kind is KIND.POSITIONAL_ONLY):
            found.append(f"position {i} is {places[i]}, not {p.name}")
        if p.default is not KIND.empty and places[i].default is KIND.empty:
            found.append(f"{p.name} must be given")
    found += [f"there is no keyword {p.name}" for p in wanted if p.kind is KIND.KEYWORD_ONLY and p.name not in keywords and not takes_any]
    known = {p.name for p in wanted}
    by_name = {p.name: p for p in given}
    for p in wanted:
        if p.name in by_name and KIND.empty not in (p.default, by_name[p.name].default) and as_text(p.default) != as_text(by_name[p.name].default):
            found.append(f"DEFAULT {p.name} is {as_text(by_name[p.name].default)}, not {as_text(p.default)}")
    if not any(p.kind is KIND.VAR_KEYWORD for p in wanted):
        for p in given:
            if p.name not in known and p.default is not KIND.empty and p.kind in (KIND.KEYWORD_ONLY, KIND.POSITIONAL_OR_KEYWORD):
                found.append(f"ADDED {p.name}" + ("" if p.kind is KIND.KEYWORD_ONLY else ", by position"))
    needed = [p for p in given if p.default is KIND.empty and p.kind in (KIND.KEYWORD_ONLY, KIND.POSITIONAL_OR_KEYWORD)]
    return found or [f"{p.name} must be given, which PyTorch does not have" for p in needed if p.name not in known]


def reason_of(path, line):
    """The name under which DEFAULTS or ADDED has a difference, or None."""
    kind, _, rest = line.partition(" ")
    name = f"{path}.{rest.split(',')[0].split(' ')[0]}"
    return name if name in {"DEFAULT": DEFAULTS, "ADDED": ADDED}.get(kind, {}) else None


def as_text(value):
    """A default, such that equal ones of both libraries are equal."""
    if isinstance(value, (int, float)):
        return str(float(value))
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value).replace("flambeau", "torch"))
    return {"torch.strided": "None", "torch.Size([])": "()", "<torch.jit.CompilationUnit object>": "None"}.get(text, text)


def pairs(module):
    """(name, what identifies both, differences) of all that both libraries have in a module, constructors and methods of its classes among it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = (importlib.import_module(f"{library}.{module}".rstrip(".")) for library in ("torch", "flambeau"))
        for name in sorted(n for n in dir(theirs) if not n.startswith("_")):
            a, b = getattr(theirs, name, None), getattr(ours, name, None)
            if not callable(a) or not callable(b) or not str(getattr(a, "__module__", "")).startswith("torch"):
                continue
            path = f"{module}.{name}".lstrip(".")
            lines = differences(parameters(a), parameters(b))
            if not inspect.isclass(a) or not inspect.isclass(b):
                yield path, (a, b), lines
                continue
            has_both = inspect.isfunction(a.__init__) and inspect.isfunction(b.__init__)
            yield path, (a, b), lines or (differences(of_method(a, "__init__"), of_method(b, "__init__")) if has_both else [])
            for method in sorted(m for m in dir(a) if not m.startswith("_") or m == "__call__"):
                f, g = getattr(a, method, None), getattr(b, method, None)
                if callable(f) and callable(g) and not inspect.isclass(f):
                    yield f"{path}.{method}", (getattr(f, "__func__", f), getattr(g, "__func__", g)), differences(of_method(a, method), of_method(b, method))


@functools.cache
def found():
    """The differences of each module, by name. What has several names, in several modules or subclasses, is met by the first."""
    met, result, used = [], {}, set()
    seen = set()
    for module in MODULES:
        result[module] = {}
        for path, both, lines in pairs(module):
            if lines and (key := tuple(map(id, both))) not in seen:
                seen.add(key)
                met.append(both)  # alive, so that no other has its number
                used |= {reason_of(path, line) for line in lines}
                if new := [line for line in lines if not reason_of(path, line)]:
                    result[module][path] = new
    return result, used


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m or "flambeau")
def test_parameters_stand_where_pytorch_has_them(module):
    new = {path: lines for path, lines in found()[0][module].items() if path not in KNOWN}
    assert not new, "\n".join(f"{path}: {'; '.join(lines)}" for path, lines in new.items())


def test_every_known_difference_is_one():
    differing = {path for of_module in found()[0].values() for path in of_module} | found()[1]
    stale = [path for path in [*KNOWN, *DEFAULTS, *ADDED] if path not in differing]
    assert not stale, f"no differences any more; take them out of KNOWN, DEFAULTS or ADDED: {stale}"


@pytest.mark.parametrize(
    ("ours", "lines"),
    [
        (lambda a, b=1, *, c=2.0: 0, []),
        (lambda a, b=1, extra=0, *, c=3: 0, ["DEFAULT c is 3.0, not 2.0", "ADDED extra, by position"]),
        (lambda a, d=1, *, c=2: 0, ["position 1 is d=1, not b", "ADDED d, by position"]),
        (lambda a, /, b=1, *, c=2: 0, ["position 0 is a, not a"]),
        (lambda a: 0, ["there is no position 1, b", "there is no keyword c"]),
        (lambda a, b, *, c=2: 0, ["b must be given"]),
        (lambda a, b=1, *, c=2, e: 0, ["e must be given, which PyTorch does not have"]),
    ],
)
def test_a_difference_is_seen(ours, lines):
    assert differences(parameters(lambda a, b=1, *, c=2: 0), parameters(ours)) == lines
