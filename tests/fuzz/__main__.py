"""Calls the library at random, in child processes, and prints every crash, hang and impossible exception.

    make fuzz CALLS=100000 SEED=3                          a long run
    make fuzz FUZZ="--seed 3 --replay 4711"                one call again, in a process of its own
    make fuzz FUZZ="--seed 3 --replay 4711 --back 200"     ... and the 200 calls before it
    make fuzz FUZZ="--seed 3 --shrink 4711"                what of the call is enough to fail
    make fuzz FUZZ="--only conv2d"                         what has that in its name; "--only ^ops": parts of ops

A call depends on the seed and its number alone. A process makes BATCH calls, with a limit on its memory; when it dies, the
next one goes on behind the call that it died of.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from .calls import Calls, slow
from .catalogue import catalogue
from .child import HEAD, PAGE
from .patience import Patience
from .shrink import smaller

BATCH = 5000
SECONDS = 30  # a call that takes longer hangs
SANITIZED_SECONDS = 300
START_SECONDS = 300  # more, until the first call: it reads the table, and others may use the machine
MEMORY = 2 << 30  # a mask of 2**31 elements does not fit, and is not computed for a minute
# What a sanitized module must report, or it is not one: a kernel that reads past the end of what NumPy lends it, and a
# read past the end of a tensor's own block.
OVERRUNS = (
    "r = fl.from_numpy(np.lib.stride_tricks.as_strided(np.zeros(5000), (5001,))).sum()",
    "x = fl.ones(5000)\nr = ctypes.string_at(x.data_ptr(), 20001)",
)
# What the C library and OpenMP say when a process that may have no more addresses is to have one more thread; they abort, whoever calls them.
NO_THREAD = ("cannot allocate memory for thread-local data", "libgomp: Thread creation failed")
TESTS = pathlib.Path(__file__).resolve().parents[1]


class Process:
    """A child that makes calls: `outcome()` waits for its end, or kills it when a call takes too long."""

    def __init__(self, order: dict, seconds: float = SECONDS) -> None:
        self.file = tempfile.TemporaryFile()
        self.file.truncate(PAGE)
        self.page = mmap.mmap(self.file.fileno(), PAGE)
        self.page[0:8] = (-1).to_bytes(8, "little", signed=True)
        self.errors = tempfile.TemporaryFile()
        self.seconds = seconds
        self.room = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # calls that write files do it there
        path = os.pathsep.join([str(TESTS), str(TESTS.parent / "tools"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.child", json.dumps({**order, "page": self.file.fileno()})],
            env={**os.environ, "PYTHONPATH": path, "PYTHONMALLOC": os.environ.get("PYTHONMALLOC", "default")},
            pass_fds=[self.file.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors, cwd=self.room.name,
        )  # fmt: skip

    def index(self) -> int:
        return int.from_bytes(self.page[0:8], "little", signed=True)

    def outcome(self) -> tuple[str, list[dict]]:
        """How it ended (empty: well), and what it noted."""
        last, patience = self.index(), Patience(self.process.pid)
        end = ""
        while self.process.poll() is None:
            try:
                self.process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                pass
            if self.index() != last:
                last = self.index()
                patience.restart()
            elif patience.look() > self.seconds + (START_SECONDS if last < 0 else 0):
                end = "hangs"
                self.process.send_signal(signal.SIGABRT)  # faulthandler writes where it is
                try:
                    self.process.wait(timeout=5)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
        self.room.cleanup()
        code = self.process.returncode
        if not end and code:
            end = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        length = int.from_bytes(self.page[8:16], "little")
        notes = [json.loads(line) for line in self.page[HEAD : HEAD + length].decode().splitlines()]
        return end, notes

    def wrote(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def said(self) -> str:
        """The last of what it wrote to stderr: a traceback, or a sanitizer's report."""
        text = self.wrote()
        for mark in ("ERROR: AddressSanitizer", "runtime error:", "Fatal Python error"):
            if mark in text:
                return text[text.rfind("\n", 0, text.index(mark)) + 1 :][:6000]
        return text[-3000:]


def calls_of(options: argparse.Namespace) -> Calls:
    return Calls(catalogue(), options.seed, options.only)


def order_of(options: argparse.Namespace, **more) -> dict:
    return {"seed": options.seed, "only": options.only, "memory": 0 if options.sanitizer else MEMORY, "plans": not options.plain, "forks": options.forks, "mode": options.mode, "skip": options.sanitizer, **more}


def seconds_of(options: argparse.Namespace) -> float:
    return SANITIZED_SECONDS if options.sanitizer else SECONDS


def beside(calls: Calls, index: int) -> range:
    """How far from a call those lie that are made at the same time, itself among them."""
    return range(3 if calls.plan(index) != "alone" else 1)


def report(seed: int, index: int, what: str, text: str, said: str = "") -> None:
    indented = text.replace("\n", "\n      ")
    print(f"--- seed {seed}, call {index}: {what}\n      {indented}", flush=True)
    if said:
        print("      | " + said.strip().replace("\n", "\n      | "), flush=True)


