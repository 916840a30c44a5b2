"""Runs the examples of PyTorch's docstrings with the library that `torch` means here: python docstrings.py flambeau|torch PROGRAMS RECORDS.

The examples are read from the installed PyTorch and lie nowhere in this repository. Each docstring is a program of statements, which runs
in a process of its own; a record holds what each of them did: the class of its error or what it made, and what was printed.

Both libraries draw the same numbers: factories that an example calls are filled from NumPy, and so are the parameters of new modules. What
is random all the same is found with PyTorch, where a statement moves the generator; of it, and of what comes from it, only types and shapes count.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import doctest
import gc
import importlib
import io
import json
import os
import pickle
import re
import select
import signal
import sys
import time
import types
import warnings
import zlib
from collections.abc import Mapping

import numpy as np

EXAMPLE = "<example>"
LARGE = 1 << 18
SECONDS = 60  # for a process, which is busy for a few
UNWRITTEN = re.compile(r"Tensor\(\d|Storage\(\d|resize_\w*\(")  # makes memory that nobody wrote


# Finding the programs ------------------------------------------------------------------------------------------------------------------


def statements(doc):
    """The statements of a docstring's examples. Lines that only go with the ones before (`else:`, a body after `>>>`) are put together."""
    lines = [re.sub(r"^(>>>|\.\.\.)(?=\S)", r"\1 ", line.strip()) for line in doc.expandtabs().splitlines()]
    try:
        parts = doctest.DocTestParser().get_examples("\n".join(lines))
    except ValueError:  # a prompt after something that is none
        return []
    found = []
    for part in parts:
        goes_on = part.source[0].isspace() or re.match(r"(else|elif|except|finally)\b", part.source)
        if found and (goes_on or not complete(found[-1])) and complete(found[-1] + part.source):
            found[-1] += part.source
        elif found and not complete(found[-1]) and not complete(part.source):
            found[-1] += part.source
        else:
            found.append(part.source)
        if not complete(found[-1]) and part.want:  # a line without a prompt
            wanted = part.want.splitlines(keepends=True)
            longer = ("".join([found[-1], *wanted[:n]]) for n in range(1, min(len(wanted), 8) + 1))
            found[-1] = next(filter(complete, longer), found[-1])
    return [source for source in found if not re.fullmatch(r"[\w, ]+ = \.\.\.\s*(#.*)?\s*", source)]  # `model = ...`, of which there is one


def complete(source):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except SyntaxError:
        return False
    return True


def programs(module):
    """(name, statements) of the docstrings of a module's or a class' public names, and of the methods of its classes."""
    owner = module.__name__ if isinstance(module, types.ModuleType) else "torch"
    public = getattr(module, "__all__", ())
    for name in sorted(n for n in dir(module) if not n.startswith("_")):
        try:
            value = getattr(module, name)
        except Exception:
            continue
        if isinstance(value, types.ModuleType):
            continue
        owned = [(name, value)]
        if isinstance(value, type) and isinstance(module, types.ModuleType):
            owned += [(f"{name}.{key}", getattr(value, key, None)) for key in vars(value) if key != "__doc__"]
        for path, thing in owned:
            home = str(getattr(thing, "__module__", None) or "torch")
            if not home.startswith("torch") or name not in public and not home.startswith(("torch._C", owner)) and home != "torch":
                continue  # imported from elsewhere, where it is found, too
            doc = getattr(thing, "__doc__", None)
            if isinstance(doc, str) and ">>>" in doc:
                yield f"{owner if isinstance(module, types.ModuleType) else 'torch.Tensor'}.{path}", doc


# Drawing alike -------------------------------------------------------------------------------------------------------------------------


