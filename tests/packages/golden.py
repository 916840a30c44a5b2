"""What the programs say in PyTorch, kept in `golden/`, so that the tests need no PyTorch; and how near a number has to be.

    PYTHONPATH=build/packages:build/torch python tests/packages/golden.py [PROGRAM ...]     # writes them again

tests/parity/test_packages.py says that they are still what PyTorch says.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
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
# What is compared less exactly: float32 over many steps or layers, or 16 bits; or where what is rounded grows from step to step
# (x_transformers in float64: 1e-16 at first, 1e-14 after 12 steps, 1e-9 after 32, 1e-4 after 48).
RELATIVE = {"transformers_trainer": 1e-3, "x_transformers_": 1e-3, "pytorch_lightning_": 1e-3, "timm_": 2e-3, "timm_models": 2e-3, "torchvision_classifiers": 2e-3,
            "segmentation_models_pytorch_": 2e-3}  # fmt: skip


def path_of(program: str) -> pathlib.Path:
    """The file of a program's numbers."""
    return HERE / "golden" / f"{program}.json"


def said_in_torch(program: str, path: str):
    """What a program prints last, in PyTorch: JSON."""
    command = [sys.executable, "-c", PRELUDE, str(HERE / "programs" / f"{program}.py")]
    run = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.strip().splitlines()[-1])


def differences(ours, theirs, rtol, path=""):
    """(where, ours, theirs) of all that is not equal; numbers are equal within `rtol`."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [d for key in {**ours, **theirs} for d in differences(ours.get(key), theirs.get(key), rtol, f"{path}/{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [d for i, pair in enumerate(zip(ours, theirs)) for d in differences(*pair, rtol, f"{path}[{i}]")]
    if isinstance(ours, (int, float)) and isinstance(theirs, (int, float)):
        near = abs(ours - theirs) <= rtol * max(abs(ours), abs(theirs), 1e-3)
        return [] if near or ours == theirs else [(path, ours, theirs)]
    return [] if ours == theirs else [(path, ours, theirs)]


def rounded(value):
    """A value with numbers of seven digits, which is what float32 has."""
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def write(program: str, said) -> None:
    """Keeps what a program says, a line for each of its parts."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in rounded(said).items()]
    path_of(program).parent.mkdir(exist_ok=True)
    path_of(program).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    for program in sys.argv[1:] or sorted(p.stem for p in (HERE / "golden").glob("*.json")):
        write(program, said_in_torch(program, os.environ["PYTHONPATH"]))
        print(path_of(program))


if __name__ == "__main__":
    main()
