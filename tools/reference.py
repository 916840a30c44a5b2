"""What the documentation says of a public name: found by the name, from docstrings, the op table and docs/members.md.

`make docs` makes pages of it, and tests/examples/test_reference.py runs its examples.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pathlib
import re
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from opgen.emit_doc import sentence, signature  # noqa: E402
from opgen.files import group  # noqa: E402
from opgen.table import Op, load  # noqa: E402

import flambeau as fl  # noqa: E402
from flambeau import _C  # noqa: E402

# Modules whose public names have a page, in the order of the pages.
MODULES = (
    "flambeau", "flambeau.nn", "flambeau.nn.functional", "flambeau.nn.init", "flambeau.nn.attention", "flambeau.nn.attention.bias",
    "flambeau.nn.attention.flex_attention", "flambeau.nn.utils", "flambeau.nn.utils.rnn", "flambeau.nn.utils.parametrize",
    "flambeau.nn.utils.parametrizations", "flambeau.nn.utils.prune", "flambeau.nn.utils.stateless", "flambeau.nn.modules.module",
    "flambeau.nn.modules.utils", "flambeau.nn.grad", "flambeau.nn.parallel", "flambeau.nn.quantized", "flambeau.optim",
    "flambeau.optim.lr_scheduler", "flambeau.optim.swa_utils", "flambeau.autograd", "flambeau.autograd.graph",
    "flambeau.autograd.functional", "flambeau.autograd.forward_ad", "flambeau.autograd.profiler", "flambeau.func", "flambeau.amp",
    "flambeau.utils", "flambeau.utils.data", "flambeau.utils.data.datapipes.iter", "flambeau.utils.data.datapipes.map",
    "flambeau.utils.checkpoint", "flambeau.utils.benchmark", "flambeau.utils.flop_counter", "flambeau.utils.hooks",
    "flambeau.utils.module_tracker", "flambeau.utils.tensorboard",
    "flambeau.linalg", "flambeau.fft", "flambeau.special", "flambeau.signal.windows", "flambeau.sparse", "flambeau.masked",
    "flambeau.distributions", "flambeau.distributions.constraints", "flambeau.compiler", "flambeau.fx", "flambeau.fx.passes.shape_prop",
    "flambeau.fx.passes.split_module", "flambeau.fx.passes.graph_drawer", "flambeau.fx.subgraph_rewriter", "flambeau.graph",
    "flambeau.engine", "flambeau.pipeline", "flambeau.pipeline.balance", "flambeau.pipeline.batchnorm", "flambeau.pipeline.skip",
    "flambeau.library", "flambeau.serialization", "flambeau.profiler", "flambeau.datasets", "flambeau.testing", "flambeau.overrides",
    "flambeau.random", "flambeau.quasirandom", "flambeau.multiprocessing", "flambeau.futures", "flambeau.monitor", "flambeau.jit",
    "flambeau.hub", "flambeau.ao.nn.intrinsic", "flambeau.ao.quantization", "flambeau.cuda", "flambeau.cpu", "flambeau.accelerator",
    "flambeau.distributed", "flambeau.distributed.checkpoint", "flambeau.distributed.checkpoint.state_dict",
    "flambeau.export", "flambeau.onnx", "flambeau.array_api", "flambeau.array_api.linalg", "flambeau.array_api.fft",
    "flambeau.backends.winograd",
)  # fmt: skip

# Public modules without one, by what their names begin with.
_PARTS = "a part of a module that has a page, which says what of it is of use outside"
_DEVICE = "answers for a device or a library that is not here"
_PYTORCHS = "PyTorch's layout of names: what programs import from there has its page elsewhere, or is refused"
WITHOUT_PAGE = {
    "flambeau.amp.": _PARTS,
    "flambeau.ao.nn": _PYTORCHS,
    "flambeau.ao.quantization.": _PARTS,
    "flambeau.autograd.": _PARTS,
    "flambeau.backends": _DEVICE,
    "flambeau.cpu.amp": _PYTORCHS,
    "flambeau.cuda.": _DEVICE,
    "flambeau.datasets.": _PARTS,
    "flambeau.distributed.": _PYTORCHS,
    "flambeau.distributions.": _PARTS,
    "flambeau.fx.": _PARTS,
    "flambeau.graph.passes": _PARTS,
    "flambeau.mps": _DEVICE,
    "flambeau.mtia": _DEVICE,
    "flambeau.multiprocessing.": _PARTS,
    "flambeau.nn.modules.": _PARTS,
    "flambeau.nn.parallel.": _PARTS,
    "flambeau.nn.parameter": _PARTS,
    "flambeau.nn.utils.": _PARTS,
    "flambeau.onnx.": _PYTORCHS,
    "flambeau.optim.": _PARTS,
    "flambeau.return_types": "the classes of results that have names, which the functions' signatures show",
    "flambeau.utils.data.": _PARTS,
    "flambeau.utils.deterministic": _PYTORCHS,
    "flambeau.xpu": _DEVICE,
}


@functools.cache
def table() -> dict[str, list[Op]]:
    """Entries by name, under aliases and in place, too."""
    out: dict[str, list[Op]] = {}
    for name, ops in group(load(ROOT / "ops")).items():
        for shown in [name, *(a for op in ops for a in op.get("aliases", []))]:
            out[shown] = list(ops)
            written = [op for op in ops if op.get("inplace")]
            if written:
                out.setdefault(shown + "_", written)
    return out


@functools.cache
def members() -> dict[str, str]:
    """name without `flambeau.` -> what docs/members.md says, the example included."""
    parts = re.split(r"^## (\S+)\n", (ROOT / "docs" / "members.md").read_text(), flags=re.MULTILINE)[1:]
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2])}


def find(name: str) -> Any:
    """The object of a dotted name.

    Raises:
        AttributeError: there is none.
    """
    value: Any = importlib.import_module("flambeau")
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def is_op(name: str, value: Any) -> bool:
    """Whether the table says what it does."""
    short = name.rpartition(".")[2]
    own = value is getattr(_C.ops, short, None) or (name.startswith("flambeau.Tensor.") and type(value).__name__ == "method_descriptor")
    return own and short in table()


def said(name: str) -> str:
    """All that is said of a name: plain text with examples, as in docstrings; empty where nothing is."""
    in_members = members().get(name.removeprefix("flambeau."), "")
    if in_members:
        return in_members
    value = find(name)
    if isinstance(value, fl.dtype):  # `double` is `float64`
        return members().get(value.name, f"`{value!r}`")
    short = name.rpartition(".")[2]
    if is_op(name, value):
        method = name.startswith("flambeau.Tensor.")
        parts: list[str] = []
        for op in table()[short]:
            parts += [f"`{signature(op, short, method)}`", sentence(op, gradients=False), *_conditions(op)]
        example = next((op.get("example") for op in table()[short] if op.get("example")), None)
        if example:
            parts += ["Example:\n" + "\n".join("    " + line for line in [">>> import flambeau as fl", *str(example).splitlines()])]
        return "\n\n".join(p for p in parts if p)
    if isinstance(value, (str, int, float, bool, tuple)) or value is None or isinstance(value, (fl.dtype, fl.memory_format, fl.layout)):
        return f"`{value!r}`"
    return inspect.getdoc(value) or ""


def _conditions(op: Op) -> list[str]:
    """Shape and type of the result, and what is refused, as the table has them."""
    out = []
    if isinstance(op.get("shape"), str):
        dtype = f", type: `{op.get('dtype')}`" if isinstance(op.get("dtype"), str) else ""
        out.append(f"Shape: `{op.get('shape')}`{dtype}.")
    checks = op.get("check") or []
    if checks:
        out.append("Refused unless " + ", ".join(f"`{check}`" for check in checks) + ".")
    if op.formulas:
        out.append("Gradient: " + "; ".join(f"`d{k} = {' '.join(str(v).split())}`" for k, v in op.formulas.items()) + ".")
    return out


def example(name: str) -> str:
    """The example of a name, which mentions it; empty without one."""
    lines = said(name).splitlines()
    blocks: list[str] = []
    shown = False
    for line in lines:
        shown = ">>>" in line or (shown and bool(line.strip()))
        if shown:
            blocks.append(line)
    return "\n".join(blocks)


def names_of(module: str) -> list[str]:
    """Public names of a module: its `__all__`, or what it defines."""
    value = importlib.import_module(module)
    listed = getattr(value, "__all__", None)
    if module == "flambeau":
        listed = [n for n in dir(fl) if not n.startswith("_") and n != "annotations"]
    elif listed is None:
        inside = "flambeau" if hasattr(value, "__path__") else module  # a package has what its parts define
        listed = [n for n, v in vars(value).items() if not n.startswith("_") and str(getattr(v, "__module__", "")).startswith(inside)]
    return sorted(
        {n for n in listed if not n.startswith("_") and not inspect.ismodule(getattr(value, n)) and not _pythons(getattr(value, n))}
    )


def _pythons(value: Any) -> bool:
    """Whether a module only passes on what Python's own library has and documents (`multiprocessing.Lock`)."""
    made = callable(value) and not isinstance(value, fl.Tensor)
    return made and str(getattr(value, "__module__", "")).partition(".")[0] in sys.stdlib_module_names


def members_of_tensor() -> list[str]:
    return sorted(n for n in dir(fl.Tensor) if not n.startswith("_"))


def most_used() -> list[str]:
    """The 200 names that programs use most, in the order of use."""
    return (ROOT / "docs" / "most_used.txt").read_text().split()
