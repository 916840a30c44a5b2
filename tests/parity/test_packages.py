"""The same programs of packages in both libraries: losses, gradients, tokens and metrics are equal."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "packages"
PACKAGES = os.environ.get("FLAMBEAU_PACKAGES", str(FOLDER.parent.parent / "build" / "packages"))

# torchvision registers the shapes of operators whose library may not load beside this PyTorch: they are declared, so that it can be imported.
PRELUDE = """
import runpy, sys, torch
library = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    try:
        library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    except RuntimeError:
        pass
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# What is compared less exactly: float32 over many steps, or 16 bits.
RELATIVE = {"transformers_trainer": 1e-3, "pytorch_lightning_": 1e-3, "timm_": 2e-3, "torchvision_": 2e-3}
PROGRAMS = sorted(path.stem for path in (FOLDER / "programs").glob("*.py"))


def result(command, path):
    run = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.strip().splitlines()[-1])


def differences(ours, theirs, rtol, path=""):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [d for key in {**ours, **theirs} for d in differences(ours.get(key), theirs.get(key), rtol, f"{path}/{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [d for i, pair in enumerate(zip(ours, theirs)) for d in differences(*pair, rtol, f"{path}[{i}]")]
    if isinstance(ours, (int, float)) and isinstance(theirs, (int, float)):
        near = abs(ours - theirs) <= rtol * max(abs(ours), abs(theirs), 1e-3)
        return [] if near or ours == theirs else [(path, ours, theirs)]
    return [] if ours == theirs else [(path, ours, theirs)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_the_same(program):
    package = {"transformers_models": "transformers", "transformers_trainer": "transformers"}.get(program, program.rstrip("_"))
    if importlib.machinery.PathFinder.find_spec(package, [PACKAGES]) is None:
        pytest.skip(f"{package} is not in {PACKAGES}; `make packages` installs it")
    import torch

    file = str(FOLDER / "programs" / f"{program}.py")
    torch_path = str(pathlib.Path(torch.__file__).resolve().parent.parent)
    theirs = result([sys.executable, "-c", PRELUDE, file], os.pathsep.join((PACKAGES, torch_path)))
    ours = result([sys.executable, "-m", "flambeau", "run", file], PACKAGES)
    assert not differences(ours, theirs, RELATIVE.get(program, 1e-4))