class Draws:
    """NumPy's numbers in what an example's own lines draw; PyTorch's generator stays where it was."""

    def __init__(self, torch):
        self.torch, self.rng = torch, np.random.default_rng(0)

    def install(self):
        torch = self.torch
        for name in ("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "normal"):
            self.wrap(torch, name, getattr(self, "_" + name.removesuffix("_like")))
        for name in ("empty", "empty_like", "empty_strided", "empty_permuted"):
            self.wrap(torch, name, self._empty)
        for name in ("new_empty", "new_empty_strided"):
            self.wrap(torch.Tensor, name, self._empty)

    def wrap(self, owner, name, values):
        plain = getattr(owner, name)

        def filled(*args, **kwargs):
            if sys._getframe(1).f_code.co_filename != EXAMPLE:
                return plain(*args, **kwargs)
            state = self.torch.get_rng_state()
            made = plain(*args, **kwargs)
            self.torch.set_rng_state(state)
            if made.device.type == "cpu" and made.layout == self.torch.strided:
                count = min(made.numel(), LARGE)  # the first numbers again and again in a large tensor
                drawn = values(tuple(made.shape) if count < LARGE else (count,), args, kwargs)
                if made.is_complex() and name.startswith("rand"):
                    drawn = drawn + 1j * values(drawn.shape, args, kwargs)
                self.fill(made, drawn if drawn.size == made.numel() else np.resize(drawn.astype(np.float32), made.numel()))
            return made

        filled.__name__ = filled.__qualname__ = name
        setattr(owner, name, filled)

    def fill(self, x, values):
        with self.torch.no_grad():
            x.copy_(self.torch.from_numpy(np.ascontiguousarray(values)).reshape(tuple(x.shape)))

    def fill_module(self, module, seed):
        rng = np.random.default_rng(seed)
        for parameter in module.parameters():
            if type(parameter) is self.torch.nn.Parameter and (parameter.is_floating_point() or parameter.is_complex()) and parameter.device.type == "cpu":
                self.fill(parameter, rng.standard_normal(tuple(parameter.shape)) / 4)

    def _rand(self, shape, args, kwargs):
        return self.rng.random(shape)

    def _randn(self, shape, args, kwargs):
        return self.rng.standard_normal(shape)

    def _randint(self, shape, args, kwargs):
        numbers = [a for a in args if type(a) is int] + [kwargs[k] for k in ("low", "high") if k in kwargs]
        return self.rng.integers(*numbers, size=shape)

    def _randperm(self, shape, args, kwargs):
        return self.rng.permutation(shape[0])

    def _normal(self, shape, args, kwargs):
        mean, std = [*args, *[kwargs[k] for k in ("mean", "std") if k in kwargs], 1.0][:2]
        mean, std = (v.detach().numpy() if isinstance(v, self.torch.Tensor) else v for v in (mean, std))
        return self.rng.standard_normal(shape) * std + mean

    def _empty(self, shape, args, kwargs):
        return np.zeros(shape)


# Recording -----------------------------------------------------------------------------------------------------------------------------


def plain_text(text):
    return re.sub(r"0x[0-9a-f]{4,}", "0x", text.replace("flambeau", "torch"))


def normal(torch, x, depth=0):
    """What can be said of a value in both libraries: (kind, ...), of tuples, texts, numbers and arrays."""
    if isinstance(x, torch.Tensor):
        return tensor(torch, x)
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes)) and type(x).__module__ == "builtins":
        return "value", type(x).__name__, plain_text(x) if isinstance(x, str) else x
    if isinstance(x, (np.ndarray, np.generic)):
        return "array", str(x.dtype), np.asarray(x) if x.dtype.kind in "biufc" else str(x)
    if isinstance(x, (torch.dtype, torch.Size, torch.device, torch.layout, torch.memory_format)):
        return "text", type(x).__name__, plain_text(repr(x))
    if isinstance(x, torch.nn.Module):
        return "module", plain_text(repr(x)), {k: normal(torch, v, depth + 1) for k, v in x.state_dict().items()}
    if depth < 6 and isinstance(x, Mapping):
        return "mapping", type(x).__name__, {str(k): normal(torch, v, depth + 1) for k, v in x.items()}
    if depth < 6 and isinstance(x, (tuple, list)):
        return "sequence", type(x).__name__, [normal(torch, v, depth + 1) for v in x]
    if isinstance(x, type):
        return "name", x.__name__
    if callable(x) and hasattr(x, "__name__") or isinstance(x, types.ModuleType):
        return "name", "function or module"
    text = plain_text(repr(x))
    return ("name", "object") if "0x" in text else ("text", type(x).__name__, text)


