"""Frees what a library may hold while it gets no memory: `python freeing.py NAME`, with no_memory.cpp's library preloaded.

Whoever frees may be the one who ran out of memory. What throws then ends the process.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import warnings

import numpy as np

import flambeau as fl
from flambeau import _C, nn

refuser = ctypes.CDLL(None)


def library():
    """Where the module's code lies."""
    with open("/proc/self/maps") as maps:
        parts = [line.split() for line in maps if line.rstrip().endswith(_C.__file__)]
    code = [tuple(int(n, 16) for n in p[0].split("-")) for p in parts if "x" in p[1]]
    return min(a for a, _ in code), max(b for _, b in code)


def tensors():
    """Blocks of all sizes, of which neighbours are free and not."""
    made = [fl.empty(n) for n in (1, 100, 1000, 100_000, 400_000, 3_000_000) * 40]
    return made[::3], made[1::3], made[2::3]


def views():
    x = fl.ones(100, 100)
    return [x[i:, : i + 1].t() for i in range(50)], x


def history():
    x = fl.ones(30, requires_grad=True)
    y = x
    for _ in range(300):
        y = (y * 1.01).sin() + x
    return y, [y[i] for i in range(30)]


def wide_history():
    """A node with many inputs, each with a chain of its own: more at once than the few that are kept without memory."""
    x = fl.ones(3, requires_grad=True)
    return fl.cat([(x * i).exp() for i in range(200)])


def gradients():
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    net(fl.ones(2, 8)).sum().backward(create_graph=True)
    return net


def second_gradients():
    x = fl.ones(4, requires_grad=True)
    g = x
    for _ in range(50):
        g = fl.ones(4, requires_grad=True)
        g.grad = x
        x = g
    return g


def hooks():
    x = fl.ones(3, requires_grad=True)
    y = x * 2
    return x, y, [x.register_hook(lambda g: g), y.register_hook(lambda g: g)]


def optimizer():
    net = nn.Conv2d(3, 16, 3)
    step = fl.optim.Adam(net.parameters())
    net(fl.ones(1, 3, 9, 9)).sum().backward()
    step.step()
    return net, step


def deferred():
    return [nn.Conv2d(3, 16, 3)(fl.ones(2, 3, 20, 20)) for _ in range(3)]


def numpys():
    x = fl.ones(50)
    return x.numpy(), fl.from_numpy(np.ones(40)), np.from_dlpack(fl.ones(5)), fl.from_dlpack(np.ones(5)), memoryview(fl.ones(5))


def recorded():
    region = fl.lazy()
    region.__enter__()
    return region, [(fl.ones(40) * i).exp() for i in range(20)]


def replayed():
    f = fl.compile(lambda x: (x * 2).exp().sum(), mode="replay")
    with fl.no_grad():
        for _ in range(5):
            f(fl.ones(30))
    return f


def pushed():
    v = fl.engine.Var()
    fl.engine.push(lambda: None, writes=[v])
    fl.engine.wait_all()
    return v


def generators():
    return [fl.Generator() for _ in range(5)], fl.func.vmap(fl.sin), fl.eye(4).to_sparse()


def saved_by_functions():
    class Twice(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.more = fl.ones(3)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return [Twice.apply(fl.ones(3, requires_grad=True)) for _ in range(5)]


CASES = {f.__name__: f for f in (tensors, views, history, wide_history, gradients, second_gradients, hooks, optimizer, deferred, numpys,
                                 recorded, replayed, pushed, generators, saved_by_functions)}  # fmt: skip


def free(held):
    """Without memory, in this thread."""
    refuser.refuse_memory(1)
    try:
        held.clear()
    finally:
        refuser.refuse_memory(0)


def main(name):
    warnings.simplefilter("ignore")
    refuser.refuse_calls_from(*(ctypes.c_size_t(n) for n in library()))
    for elsewhere in (False, True):
        held = [CASES[name]()]
        if isinstance(held[0], tuple) and isinstance(held[0][0], fl.lazy):
            region, *_ = held[0]
            free(held)
            region.__exit__(None, None, None)
        elif elsewhere:  # a thread whose first act this is
            thread = threading.Thread(target=free, args=(held,))
            thread.start()
            thread.join()
        else:
            free(held)
        assert not held
    gc.collect()
    assert fl.ones(3).sum().item() == 3  # all goes on
    refuser.refuse_memory(1)
    try:
        fl.ones(1 << 20) * 2
    except MemoryError:
        print("refused", refuser.refused_requests() > 0)
    finally:
        refuser.refuse_memory(0)


if __name__ == "__main__":
    main(sys.argv[1])
