"""The same programs of packages in both libraries: losses, gradients, tokens and metrics are equal."""

from __future__ import annotations

import importlib.machinery
import json
import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "packages"
PACKAGES = os.environ.get("FLAMBEAU_PACKAGES", str(FOLDER.parent.parent / "build" / "packages"))

sys.path.insert(0, str(FOLDER))
from golden import RELATIVE, differences, path_of, rounded, said_in_torch  # noqa: E402

# Those whose operators PyTorch has only in an extension, which does not load beside this PyTorch: tests/compat has their references.
ALONE = {"torchvision_detection"}
PROGRAMS = sorted({path.stem for path in (FOLDER / "programs").glob("*.py")} - ALONE)


def said_here(program):
    command = [sys.executable, "-m", "flambeau", "run", str(FOLDER / "programs" / f"{program}.py")]
    run = subprocess.run(command, env={**os.environ, "PYTHONPATH": PACKAGES}, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_the_same(program):
    package = program.rstrip("_") if program.endswith("_") else program.partition("_")[0]
    package = {"x": "x_transformers", "pytorch": "pytorch_lightning"}.get(package, package)
    if importlib.machinery.PathFinder.find_spec(package, [PACKAGES]) is None:
        pytest.skip(f"{package} is not in {PACKAGES}; `make packages` installs it")
    import torch

    torch_path = str(pathlib.Path(torch.__file__).resolve().parent.parent)
    theirs, rtol = said_in_torch(program, os.pathsep.join((PACKAGES, torch_path))), RELATIVE.get(program, 1e-4)
    if path_of(program).exists():
        assert not differences(json.loads(path_of(program).read_text()), rounded(theirs), rtol), "golden.py writes them again"
    assert not differences(said_here(program), theirs, rtol)
