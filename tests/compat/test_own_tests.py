"""The library's own tests hold while it answers for PyTorch: nothing in it goes by how a type or a class calls itself."""

import os
import pathlib
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
FILES = ["distributions/test_distributions.py", "graph/test_graph.py", "graph/test_files.py", "graph/test_run.py", "optim/test_optimizers.py"]


@pytest.mark.slow
def test_tests_of_what_asks_for_names():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "answering", "-p", "no:cacheprovider", "-n", "0", "--tb=short"]
    environment = os.environ | {"PYTHONPATH": str(TESTS / "compat")}
    # What a message calls a type is another matter.
    done = subprocess.run([*command, "-k", "not inputs_are_checked", *(str(TESTS / name) for name in FILES)], cwd=TESTS.parent, env=environment,
                          capture_output=True, text=True, timeout=600)  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
