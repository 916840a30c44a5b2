"""Programs that each run in a process of their own, at a tenth of what it costs to start Python and to import the library.

    forks = Forks("import flambeau.compat.torch")     a process that has imported this, and does nothing
    done = forks.run("print(1)")                      a fork of it runs the program as `python -c` would
    done.stdout, done.stderr, done.returncode
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import types
from pathlib import Path


class Forks:
    """Starts with the first program, and ends with this process.

    Args:
        imports: a program that all others find done. Nothing in it may start a thread.
    """

    def __init__(self, imports: str) -> None:
        self.imports, self.server = imports, None

    def run(self, code: str, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Runs a program in the folder that is the current one here, with the environment that was there for the first program."""
        if self.server is None:
            self.server = subprocess.Popen(
                [sys.executable, __file__, self.imports], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                start_new_session=True,
            )  # fmt: skip
            atexit.register(self.close)
        with tempfile.TemporaryDirectory() as folder:
            request = {"code": code, "arguments": arguments, "cwd": str(Path.cwd()), "folder": folder}
            self.server.stdin.write(json.dumps(request) + "\n")
            if not select.select([self.server.stdout], [], [], timeout)[0]:
                self.close()
                raise subprocess.TimeoutExpired(code, timeout)
            status = int(self.server.stdout.readline())
            return subprocess.CompletedProcess(code, status, *((Path(folder) / name).read_text() for name in ("stdout", "stderr")))

    def close(self) -> None:
        """Ends the process, and the one that runs a program."""
        server, self.server = self.server, None
        if server is not None:
            os.killpg(server.pid, signal.SIGKILL)
            server.communicate()


def serve() -> dict:
    """Forks once for each line of the input. Returns in the forks alone, with what they are to run."""
    for line in sys.stdin:
        if not (pid := os.fork()):
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    sys.exit()


def become(request: dict) -> dict:
    """Gives this fork its files, arguments and folder, and an empty `__main__`, whose names are returned."""
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        with open(f"{request['folder']}/{name}", "wb") as file:
            os.dup2(file.fileno(), descriptor)
    with open(os.devnull, "rb") as file:
        os.dup2(file.fileno(), 0)
    os.chdir(request["cwd"])
    sys.argv = ["-c", *request["arguments"]]
    sys.modules["__main__"] = types.ModuleType("__main__")
    return vars(sys.modules["__main__"])


if __name__ == "__main__":
    sys.path[0] = ""  # not this folder: a program begins with the one it is in
    exec(sys.argv[1], {})
    gc.freeze()
    wanted = serve()
    exec(compile(wanted["code"], "<string>", "exec"), become(wanted))