def tensor(torch, x):
    if torch.nn.parameter.is_lazy(x):
        return "text", type(x).__name__, "not initialised"
    about = {
        "type": type(x).__name__ if x.layout == torch.strided else "sparse", "dtype": str(x.dtype).rpartition(".")[2], "shape": tuple(x.shape) if not x.is_nested else (),
        "layout": str(x.layout).rpartition(".")[2], "device": str(x.device), "requires_grad": x.requires_grad, "is_leaf": x.is_leaf,
    }  # fmt: skip
    try:
        text = plain_text(repr(x))
    except Exception as error:
        text = f"repr: {error}"
    return "tensor", about, array(torch, x), text


def array(torch, x):
    if x.device.type == "meta" or x.numel() > 100_000:
        return None
    try:
        with torch.no_grad():
            x = x.detach()
            if x.is_nested:
                return [array(torch, part) for part in x.unbind()]
            x = x.dequantize() if x.is_quantized else x if x.layout == torch.strided else x.to_dense()
            x = x.resolve_conj().resolve_neg()
            if x.dtype not in (torch.bool, torch.int64, torch.float64):
                x = x.to(torch.complex128 if x.is_complex() else torch.float64 if x.is_floating_point() else torch.int64)
            return x.numpy().copy()
    except Exception as error:
        return f"{type(error).__name__}"


def kinds(error):
    """The classes of Python's among an error's."""
    return sorted(c.__name__ for c in type(error).__mro__ if getattr(builtins, c.__name__, None) is c and c is not object)


def names_in(tree):
    loaded = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return loaded, stored


def with_room(tree):
    """`torch.allclose(a, b)` of drawn numbers with room for what processors round differently: the defaults are decided by the last digits."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "allclose" and len(call.args) == 2 and not call.keywords:
            call.keywords = [ast.keyword("rtol", ast.Constant(1e-4)), ast.keyword("atol", ast.Constant(1e-5))]
    return ast.fix_missing_locations(tree)


class Runner:
    def __init__(self, draws, name, sources):
        self.draws, self.torch, self.name, self.sources = draws, draws.torch, name, sources
        sys.modules["example"] = module = types.ModuleType("example")  # where pickle and others look for classes
        self.globals = vars(module)
        self.prepare()
        self.seen = set()

    def prepare(self):
        """The names that examples take for granted."""
        torch, names = self.torch, self.globals
        names |= {"torch": torch, "np": np, "numpy": np, "os": os, "Tensor": torch.Tensor, "tensor": torch.tensor, "autograd": torch.autograd}
        owner = self.name.rpartition(".")[0]
        with contextlib.suppress(Exception):
            if owner not in ("torch", "torch.Tensor"):
                module = importlib.import_module(owner)
                names.update((k, getattr(module, k)) for k in dir(module) if not k.startswith("_") and k not in vars(builtins))
        exec(compile(SETTING, EXAMPLE, "exec"), names)
        self.draws.fill_module(names["model"], 0)

    def run(self):
        records = []
        self.torch.manual_seed(0)
        for i, source in enumerate(self.sources):
            seed = zlib.crc32(self.name.encode()) + i
            self.draws.rng = np.random.default_rng(seed)
            record = self.statement(source, seed)
            record["source"] = source
            records.append(record)
        return records

    def statement(self, source, seed):
        torch, printed = self.torch, io.StringIO()
        try:
            tree = with_room(ast.parse(source))
        except SyntaxError:
            return {"error": ["SyntaxError"], "text": "SyntaxError", "random": False, "names": [], "printed": ""}
        loaded, stored = names_in(tree)
        before = torch.get_rng_state().clone()
        record, start = {}, time.monotonic()
        try:
            with contextlib.redirect_stdout(printed):
                value = None
                if tree.body and isinstance(tree.body[-1], ast.Expr):
                    last = tree.body.pop()
                    exec(compile(tree, EXAMPLE, "exec"), self.globals)
                    value = eval(compile(ast.Expression(last.value), EXAMPLE, "eval"), self.globals)
                else:
                    exec(compile(tree, EXAMPLE, "exec"), self.globals)
        except (Exception, SystemExit) as error:
            record |= {"error": kinds(error), "text": f"{type(error).__name__}: {str(error)[:300]}"}
        else:
            moved = not torch.equal(before, torch.get_rng_state()) or UNWRITTEN.search(source) is not None
            new = {n: self.globals[n] for n in sorted(stored) if n in self.globals}
            modules = {id(v): v for v in [*new.values(), value] if isinstance(v, torch.nn.Module) and id(v) not in self.seen}
            for k, module in enumerate(modules.values()):
                self.seen.update(id(m) for m in module.modules())
                self.draws.fill_module(module, seed + k)
            record["fresh"] = [n for n, v in new.items() if id(v) in modules]
            record["moved"] = moved
            record["value"] = normal(torch, value)
            record["made"] = {n: normal(torch, v) for n, v in new.items()}
        record["names"] = sorted(loaded - {"torch", "nn", "F", "optim", "np", "math", "autograd", "print", "range", "len", "list"})
        record["seconds"] = time.monotonic() - start
        record["printed"] = plain_text(printed.getvalue())
        return record


SETTING = """
import math, itertools, functools, collections, io, copy
import torch.nn as nn, torch.nn.functional as F, torch.optim as optim, torch.utils.data, torch.nn.utils.prune as prune, torch.linalg as linalg
from torch.autograd import Variable
from torch.utils.data import DataLoader, Dataset, TensorDataset
from collections import namedtuple
def train(*args, **kwargs): return 0.5
validate = test = train_epoch = train
model = nn.Linear(3, 2)
opt = optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
loss_fn = F.mse_loss
input, target = torch.ones(2, 3), torch.zeros(2, 2)
dataset = TensorDataset(input, target)
loader = dataloader = data_loader = [(input, target)] * 2
"""


# What PyTorch imports when it is first wanted, which every process would do again.
LATE = ["torch.nn.functional", "torch.utils.data", "torch.distributions", "torch._dynamo", "torch.fx.experimental.symbolic_shapes"]
FIRST = """
torch.broadcast_shapes((2,), (1,))
torch.empty(2, 2).dim_order()
torch.func.hessian(lambda x: x.sin().sum())(torch.ones(2))
torch.testing.assert_close(torch.ones(1), torch.ones(1))
"""


# Processes -----------------------------------------------------------------------------------------------------------------------------


def run_apart(draws, todo):
    """What the programs do, one after the other in a process that this one forks: a list of records for each, or a text for all."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.setsid()
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            warnings.simplefilter("ignore")
            try:
                found = pickle.dumps([Runner(draws, name, sources).run() for name, sources in todo])
            except BaseException as error:
                found = pickle.dumps(f"{type(error).__name__}: {error}")
            with open(writer, "wb") as pipe:
                pipe.write(found)
        finally:
            os._exit(0)
    os.close(writer)
    chunks, end, ready = [], time.monotonic() + SECONDS, True
    with open(reader, "rb", buffering=0) as pipe:
        while ready := select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            chunk = pipe.read(1 << 20)
            if not chunk:
                break
            chunks.append(chunk)
    if not ready:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"no answer after {SECONDS} s" if not ready else pickle.loads(b"".join(chunks)) if chunks else "the process died"


