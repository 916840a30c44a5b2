"""`flambeau run --report`: names that are missing, with what there is instead, and calls of what is here only to refuse."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

import flambeau

pytestmark = pytest.mark.eager("programs in processes of their own")
SOURCE = pathlib.Path(flambeau.__file__).parent


def reported(folder, text):
    program = folder / "program.py"
    program.write_text(text)
    command = [sys.executable, "-m", "flambeau", "run", "--report", program.name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    assert not done.stderr
    *lines, summary = done.stdout.splitlines()
    return [line.removeprefix("program.py:") for line in lines], summary.removeprefix("program.py: "), done.returncode


@pytest.mark.slow
def test_a_report_lists_calls_that_are_always_refused(tmp_path):
    """Such a program would stop there, as if the name were missing; a name alone does not stop it."""
    lines, summary, status = reported(tmp_path, """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.cpp_extension import load
dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(2, 2))
torch.onnx.export(model, None, "x.onnx")
torch.quantization.convert(model)
load("name", ["x.cpp"])
if isinstance(model, DDP) or torch.onnx.export is None:
    torch.cuda.synchronize()
if dist.is_initialized():
    dist.barrier()
""")  # fmt: skip
    assert lines == [
        "5: torch.distributed.init_process_group is refused: there is no data-parallel training; `flambeau.pipeline` trains over several processes",
        "6: torch.nn.parallel.DistributedDataParallel is refused: there are no process groups",
        "7: torch.onnx.export is refused: no ONNX files are written; `flambeau.graph` saves recorded programs",
        "8: torch.quantization.convert is refused: there are no quantised tensors",
        "9: torch.utils.cpp_extension.load is refused: it would compile sources against PyTorch's C++ library",
        "13: torch.distributed.barrier is refused: there is no process group (guarded)",
    ]
    assert (summary, status) == ("1 file, 0 names missing, 5 refused, 1 more guarded", 1)


@pytest.mark.slow
def test_a_report_says_what_an_error_would_say(tmp_path):
    lines, summary, status = reported(tmp_path, "import torch\ntorch.nested.nested_tensor([])\ntorch.nn.softmax(1)\ntorch.symeig(1)\n")
    assert lines == [
        "2: torch.nested: there are no tensors of unequal lengths; nn.utils.rnn pads and packs sequences",
        "3: torch.nn.softmax; torch.softmax has this name",
        "4: torch.symeig: PyTorch removed it; use torch.linalg.eigh(A, UPLO='U')",
    ]
    assert (summary, status) == ("1 file, 3 names missing, 0 more guarded", 1)


def _only_refuses(function, refusing):
    """Whether the body is a raise, or a call of what never returns, and texts."""
    body = [
        n for n in function.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)) and not isinstance(n, ast.Assign)
    ]
    if len(body) != 1:
        return False
    last = body[0]
    called = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and getattr(last.value.func, "id", None) in refusing
    return isinstance(last, ast.Raise) or called


def _public(tree):
    """Functions of a module, and what makes instances of its classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from ((node.name, n) for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")


# These refuse where there is no such device, as PyTorch's do.
_DEVICES = {("_settings.py", "Stream"), ("compat/_torch/overlay/serialization.py", "validate_cuda_device")}


@pytest.mark.slow
def test_what_always_refuses_says_so():
    """`-> NoReturn` is how a report knows."""
    silent = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.parts[0] in ("cuda", "mps.py", "xpu.py", "mtia.py", "accelerator.py"):
            continue
        tree = ast.parse(path.read_text())
        never = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.returns and "NoReturn" in ast.unparse(n.returns)}
        never |= {alias.name for n in tree.body if isinstance(n, ast.ImportFrom) for alias in n.names if alias.name == "_none"}
        for name, function in _public(tree):
            says = function.returns is not None and "NoReturn" in ast.unparse(function.returns)
            if _only_refuses(function, never) and not says and (str(place), name) not in _DEVICES:
                silent.append(f"{place}:{function.lineno}: {name}")
    assert not silent
