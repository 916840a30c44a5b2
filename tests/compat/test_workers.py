"""Workers that other packages than multiprocessing start anew, and what `torch` means there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("package", ["loky", "joblib.externals.loky"])
def test_workers_of_loky_have_these_names(tmp_path, package):
    """joblib's workers are started as loky starts them here: by its module's name, with file descriptors to keep."""
    folder = tmp_path.joinpath(*package.split("."), "backend")
    folder.mkdir(parents=True)
    (folder / "popen_loky_posix.py").write_text("import os, sys, torch\nos.write(int(sys.argv[sys.argv.index('--pipe') + 1]), repr(torch.ones(2)).encode())\n")
    program = tmp_path / "pool.py"
    program.write_text("import os, sys\nfrom multiprocessing.util import spawnv_passfds\nread, write = os.pipe()\n"
                       f"words = [sys.executable, '-m', '{package}.backend.popen_loky_posix', '--process-name', 'W-1', '--pipe', str(write)]\n"
                       "pid = spawnv_passfds(os.fsencode(sys.executable), [os.fsencode(word) for word in words], (write,))\n"
                       "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.read(read, 100).decode())\n")  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run([sys.executable, "-m", "flambeau", "run", str(program)], capture_output=True, text=True, timeout=300, env=env)
    assert result.stdout == "0 tensor([1., 1.])\n", result.stderr[-2000:]


@pytest.mark.slow
def test_what_a_program_starts_itself_stays_as_it_is(tmp_path):
    (tmp_path / "torch.py").write_text("print('another')")
    program = tmp_path / "starts.py"
    program.write_text("import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'torch'])\n")
    result = subprocess.run([sys.executable, "-m", "flambeau", "run", str(program)], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert result.stdout == "another\n", result.stderr[-2000:]
