"""The examples run, for a few steps, and what the texts show is true."""

import doctest
import gzip
import importlib
import os
import pathlib
import pkgutil
import re
import struct
import subprocess
import sys

import numpy as np
import pytest

import flambeau

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*args, cwd):
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(flambeau.__file__).resolve().parents[1])}
    result = subprocess.run([sys.executable, *map(str, args)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_pipeline_gpt_draws_its_run_and_its_plan(schedule, tmp_path):
    out = run(ROOT / "examples" / "pipeline_gpt.py", "--steps", "2", "--width", "16", "--schedule", schedule, cwd=tmp_path)
    first, last = re.findall(r"loss ([\d.]+)$", out, re.MULTILINE)
    assert float(last) < float(first)
    for name in ("run", "plan"):
        assert "rank 3</text>" in (tmp_path / f"pipeline_gpt_{name}.svg").read_text()


@pytest.mark.slow
def test_fashion_mnist_on_made_up_pictures(tmp_path):
    rng = np.random.default_rng(0)
    for prefix, n in (("train", 300), ("t10k", 60)):
        pictures = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        labels = rng.integers(0, 10, n, dtype=np.uint8)
        (tmp_path / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(struct.pack(">IIII", 2051, n, 28, 28) + pictures.tobytes()))
        (tmp_path / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">II", 2049, n) + labels.tobytes()))
    out = run(ROOT / "examples" / "fashion_mnist.py", "--data", tmp_path, "--steps", "2", "--workers", "2", cwd=tmp_path)
    assert "test accuracy" in out


@pytest.mark.slow
def test_the_readme_program(tmp_path):
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "program.py").write_text(program)
    accuracy = float(re.search(r"([\d.]+) %", run(tmp_path / "program.py", cwd=tmp_path))[1])
    assert accuracy > 93


# Not imported here: what gives PyTorch's names to the whole process.
UNSUITED = ("flambeau._C", "flambeau.__main__", "flambeau.compat.torch")
MODULES = sorted(m.name for m in pkgutil.walk_packages(flambeau.__path__, "flambeau.") if m.name not in UNSUITED)


@pytest.mark.parametrize("name", ["flambeau", *MODULES])
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder().find(importlib.import_module(name), name):
        if test.examples:  # before each it runs, doctest looks whether files that were read have changed, thousands by now
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("path", sorted(p for p in (ROOT / "docs").glob("*.md") if ">>>" in p.read_text()), ids=lambda p: p.name)
def test_examples_in_documents(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testfile(str(path), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
