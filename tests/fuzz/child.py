"""The process that calls: started by fuzz/__main__.py with a range of numbers, or with one text.

What is called is written down before the call, in memory that the parent shares, so that nothing has to survive.
A result that only looks wrong from the inside (an exception that nobody should see, a gradient of another shape) is
written to the same memory, and the child goes on.

With `--mode lazy` or `--mode replay` each call is made twice: eagerly, and recorded (or as a compiled function, some times). Both must end
alike: the same error, or results, arguments and gradients of the same bits.
"""

from __future__ import annotations

import dis
import faulthandler
import json
import mmap
import os
import pickle
import random
import re
import resource
import signal
import sys
import threading
import time
import warnings

from .patience import Patience

# The shared page: number of the call (-1: none yet), then the length of the findings, then the findings as JSON lines.
PAGE = 1 << 20
HEAD = 16

# Texts and types that a caller should never see.
INTERNAL = re.compile(
    r"std::|bad_alloc|vector::|basic_string|_M_|dnnl|onednn|could not (create|execute)|internal|unreachable|segfault"
    r"|unknown exception|returned NULL|without setting|with an? (exception|error) set",
    re.IGNORECASE,
)
ALLOWED = (ValueError, TypeError, RuntimeError, IndexError, MemoryError, OverflowError, NotImplementedError, BufferError,
           AttributeError, KeyError, ZeroDivisionError, RecursionError, StopIteration, pickle.PicklingError)  # fmt: skip
# What Python itself says where an operation does not fit, in place of an error that names the function and the argument.
PYTHONS_OWN = re.compile(
    r"object is not (iterable|subscriptable|callable)|does not support item|unhashable|index out of range|indices must be|unsupported operand|not supported between"
    r"|has no len|\bunpack\b|cannot be interpreted|bad operand|can't multiply|must be real number|argument must be|not a container|must be str|NoneType"
)
NAMED = re.compile(r"[\w.]+(\(\))?: ")
NEVER = (UnboundLocalError, NameError)
FORK_SECONDS = 20
# Not compared between the modes: memory that nobody wrote, addresses, what asks for the mode itself, and errors for lack of memory.
UNDEFINED = re.compile(r"empty|resize|\.set_\(|\.data_ptr|_cdata|memory_stats|object\(\)|Generator|seed|rng_state|\.version|_version|storage|\bis_compiling")
REPLAYS = 5


class Wrong(Exception):
    """A finding that did not end the process."""


def in_pythons_words(e: BaseException) -> bool:
    """Whether an error was raised by an operation in the library's Python code, and by nobody who knew the arguments."""
    trace = e.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    if f"{os.sep}flambeau{os.sep}" not in code.co_filename or NAMED.match(str(e)):
        return False
    if dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS":
        return False
    return type(e) in (KeyError, AttributeError, ZeroDivisionError) or (type(e) in (TypeError, IndexError) and bool(PYTHONS_OWN.search(str(e))))


def limit_memory(extra: int) -> None:
    """At most `extra` bytes more than now, so that what asks for too much gets a MemoryError."""
    with open("/proc/self/statm") as f:
        now = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + extra, now + extra))


def tensors_in(value, fl, depth=0):
    if isinstance(value, fl.Tensor):
        yield value
    elif isinstance(value, (tuple, list)) and depth < 3:
        for v in value[:20]:
            yield from tensors_in(v, fl, depth + 1)


def look(x, fl) -> None:
    """Uses a result as a caller would."""
    if x.layout is not fl.strided:
        repr(x)
        if x.numel() > 1 << 20:
            return
        dense = x.to_dense()
        if tuple(dense.shape) != tuple(x.shape):
            raise Wrong(f"to_dense has shape {tuple(dense.shape)}, not {tuple(x.shape)}")
        x = dense
    shape, strides = tuple(x.shape), tuple(x.stride())
    if x.is_meta or x.numel() == 0:
        repr(x)
        return
    if any(n > 1 << 25 for n in (x.numel(), *shape)):
        return
    if not x.is_meta:
        reach = x.storage_offset() + sum((n - 1) * s for n, s in zip(shape, strides)) + 1
        copy = x.detach().clone()
        if tuple(copy.shape) != shape:
            raise Wrong(f"clone has shape {tuple(copy.shape)}, not {shape}")
        if x.storage_offset() < 0 or reach < 0:
            raise Wrong(f"strides {strides} of shape {shape} reach {reach}")
        if x.numel() <= 200:
            repr(x)
            x.tolist()


