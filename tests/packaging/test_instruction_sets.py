"""Files that are compiled for more than every processor has do nothing when the library is loaded: Note [Nothing is made at load by kernels] in base/isa.h."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

OBJECTS = pathlib.Path(__file__).parents[2] / "build" / "editable" / "CMakeFiles"  # Makefile: BUILD


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["v3", "v4"])
def test_kernels_do_nothing_at_load(isa):
    files = sorted(map(str, (OBJECTS / f"flambeau_{isa}.dir").rglob("*.simd.cpp.o")))
    if not files or not shutil.which("nm"):
        pytest.skip("no object files of this instruction set, or no nm that looks into them")
    listed = subprocess.run(["nm", "--print-file-name", "--defined-only", *files], capture_output=True, text=True, check=True).stdout
    at_load = [line for line in listed.splitlines() if "_GLOBAL__sub_I" in line or "__static_initialization" in line]
    assert not at_load, "constinit is missing, or an object in a header is made at load:\n" + "\n".join(at_load)
