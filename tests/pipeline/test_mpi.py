"""Ranks that are processes: the same bits as threads, and how jobs end.

Each test starts a job with `mpiexec`, whose processes run programs of `support/mpi_programs.py`.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau import nn
from flambeau.pipeline import DistributedPipeline, MPITransport, Pipeline

PROGRAMS = Path(__file__).parents[1] / "support" / "mpi_programs.py"
LIMIT_S = 90


def mpiexec():
    """The launcher beside this Python, or the first in the path."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or mpiexec() is None, reason="mpi4py or an MPI is not installed (extra mpi)"
)


@functools.cache
def is_open_mpi():
    return "Open MPI" in subprocess.run([mpiexec(), "--version"], capture_output=True, text=True).stdout


def launcher(survive):
    """The command that starts processes, more of them than there are processors.

    Args:
        survive: whether processes live on after another one was killed.
    """
    if is_open_mpi():
        return [mpiexec(), "--allow-run-as-root", "--oversubscribe", *(["--continuous"] if survive else [])]
    if survive:
        pytest.skip("this MPI ends a job when a process is killed")
    return [mpiexec()]


class Job:
    """A job that has ended."""

    def __init__(self, processes, *programs, survive=False):
        command = [*launcher(survive), "-n", str(processes), sys.executable, "-X", "faulthandler", str(PROGRAMS), *programs]
        environment = {**os.environ, "FLAMBEAU_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
        before = shared_memory()
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as job:  # fmt: skip
            try:
                self.output, _ = job.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGTERM)
                self.output, _ = job.communicate()
                raise AssertionError(f"the job did not end within {LIMIT_S} s:\n{self.output}") from None
        self.status = job.returncode
        self.pids = [int(pid) for pid in re.findall(r"\bpid (\d+)\b", self.output)]
        assert len(self.pids) == processes, self.output
        assert not [pid for pid in self.pids if is_running(pid)], self.output
        assert not shared_memory() - before, self.output

    def succeeded(self):
        assert self.status == 0, self.output

    def failed(self, *patterns):
        assert self.status != 0, self.output
        for pattern in patterns:
            assert re.search(pattern, self.output), f"expected {pattern!r} in:\n{self.output}"


def shared_memory():
    """Of MPIs."""
    return {name for name in os.listdir("/dev/shm") if "mpi" in name or "ucx" in name}


def is_running(pid):
    """Whether a process is still there, after some seconds to end in."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    with os.fdopen(descriptor) as process:
        return not select.select([process], [], [], 5.0)[0]


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("processes", [2, 3, 4])
def test_bits_are_those_of_threads(processes):
    Job(processes, "schedules", "models").succeeded()


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_what_users_do(processes):
    Job(processes, "arguments_where_they_are_used", "training", "nothing_stays", "large_tensors_both_ways").succeeded()


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("processes", [2, 3])
def test_any_module_has_the_bits_of_threads(processes):
    Job(processes, "any_module", "any_models", "random_modules").succeeded()


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_what_users_do_with_any_module(processes):
    Job(processes, "training_of_any_module", "each_process_has_its_own_bytes").succeeded()


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("processes", [2, 4])
def test_failures_that_are_caught(processes):
    Job(processes, "failures", "failures_of_splits", "different_calls", "writes_while_it_is_sent", "random_failures", "closes").succeeded()


@pytest.mark.slow
@needs_mpi
def test_a_program_that_stops_early_ends_the_others():
    Job(3, "program_stops_early").succeeded()


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("name", ["killed", "exits"])
def test_a_process_that_ends_without_a_word_is_named(name):
    Job(4, name, survive=True).failed(*(rf"rank {rank} raised: rank 1 \(process \d+ on" for rank in (0, 2, 3)))


@pytest.mark.slow
@needs_mpi
def test_mpiexec_may_end_the_others():
    """Open MPI's names the rank, too."""
    Job(4, "killed").failed(*(["process rank 1 with PID"] if is_open_mpi() else []))


@pytest.mark.slow
@needs_mpi
def test_a_process_elsewhere_is_missed():
    Job(3, "silent", survive=True).failed("rank 0 heard nothing", "rank 2 heard nothing")


@pytest.mark.slow
@needs_mpi
def test_a_program_that_fails_ends_the_others():
    Job(3, "program_fails").failed("rank 1 has ended its program by KeyError: 'broken program'")


# ------------------------------------------------------------------------------------------------------------------- without processes


class Nobody:
    rank, size = 0, 3

    def open(self, what):
        raise AssertionError


def test_arguments():
    with pytest.raises(TypeError, match="transport is a str; expected ranks that are processes"):
        DistributedPipeline(nn.Sequential(nn.Linear(2, 2)), transport="mpi", micro_batches=2)
    with pytest.raises(ValueError, match="ranks = 2 on 3 processes; expected a rank for each"):
        DistributedPipeline(nn.Sequential(nn.Linear(2, 2)), 2, transport=Nobody(), micro_batches=2)


def test_without_mpi_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match=r"pip install 'flambeau\[mpi\]'"):
        MPITransport()




def test_pipeline_with_a_transport_is_distributed():
    class Alone:
        """The only rank."""

        rank, size = 0, 1

        def open(self, what):
            raise NotImplementedError(what)

    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    pipe = Pipeline(model, 1, transport=Alone(), micro_batches=2)
    assert type(pipe) is DistributedPipeline and len(list(pipe.local_parameters())) == 4
    assert type(Pipeline(model, 1, micro_batches=2)) is Pipeline
    with pytest.raises(ValueError, match="ranks = 2 on 1 processes"):
        Pipeline(model, 2, transport=Alone(), micro_batches=2)