def backward(x, fl, rng) -> None:
    if not x.requires_grad or not x.is_floating_point() or x.numel() > 1 << 22:
        return
    how = rng.randrange(4)
    if how == 0:
        x.sum().backward()
    elif how == 1:
        x.backward(fl.empty_like(x) if x.is_meta else fl.ones_like(x))
    elif how == 2:
        x.backward(fl.zeros_like(x), create_graph=True)
    else:
        total = (x * x).sum()
        total.backward(retain_graph=True)
        total.backward()


def contents(value, fl) -> list:
    """What two modes must agree on: shapes, types and bytes of tensors, and numbers; texts without addresses."""
    if isinstance(value, fl.Tensor):
        known = [tuple(value.shape), str(value.dtype), value.requires_grad, value.is_meta]
        if value.layout is not fl.strided and value.numel() <= 1 << 20:
            value = value.to_dense()
        if value.is_meta or value.numel() > 1 << 20:
            return known
        x = value.detach()
        return [*known, (x.view(fl.int16) if x.dtype == fl.bfloat16 else x).numpy().tobytes()]
    if isinstance(value, (tuple, list)):
        return [contents(v, fl) for v in value[:20]]
    return [repr(value)] if isinstance(value, (int, float, str, bool, type(None))) else [type(value).__name__]


class Caller:
    def __init__(self, note, mode: str = "eager") -> None:
        import flambeau as fl
        from fuzz import values

        self.fl, self.note, self.mode = fl, note, mode
        self.names = values.NAMES

    def run(self, text: str, seed: str, compared: bool = True) -> None:
        """Makes a call eagerly and, where another mode is tried, in that. Raises what is not allowed."""
        code = compile(text, "call", "exec")
        expected = self.ended(code, seed, lambda names: exec(code, names))  # noqa: S102
        if self.mode == "eager":
            return
        runs = {"lazy": self.lazily, "replay": self.replayed}[self.mode]
        for i, got in enumerate(runs(code, seed)):
            if self.mode == "replay" and got[0] == expected[0] == "RangeError":
                continue  # an index that has no value yet is looked at by the op that reads it, and under its name
            if compared and got != expected and not UNDEFINED.search(text) and "emory" not in f"{expected[-1]}{got[-1]}":
                raise Wrong(f"{self.mode}, run {i}: {str(got)[:600]} not {str(expected)[:600]}")

    def lazily(self, code, seed: str):
        with self.fl.lazy():
            yield self.ended(code, seed, lambda names: exec(code, names))  # noqa: S102

    def replayed(self, code, seed: str):
        """The same call as a compiled function of the tensors that it makes."""
        wanted: list = []  # the arguments of each T
        state: list = [None, None]  # the names of the run that is going on, and what is left of its tensors

        def body(*tensors):
            names, left = state[0], list(tensors)
            made = names["T"]
            names["T"] = lambda *args, **kwargs: left.pop(0) if left else made(*args, **kwargs)
            exec(code, names)  # noqa: S102
            return names.get("r")

        function = self.fl.compile(body, mode="replay")

        def first(names):
            made = names["T"]
            names["T"] = lambda *args, **kwargs: (wanted.append((args, kwargs)), made(*args, **kwargs))[1]
            exec(code, names)  # noqa: S102

        def again(names):
            state[0] = names
            tensors = [names["T"](*args, **kwargs) for args, kwargs in wanted]
            names["r"] = function(*tensors)

        yield self.ended(code, seed, first)
        for _ in range(REPLAYS):
            yield self.ended(code, seed, again)

    def ended(self, code, seed: str, call) -> list:
        """How a call ends: what it made, or its error. It is looked at, and goes backward."""
        fl, rng = self.fl, random.Random(seed)
        scope = dict(self.names)
        made = []

        def tensor(*args, **kwargs):
            x = self.names["T"](*args, **kwargs)
            made.append(x)
            return x

        scope["T"] = tensor
        if self.mode != "eager":
            fl.manual_seed(0)
        try:
            call(scope)
            for x in tensors_in(scope.get("r"), fl):
                look(x, fl)
            for x in tensors_in(scope.get("r"), fl):
                backward(x, fl, rng)
            for x in made:
                look(x, fl)
                if x.is_leaf and x.grad is not None and tuple(x.grad.shape) != tuple(x.shape):
                    raise Wrong(f"a gradient has shape {tuple(x.grad.shape)}, its tensor {tuple(x.shape)}")
            if self.mode == "eager":
                return []
            return [contents(scope.get("r"), fl), [contents(x, fl) for x in made], [contents(x.grad, fl) for x in made if x.is_leaf]]
        except Wrong:
            raise
        except NEVER as e:
            raise Wrong(f"{type(e).__name__}: {e}") from e
        except ALLOWED as e:
            if INTERNAL.search(str(e)) or in_pythons_words(e):
                raise Wrong(f"{type(e).__name__}: {str(e)[:300]}") from e
            return [type(e).__name__, re.sub(r"0x[0-9a-f]+|level=\d+", "0x", str(e))]
        except BaseException as e:
            raise Wrong(f"{type(e).__name__}: {str(e)[:300]}") from e

    def call(self, text: str, plan: str, seed: str, others: list[str]) -> None:
        self.fl.manual_seed(0)
        if plan == "alone":
            self.run(text, seed)
            return
        threads = []
        try:
            for t in others:
                thread = threading.Thread(target=self.quietly, args=(t, seed))
                try:
                    thread.start()
                except RuntimeError:  # the first one took the addresses that a stack needs
                    break
                threads.append(thread)
            if plan == "fork":
                self.forked(text, seed)
            else:
                self.run(text, seed, compared=False)
        finally:
            for t in threads:
                t.join()

    def quietly(self, text: str, seed: str) -> None:
        try:
            self.run(text, seed, compared=False)
        except Wrong as e:
            self.note(text, str(e))

    def forked(self, text: str, seed: str) -> None:
        """The call in a forked child, while other threads of this process are inside of theirs."""
        pid = os.fork()
        if pid == 0:
            status = 0
            try:
                self.run(text, seed, compared=False)
            except Wrong:
                status = 3
            finally:
                os._exit(status)
        patience, pause = Patience(pid), 0.0005
        while patience.look() < FORK_SECONDS:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        else:
            os.kill(pid, signal.SIGABRT)  # faulthandler says where
            time.sleep(0.2)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise Wrong("a forked child hangs")
        if os.WIFSIGNALED(status):
            raise Wrong(f"a forked child died of {signal.Signals(os.WTERMSIG(status)).name}")