def run_all(draws, todo):
    """(name, records) of all programs. Those that set something have a process of their own, and others share one."""
    alone = re.compile(r"set_|register|library|serialization|enable|seed|profile|jit|accelerator|Thread|worker")
    batch = []
    for program in todo:
        if alone.search("".join(program[1])):
            yield from in_one_process(draws, [program])
            continue
        batch.append(program)
        if len(batch) == 16:
            yield from in_one_process(draws, batch)
            batch = []
    yield from in_one_process(draws, batch)


def in_one_process(draws, batch):
    found = run_apart(draws, batch) if batch else []
    if isinstance(found, str) and len(batch) > 1:
        return [result for program in batch for result in in_one_process(draws, [program])]
    return [(name, found if isinstance(found, str) else found[i]) for i, (name, _) in enumerate(batch)]


def main(library, given, wanted):
    if library == "flambeau":
        importlib.import_module("flambeau.compat.torch")
    import torch

    torch.set_num_threads(1)
    with open(given) as file:
        todo = json.load(file)
    for module in [*sorted({name.rpartition(".")[0] for name, _ in todo}), *LATE]:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    with contextlib.suppress(Exception):
        exec(FIRST, {"torch": torch})
    draws = Draws(torch)
    draws.install()
    gc.collect()
    gc.freeze()
    os.chdir(os.path.dirname(wanted))
    with open(wanted, "wb") as file:
        for result in run_all(draws, todo):
            pickle.dump(result, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
