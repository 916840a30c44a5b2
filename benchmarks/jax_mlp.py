"""The MLP of train.py beside JAX's jit and PyTorch with a fused optimizer: training throughput.

    python benchmarks/jax_mlp.py --jax PYTHON --torch PYTHON

JAX traces the whole step (forward, gradients, Adam) and compiles it; flambeau and PyTorch run eagerly. Every
measurement has a process of its own, in turn; medians over the rounds, with the lowest and the highest round.
Compiling is not counted. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import harness
import numpy as np

SIZES, BATCH = (784, 2048, 2048, 10), 128
LR, BETA1, BETA2, EPS = 1e-5, 0.9, 0.999, 1e-8
LIMIT_S = 600


def jax_step() -> Callable[[], float]:
    """A training step by JAX, compiled by its first call, that returns the loss."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    weights = [
        {
            "w": jnp.asarray(rng.uniform(-1, 1, (n, m)).astype(np.float32) / np.sqrt(n)),
            "b": jnp.zeros(m, jnp.float32),
        }
        for n, m in zip(SIZES[:-1], SIZES[1:])
    ]
    x = jnp.asarray(rng.standard_normal((BATCH, SIZES[0])).astype(np.float32))
    target = jnp.asarray(rng.integers(0, SIZES[-1], BATCH))

    def loss_of(weights: Any) -> Any:
        y = x
        for i, layer in enumerate(weights):
            y = y @ layer["w"] + layer["b"]
            if i + 1 < len(weights):
                y = jax.nn.relu(y)
        return -jnp.mean(jax.nn.log_softmax(y)[jnp.arange(BATCH), target])

    def step(weights: Any, means: Any, squares: Any, t: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(weights)
        tree_map = jax.tree_util.tree_map
        means = tree_map(lambda m, g: BETA1 * m + (1 - BETA1) * g, means, grads)
        squares = tree_map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, squares, grads)
        by, by2 = LR / (1 - BETA1**t), 1 / (1 - BETA2**t)
        weights = tree_map(
            lambda w, m, v: w - by * m / (jnp.sqrt(v * by2) + EPS), weights, means, squares
        )
        return loss, weights, means, squares

    compiled = jax.jit(step, donate_argnums=(0, 1, 2))
    zeros = jax.tree_util.tree_map(jnp.zeros_like, weights)
    state = [weights, zeros, jax.tree_util.tree_map(jnp.zeros_like, weights), 0]

    def run() -> float:
        state[3] += 1
        loss, *state[:3] = compiled(*state[:3], jnp.float32(state[3]))
        return float(loss)

    return run


def jax_process(seconds: float) -> dict[str, Any]:
    """Samples per second by JAX in this process."""
    import jax
    from models.process import MIN_STEPS, WARM_UP_S, WARM_UP_STEPS, repeat

    run = jax_step()
    first = run()
    repeat(lambda: run() and None, WARM_UP_STEPS, WARM_UP_S)
    took = repeat(lambda: run() and None, MIN_STEPS, seconds)
    last = run()
    if not last < first:
        raise RuntimeError(f"JAX's loss went from {first} to {last}; expected it to fall")
    return {"version": jax.__version__, "throughput": len(took) * BATCH / sum(took)}


def run_jax(python: str, threads: int, seconds: float) -> dict[str, Any]:
    """A process of JAX on the first `threads` processors: it has no setting for its pool."""
    processors = sorted(os.sched_getaffinity(0))[:threads]
    done = subprocess.run(
        [python, str(pathlib.Path(__file__).resolve()), "--process", "--seconds", str(seconds)],
        capture_output=True, text=True, timeout=LIMIT_S,
        preexec_fn=lambda: os.sched_setaffinity(0, processors),
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    if done.returncode != 0:
        raise harness.ChildError(done.stderr.strip())
    return json.loads(done.stdout.splitlines()[-1])


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints the table."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--jax", metavar="PYTHON", help="an interpreter that has JAX and NumPy")
    p.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch")
    p.add_argument("--rounds", type=int, default=5, help="processes per library (%(default)s)")
    p.add_argument("--seconds", type=float, default=3.0, help="per process (%(default)s)")
    p.add_argument("--threads", type=int, default=2, help="for all (%(default)s)")
    p.add_argument("--process", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args(argv)
    if args.process:
        print(json.dumps(jax_process(args.seconds)))
        return 0
    from train import run_job

    def eager(library: harness.Library, fused: bool) -> Callable[[], dict[str, Any]]:
        settings = {"channels_last": False, "fused": fused, "dtype": "float32"}
        job = {"model": "mlp", "mode": "train", "threads": args.threads, "seconds": args.seconds, "settings": settings}
        return lambda: run_job(library, job)

    runs = {"flambeau": eager(harness.Library("flambeau", "flambeau", sys.executable), False)}
    if args.torch:
        torch = harness.Library("torch", "PyTorch", args.torch)
        runs["PyTorch, fused"] = eager(torch, True)
    if args.jax:
        runs["JAX, jit"] = lambda: run_jax(args.jax, args.threads, args.seconds)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, run in runs.items():
            results[name].append(run())
    ours = statistics.median(r["throughput"] for r in results["flambeau"])
    print(f"{harness.machine()}; {args.threads} threads\n")
    print("| | version | sample/s | flambeau / this |\n| --- | --- | --- | --- |")
    for name, rounds in results.items():
        values = [r["throughput"] for r in rounds]
        middle = statistics.median(values)
        print(
            f"| {name} | {rounds[0]['version']} | {middle:.0f} ({min(values):.0f}..{max(values):.0f}) "
            f"| {ours / middle:.2f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
