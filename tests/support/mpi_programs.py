"""What the processes of MPI jobs run in `test_mpi.py`: `mpiexec -n 4 python mpi_programs.py NAME...`.

A program is called with the transport. If it finds something wrong it raises, which ends the job with an error.
"""

from __future__ import annotations

import gc
import os
import sys

import mpi_any_module  # noqa: F401  (registers its programs, as the others do)
import mpi_equal  # noqa: F401
import mpi_failures  # noqa: F401
from cuts import cut_by_size
from mpi_common import PROGRAMS, say

from flambeau.pipeline._mpi import MPITransport


def main(names):
    say(f"pid {os.getpid()}")
    cut_by_size()
    gc.freeze()  # each recording goes through all objects, and those of imports are not what programs make
    if names == ["silent"]:
        import flambeau.pipeline._watch as watch

        watch._machine = lambda: ""
    transport = MPITransport(timeout=3.0)
    for name in names:
        PROGRAMS[name](transport)


if __name__ == "__main__":
    main(sys.argv[1:])
