"""Parts that are imported when they are first used, by several threads at once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def run(script):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], env=ENV, timeout=120, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_nobody_begins_with_a_part_of_nn():
    """A thread that has begun with one waits for nn, whose importer may wait for that part: Python then hands both out half made."""
    found = run("""
        import builtins, importlib, os, sys
        import flambeau
        import_ = builtins.__import__
        def watched(name, at=None, *more):
            if name.startswith("flambeau.nn.") and "flambeau.nn" not in sys.modules:
                os.write(1, (at["__name__"] + "\\n").encode())
            return import_(name, at, *more)
        builtins.__import__ = watched
        parts = {*flambeau._LAZY, *flambeau._LAZY_NAMES.values(), "ao.quantization", "ao.nn.quantized", "distributed.fsdp", "compat.torchgpipe"}
        for part in sorted(parts):
            if not (child := os.fork()):
                importlib.import_module("flambeau." + part)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0, part
    """)
    assert not found


def test_threads_import_parts_at_once():
    run("""
        import importlib, threading
        import flambeau
        failed = []
        parts = ["nn", "func", "jit", "fx", "serialization", "distributions", "optim", "utils.data"]
        def work(k):
            try:
                for part in parts[k:] + parts[:k]:
                    importlib.import_module("flambeau." + part)
            except Exception as error:
                failed.append(error)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(len(parts))]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not failed, failed
    """)


def test_a_fork_waits_for_what_threads_import():
    run("""
        import os, threading, time
        import flambeau as fl
        thread = threading.Thread(target=lambda: fl.nn.Linear(2, 2))
        thread.start()
        time.sleep(0.004)
        if not (child := os.fork()):
            fl.nn.Linear(2, 2)
            os._exit(0)
        end = time.monotonic() + 10
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.kill(child, 9)
                raise AssertionError("the child waits for ever")
            time.sleep(0.01)
        thread.join()
    """)
