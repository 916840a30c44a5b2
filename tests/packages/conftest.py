"""Programs that use packages which were written for PyTorch, run by `flambeau run` in processes of their own.

The packages lie in a folder of their own (`make packages`), which FLAMBEAU_PACKAGES names; a test of a package that is not there is skipped.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # for golden
PACKAGES = os.environ.get("FLAMBEAU_PACKAGES", str(HERE.parent.parent / "build" / "packages"))


def pytest_collection_modifyitems(items):
    for item in items:
        marker = item.get_closest_marker("needs_package")
        for name in marker.args if marker else ():
            if importlib.machinery.PathFinder.find_spec(name, [PACKAGES]) is None:
                item.add_marker(pytest.mark.skip(reason=f"{name} is not in {PACKAGES}; `make packages` installs it"))


def run_program(program, *arguments):
    """What a program of `programs/` prints last, which is JSON."""
    command = [sys.executable, "-m", "flambeau", "run", str(HERE / "programs" / f"{program}.py"), *arguments]
    result = subprocess.run(command, env={**os.environ, "PYTHONPATH": PACKAGES}, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="session")
def run():
    return run_program


@pytest.fixture(scope="session")
def packages():
    return PACKAGES
