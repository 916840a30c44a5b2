"""The Makefile's stamps."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A build that edits a source of its own, as a person would meanwhile. Clocks of files tick slowly: it waits for the next.
BUILDS = """#!{python}
import pathlib, sys
if "--build" in sys.argv:
    source, begun = pathlib.Path("csrc/a.cpp"), pathlib.Path(".venv/begun")
    begun.touch()
    while not pathlib.Path("edited").exists() and source.stat().st_mtime_ns <= begun.stat().st_mtime_ns:
        source.touch()
    pathlib.Path("edited").touch()
"""


@pytest.mark.slow
def test_what_is_edited_while_it_is_built_is_built_the_next_time(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("csrc/a.cpp", "ops/a.yaml", "cmake/a.cmake", "tools/opgen/a.py", "src/flambeau/_tensor.pyi.in", "CMakeLists.txt", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    tools = tmp_path / ".venv/bin"
    tools.mkdir(parents=True)
    (tools / "cmake").write_text(BUILDS.format(python=sys.executable))
    (tools / "python").symlink_to(sys.executable)
    (tools / "cmake").chmod(0o755)
    for stamp in (".deps", ".installed"):
        (tmp_path / ".venv" / stamp).touch()

    def make(*arguments):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
        return subprocess.run(["make", *arguments, "dev"], cwd=tmp_path, capture_output=True, text=True, env=environment).returncode

    assert make() == 0
    assert (tmp_path / "edited").exists()
    assert make("-q") == 1, "the edit was taken for built"
    assert make() == 0
    assert make("-q") == 0