def main() -> None:
    order = json.loads(sys.argv[1])
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(400)
    page = mmap.mmap(order["page"], PAGE)
    lock = threading.Lock()

    def note(text: str, what: str) -> None:
        with lock:
            end = int.from_bytes(page[8:16], "little")
            line = json.dumps({"text": text, "what": what, "index": int.from_bytes(page[0:8], "little", signed=True)}).encode() + b"\n"
            if HEAD + end + len(line) <= PAGE:
                page[HEAD + end : HEAD + end + len(line)] = line
                page[8:16] = (end + len(line)).to_bytes(8, "little")

    import numpy as np

    import flambeau as fl
    import flambeau.compiler  # noqa: F401  (loaded when it is first used)
    from fuzz.calls import Calls, slow
    from fuzz.catalogue import catalogue

    caller = Caller(note, order.get("mode", "eager"))
    # Threads exist and libraries are loaded before there is a limit, and before anything forks: a child that was forked
    # while another thread imports would wait for that for ever.
    np.random.default_rng()
    for dtype in (fl.float32, fl.bfloat16, fl.float16):
        x = fl.ones(64, 64, dtype=dtype)
        (x @ x).sum()
        fl.nn.functional.conv2d(fl.ones(1, 16, 32, 32, dtype=dtype), fl.ones(16, 16, 3, 3, dtype=dtype)).sum()
    (fl.ones(1 << 20) + 1).sum()
    if order.get("memory"):
        limit_memory(order["memory"])
    if "text" in order:
        page[0:8] = (0).to_bytes(8, "little", signed=True)
        for _ in range(order.get("times", 1)):
            try:
                caller.call(order["text"], order["plan"], order["seed"], order.get("others", []))
            except Wrong as e:
                note(order["text"], str(e))
                break
        return
    calls = Calls(catalogue(), order["seed"], order["only"])
    for index in range(order["start"], order["stop"]):
        page[0:8] = index.to_bytes(8, "little", signed=True)
        plan = calls.plan(index) if order["plans"] else "alone"
        if plan == "fork" and not order["forks"]:
            plan = "threads"
        text = calls.text(index)
        others = [] if plan == "alone" else [calls.text(index + k) for k in (1, 2)]
        if order.get("skip") and any(slow(t) for t in (text, *others)):
            continue
        try:
            caller.call(text, plan, f"{order['seed']}:{index}", others)
        except Wrong as e:
            note(text, str(e))


if __name__ == "__main__":
    main()
