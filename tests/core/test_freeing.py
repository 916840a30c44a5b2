"""Freeing needs no memory: whoever frees may be the one who has just run out of it, and a destructor that throws ends the process."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
COMPILER = shutil.which(os.environ.get("CXX", "c++"))
NAMES = re.search(r"for f in \((.*?)\)\}", (SUPPORT / "freeing.py").read_text(), re.DOTALL)[1].replace("\n", " ").split(",")

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a library is preloaded"),
    pytest.mark.skipif(COMPILER is None, reason="no C++ compiler"),
]


@pytest.fixture(scope="module")
def refuser(tmp_path_factory):
    path = tmp_path_factory.mktemp("refuser") / "no_memory.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", path, SUPPORT / "no_memory.cpp", "-ldl"], check=True)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", [name.strip() for name in NAMES])
def test_freed_without_memory(refuser, name):
    environment = {**os.environ, "LD_PRELOAD": str(refuser)}
    done = subprocess.run([sys.executable, SUPPORT / "freeing.py", name], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "refused True"
