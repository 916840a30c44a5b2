"""What can be called: the ops and methods of the stub, public Python functions, and samples of the op table.

Modules and distributions come with the arguments that tests/support knows. Nothing is listed by hand but what must not be called, since it changes the process for all later calls.
"""

from __future__ import annotations

import ast
import functools
import inspect
import pathlib
import re
import types
from dataclasses import dataclass, field

import numpy as np
from opgen.table import load
from support import distributions, modules

import flambeau as fl
import flambeau.array_api
import flambeau.distributions
import flambeau.fft
import flambeau.func
import flambeau.sparse  # noqa: F401
from flambeau import _C

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Settings of the process or the thread, printing and files.
LEFT_OUT = {
    "seed", "manual_seed", "set_rng_state", "set_default_dtype", "set_num_threads", "set_printoptions", "set_grad_enabled",
    "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_dtype",
    "set_autocast_enabled", "autocast_increment_nesting", "autocast_decrement_nesting", "use_deterministic_algorithms",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision", "save", "load", "typename", "show_config", "set_num_interop_threads", "set_warn_always",
    "__init__", "__getattr__", "__hash__", "_make_subclass", "register_hook",
    "register_post_accumulate_grad_hook", "__dlpack__",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    name: str
    annotation: str
    required: bool
    keyword_only: bool = False
    variadic: bool = False


@dataclass(frozen=True)
class Target:
    """Something to call: `name` is an expression, or `.name` for a method of a tensor."""

    name: str
    parameters: tuple[Parameter, ...]
    attribute: bool = False


@dataclass
class Catalogue:
    targets: list[Target] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)  # calls that work, as text


def _parameters(node: ast.FunctionDef) -> tuple[Parameter, ...]:
    def text(a: ast.arg) -> str:
        return re.sub(r"\b_(int|float|bool)\b", r"\1", ast.unparse(a.annotation)) if a.annotation else "Any"

    args = node.args
    plain = [*args.posonlyargs, *args.args]
    first_default = len(plain) - len(args.defaults)
    out = [Parameter(a.arg, text(a), i < first_default) for i, a in enumerate(plain) if a.arg not in ("self", "cls")]
    if args.vararg:
        out.append(Parameter(args.vararg.arg, "int", False, variadic=True))
    out += [Parameter(a.arg, text(a), d is None, keyword_only=True) for a, d in zip(args.kwonlyargs, args.kw_defaults)]
    return tuple(out)


def _from_stub(catalogue: Catalogue) -> None:
    extension, functions = (ast.parse((ROOT / f"src/flambeau/{name}.pyi").read_text()) for name in ("_C", "_table"))
    (tensor,) = (node for node in extension.body if isinstance(node, ast.ClassDef) and node.name == "Tensor")
    public = set(_C.public_op_names)
    for body in (tensor.body, functions.body):
        method = body is tensor.body
        for item in body:
            if isinstance(item, ast.FunctionDef) and any(isinstance(d, ast.Name) and d.id == "property" for d in item.decorator_list):
                catalogue.targets.append(Target("." + item.name, (), attribute=True))
                continue
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                catalogue.targets.append(Target("." + item.target.id, (), attribute=True))
            if not isinstance(item, ast.FunctionDef) or item.name in LEFT_OUT:
                continue
            if method:
                catalogue.targets.append(Target("." + item.name, _parameters(item)))
            else:
                name = f"fl.{item.name}" if item.name in public else f"ops.{item.name}"  # gradients and parts of ops
                catalogue.targets.append(Target(name, _parameters(item)))


def _from_python(catalogue: Catalogue) -> None:
    for name in dir(fl):
        getattr(fl, name)  # it is in the module from then on
    modules = {
        "fl": fl, "F": fl.nn.functional, "fl.nn.init": fl.nn.init, "fl.linalg": fl.linalg, "fl.special": fl.special, "fl.fft": fl.fft, "fl.sparse": fl.sparse,
        "fl.array_api": fl.array_api, "fl.nn.utils": fl.nn.utils, "fl.nn.utils.rnn": fl.nn.utils.rnn,
    }  # fmt: skip
    for prefix, module in modules.items():
        for name, function in sorted(vars(module).items()):
            if name.startswith("_") or name in LEFT_OUT or not isinstance(function, types.FunctionType):
                continue
            if function.__module__.partition(".")[0] != "flambeau":  # what a module imported
                continue
            parameters = []
            for p in inspect.signature(function).parameters.values():
                annotation = p.annotation if isinstance(p.annotation, str) else "Any"
                if p.kind is p.VAR_KEYWORD:
                    continue
                parameters.append(
                    Parameter(p.name, annotation, p.default is p.empty, p.kind is p.KEYWORD_ONLY, p.kind is p.VAR_POSITIONAL)
                )
            catalogue.targets.append(Target(f"{prefix}.{name}", tuple(parameters)))


_TYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool"}


def _sample_text(value: object) -> str:
    """A value of a sample as the text of an expression."""
    if isinstance(value, str) and "[" in value and value[0] in "fiub":
        kind, _, rest = value.partition("[")
        inside, _, how = rest.partition("]")
        name = _TYPES.get(kind) or ("int" if kind[0] == "i" else "uint") + kind[1:]
        fill = "positive" if how.strip() else "normal"
        if how.strip().startswith("<"):
            fill = f"below {how.strip()[1:].strip()}"
        return f"T(({inside.strip()}{',' if inside.strip() else ''}), {name!r}, fill={fill!r})"
    if isinstance(value, list):
        return "[" + ", ".join(_sample_text(v) for v in value) + "]"
    if isinstance(value, str):
        if value == "None":
            return "None"
        return f"fl.{value}" if hasattr(fl, value) and isinstance(getattr(fl, value), fl.dtype) else repr(value)
    return repr(value)


def _from_table(catalogue: Catalogue) -> None:
    public = set(_C.public_op_names)
    for op in load(ROOT / "ops"):
        for sample in op.get("samples", []):
            args = ", ".join(f"{k}={_sample_text(v)}" for k, v in sample.items())
            where = "fl" if op.name in public else "F" if hasattr(fl.nn.functional, op.name) else "ops"
            catalogue.examples.append(f"{where}.{op.name}({args})")


def _from_modules(catalogue: Catalogue) -> None:
    for name in modules.NAMES:
        catalogue.examples.append(modules.called(name))


def _from_distributions(catalogue: Catalogue) -> None:
    """A distribution, asked for what it can tell of its own samples."""
    for name, make in distributions.PARAMETERS.items():
        given = make(np.random.default_rng(0), (2,))
        args = ", ".join(f"{k}=fl.tensor({v.tolist()!r}, requires_grad=True)" if isinstance(v, np.ndarray) else f"{k}={v!r}" for k, v in given.items())
        made = f"fl.distributions.{name.partition(':')[0]}({args})"
        catalogue.examples += [f"(lambda d: d.log_prob(d.sample()))({made})", f"{made}.sample((3,))", f"(lambda d: [d.mean, d.variance])({made})"]


@functools.cache
def catalogue() -> Catalogue:
    out = Catalogue()
    _from_stub(out)
    _from_python(out)
    _from_table(out)
    _from_modules(out)
    _from_distributions(out)
    return out