def watched(options: argparse.Namespace) -> bool:
    """Whether the sanitizer sees what it is for."""
    for text in OVERRUNS:
        end, said = one(argparse.Namespace(**vars(options) | {"plain": True, "times": 1, "mode": "eager"}), text, 0)
        if "AddressSanitizer: heap-buffer-overflow" not in said:
            print(f"not sanitized: {text}\n{end or 'ended well'}\n{said}", flush=True)
            return False
    return True


def run(options: argparse.Namespace) -> int:
    calls = calls_of(options)
    start, found, began = options.start, 0, time.monotonic()
    stop = options.start + options.calls
    while start < stop:
        child = Process(order_of(options, start=start, stop=min(stop, start + options.batch)), seconds_of(options))
        end, notes = child.outcome()
        at = child.index()
        for n in notes:
            if "hangs" in n["what"] and slow(n["text"]):
                continue
            found += 1
            report(options.seed, n["index"], n["what"], n["text"], child.said() if "child" in n["what"] else "")
        if end and any(text in child.wrote() for text in NO_THREAD):
            pass  # its limit of memory, and none of its calls
        elif end and not (end == "hangs" and at >= 0 and any(slow(calls.text(at + k)) for k in beside(calls, at))):
            found += 1
            plan = calls.plan(at) if at >= 0 else "start"
            report(options.seed, at, f"{end} ({plan})", calls.text(at) if at >= 0 else "", child.said())
        elif "runtime error:" in child.said():
            found += 1
            report(options.seed, at, "undefined behaviour", calls.text(at), child.said())
        start = at + 1 if end else min(stop, start + options.batch)
        rate = (start - options.start) / (time.monotonic() - began)
        print(f"seed {options.seed}: {start - options.start} calls, {found} findings, {rate:.0f} calls/s", flush=True)
        if at < 0 and end:
            break
        if options.findings and found >= options.findings:
            break
    return found


def one(options: argparse.Namespace, text: str, index: int) -> tuple[str, str]:
    """(how a single call ends, what was said)."""
    plan, others = "alone", []
    if not options.plain:
        calls = calls_of(options)
        plan = calls.plan(index)
        others = [calls.text(index + k) for k in (1, 2)] if plan != "alone" else []
    child = Process(order_of(options, text=text, plan=plan, others=others, times=options.times) | {"seed": f"{options.seed}:{index}"}, seconds_of(options))
    end, notes = child.outcome()
    return end or (notes[0]["what"] if notes else ""), child.said()


def main() -> int:
    parse = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--seed", type=int, default=0)
    parse.add_argument("--calls", type=int, default=10_000)
    parse.add_argument("--start", type=int, default=0, help="number of the first call")
    parse.add_argument("--batch", type=int, default=BATCH, help="calls per process")
    parse.add_argument("--findings", type=int, default=0, help="stop after that many")
    parse.add_argument("--only", default="", metavar="RE", help="call what this is found in (numbers then mean other calls)")
    parse.add_argument("--plain", action="store_true", help="no threads and no forks")
    parse.add_argument("--mode", choices=("eager", "lazy", "replay"), default="eager", help="make each call eagerly and recorded, or compiled, and compare")
    parse.add_argument("--forks", action=argparse.BooleanOptionalAction, default=True)
    parse.add_argument("--sanitizer", action="store_true", help="the module was built with AddressSanitizer (else this fails): no limit on addresses")
    parse.add_argument("--replay", type=int, metavar="N", help="make call N alone")
    parse.add_argument("--back", type=int, default=0, help="... after the calls before it")
    parse.add_argument("--shrink", type=int, metavar="N", help="find a smaller call that ends as call N does")
    parse.add_argument("--times", type=int, default=1, help="repeat a replayed call")
    parse.add_argument("--text", help="a call instead of that of a number")
    parse.add_argument("--show", type=int, metavar="N", help="print call N")
    options = parse.parse_args()
    if options.show is not None:
        print(calls_of(options).text(options.show))
        return 0
    if options.sanitizer and not watched(options):
        return 2
    if options.replay is not None and options.back:
        options.start, options.calls = max(0, options.replay - options.back), options.back + 1
        options.batch = options.calls
        return int(run(options) > 0)
    if options.replay is not None or options.shrink is not None or options.text:
        index = next((n for n in (options.replay, options.shrink) if n is not None), 0)
        text = options.text or calls_of(options).text(index)
        end, said = one(options, text, index)
        report(options.seed, index, end or "ends well", text, said if end else "")
        if options.shrink is not None and end:
            text = smaller(text, lambda t: one(options, t, index)[0] == end)
            report(options.seed, index, f"{end}, as does", text)
        return int(bool(end))
    return int(run(options) > 0)


if __name__ == "__main__":
    sys.exit(main())
