"""`flambeau.func` beside `torch.func`: the same programs, in processes of their own, in turn.

    python benchmarks/func.py [--torch PYTHON] [--rounds 5] [--markdown]

A number is the median over the rounds of the least time of a call in each.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

Program = Callable[[], Any]


def _mlp(tl: Any, params: Any, x: Any) -> Any:
    for weight, bias in params[:-1]:
        x = tl.nn.functional.linear(x, weight, bias).tanh()
    return tl.nn.functional.linear(x, *params[-1])


def _layers(tl: Any, sizes: tuple[int, ...], *lead: int) -> list[Any]:
    return [(tl.randn(*lead, n, m) / m**0.5, tl.zeros(*lead, n)) for m, n in zip(sizes, sizes[1:], strict=False)]


def mlp_gradients(tl: Any) -> Program:
    """Gradients of 64 samples, one each, of an MLP 32-64-64-10."""
    params = _layers(tl, (32, 64, 64, 10))
    x, y = tl.randn(64, 32), tl.randint(0, 10, (64,))
    run = tl.func.vmap(tl.func.grad(lambda p, a, b: tl.nn.functional.cross_entropy(_mlp(tl, p, a), b)), in_dims=(None, 0, 0))
    return lambda: run(params, x, y)


def ensemble_gradients(tl: Any) -> Program:
    """Gradients of 64 MLPs 32-64-64-10, on 16 samples each."""
    params = _layers(tl, (32, 64, 64, 10), 64)
    x, y = tl.randn(64, 16, 32), tl.randint(0, 10, (64, 16))
    run = tl.func.vmap(tl.func.grad(lambda p, a, b: tl.nn.functional.cross_entropy(_mlp(tl, p, a), b)))
    return lambda: run(params, x, y)


def lenet_gradients(tl: Any) -> Program:
    """Gradients of 64 pictures, one each, of LeNet."""
    nn = tl.nn
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10),
    )  # fmt: skip
    params = {k: v.detach() for k, v in net.named_parameters()}
    x, y = tl.randn(64, 1, 28, 28), tl.randint(0, 10, (64,))

    def loss(p: Any, picture: Any, label: Any) -> Any:
        out = tl.func.functional_call(net, p, (picture.unsqueeze(0),))
        return nn.functional.cross_entropy(out, label.unsqueeze(0))

    run = tl.func.vmap(tl.func.grad(loss), in_dims=(None, 0, 0))
    return lambda: run(params, x, y)


def mlp_hessian(tl: Any) -> Program:
    """The Hessian of an MLP 20-64-64-1 by its inputs."""
    params = _layers(tl, (20, 64, 64, 1))
    x = tl.randn(20)
    run = tl.func.hessian(lambda a: _mlp(tl, params, a).sum())
    return lambda: run(x)


def mlp_jacfwd(tl: Any) -> Program:
    """The Jacobian of an MLP 20-64-64-64 by its inputs, forward mode."""
    params = _layers(tl, (20, 64, 64, 64))
    x = tl.randn(20)
    run = tl.func.jacfwd(lambda a: _mlp(tl, params, a))
    return lambda: run(x)


def mlp_jacrev(tl: Any) -> Program:
    """The same by reverse mode."""
    params = _layers(tl, (20, 64, 64, 64))
    x = tl.randn(20)
    run = tl.func.jacrev(lambda a: _mlp(tl, params, a))
    return lambda: run(x)


PROGRAMS = {f.__name__: f for f in (mlp_gradients, ensemble_gradients, lenet_gradients, mlp_hessian, mlp_jacfwd, mlp_jacrev)}


def _least_ms(run: Program) -> float:
    for _ in range(5):
        run()
    times = []
    until = time.perf_counter() + 0.7
    while time.perf_counter() < until or len(times) < 10:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def _child(module: str, name: str) -> None:
    tl = importlib.import_module(module)
    tl.manual_seed(0)
    print(json.dumps(_least_ms(PROGRAMS[name](tl))))


def _measured(python: str, module: str, name: str) -> float:
    command = [python, __file__, "--child", module, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ)
    if done.returncode != 0:
        raise RuntimeError(f"{module} failed on {name}:\n{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default=sys.executable, help="the interpreter that has PyTorch")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        _child(*args.child)
        return
    if args.markdown:
        print("| program | flambeau ms | PyTorch ms | ratio |\n|---|---|---|---|")
    for name in args.programs.split(","):
        rounds = [(_measured(sys.executable, "flambeau", name), _measured(args.torch, "torch", name)) for _ in range(args.rounds)]
        ours, theirs = (statistics.median(column) for column in zip(*rounds, strict=True))
        title = (PROGRAMS[name].__doc__ or name).rstrip(".")
        row = (title, f"{ours:.3f}", f"{theirs:.3f}", f"{ours / theirs:.2f}")
        print("| " + " | ".join(row) + " |" if args.markdown else f"{name:20} {row[1]:>10} ms {row[2]:>10} ms {row[3]:>8}", flush=True)


if __name__ == "__main__":
    main()
