"""Parts that are imported when they are first used, by several threads at once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


# What happens while a part is made: Python holds that part's lock then, and no other.
WHILE = """
    import importlib, importlib.machinery, os, sys, threading
    import flambeau

    class While:
        def __init__(self, name, act, where="exec_module"):
            self.name, self.act, self.where = name, act, where
            sys.meta_path.insert(0, self)

        def find_spec(self, name, path=None, target=None):
            if name != self.name:
                return None
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            method = getattr(spec.loader, self.where)
            setattr(spec.loader, self.where, lambda module: self.act() or method(module))
            return spec
"""


def run(script):
    script = textwrap.dedent(WHILE) + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], env=ENV, timeout=120, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.slow
def test_a_part_and_what_holds_it_are_imported_at_once():
    """One thread begins with the package and, before that imports its part, another thread begins with the part."""
    run("""
        failed = []
        def load(name):
            try:
                importlib.import_module(name)
            except Exception as error:
                failed.append(error)
        part = threading.Thread(target=load, args=("flambeau.utils.data",))
        While("flambeau.utils", lambda: (part.start(), part.join(0.2)) and None, "create_module")
        load("flambeau.utils")
        part.join()
        assert not failed, failed
    """)


@pytest.mark.slow
def test_a_part_is_whole_when_another_thread_gets_it():
    """Python hands out what is half made where two threads would wait for each other."""
    run("""
        got = []
        def load():
            import flambeau.nn.modules.linear
            got.append(flambeau.nn.modules.linear.Linear(2, 2))
        other = threading.Thread(target=load)
        While("flambeau.nn.modules", lambda: (other.start(), other.join(0.2)) and None, "create_module")
        flambeau.nn.Linear
        other.join()
        assert len(got) == 1
    """)


@pytest.mark.slow
@pytest.mark.parametrize("root", ["flambeau", "torch"])
def test_threads_import_parts_at_once(root):
    run(f"""
        import flambeau.compat.torch
        failed = []
        parts = ["nn", "func", "jit", "fx.node", "fx", "serialization", "distributions.normal", "distributions", "optim.lr_scheduler",
                 "nn.functional", "optim", "utils.data", "utils"]
        def work(k):
            try:
                for part in parts[k:] + parts[:k]:
                    importlib.import_module("{root}." + part)
            except Exception as error:
                failed.append(error)
        threads = [threading.Thread(target=work, args=(k,)) for k in range(len(parts))]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not failed, failed
    """)


@pytest.mark.slow
def test_a_fork_waits_for_what_threads_import():
    run("""
        import time
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


@pytest.mark.slow
def test_imports_go_on_after_a_fork_within_one():
    """A child that was forked by the thread that imports has its parent's lock."""
    run("""
        children = []
        While("flambeau.fx.graph", lambda: children.append(os.fork()))
        import flambeau.fx
        thread = threading.Thread(target=importlib.import_module, args=("flambeau.utils.data",), daemon=True)
        thread.start()
        thread.join(20)
        done = "flambeau.utils.data" in sys.modules
        if children == [0]:
            os._exit(0 if done else 1)
        assert done and os.waitpid(children[0], 0)[1] == 0
    """)


@pytest.mark.slow
def test_ctrl_c_between_an_import_and_the_release_of_its_lock():
    """The thread keeps the lock then, though it imports no more."""
    run("""
        def trace(frame, event, arg):
            if frame.f_code.co_name == "__exit__" and getattr(frame.f_locals.get("self"), "_name", "") == "flambeau.fx.node":
                sys.settrace(None)
                raise KeyboardInterrupt
        sys.settrace(trace)
        try:
            import flambeau.fx.node
        except KeyboardInterrupt as error:
            kept = error  # as a prompt does, with all frames
        assert importlib._bootstrap._module_locks._lock.owner == threading.get_ident()
        thread = threading.Thread(target=importlib.import_module, args=("flambeau.utils.data",), daemon=True)
        thread.start()
        thread.join(20)
        assert "flambeau.utils.data" in sys.modules and not thread.is_alive()
        import flambeau.fx
    """)


@pytest.mark.slow
def test_a_fork_where_an_import_waits_for_the_thread_that_forks():
    """Python's locks find that neither would end; the fork goes on without the lock, and says nothing."""
    run("""
        import time
        sys.modules.pop("colorsys", None)
        other = threading.Thread(target=importlib.import_module, args=("flambeau.fx.node",), daemon=True)
        children = []
        def meet():
            other.start()
            time.sleep(0.2)  # it holds the library's lock and waits for the module that is imported here
            children.append(os.fork())
            if children == [0]:
                importlib.import_module("flambeau.utils.data")
                os._exit(0)
        While("flambeau.fx.node", lambda: importlib.import_module("colorsys") and None)
        While("colorsys", meet)
        import colorsys
        assert os.waitpid(children[0], 0)[1] == 0
        other.join(20)
        assert not other.is_alive()
    """)
