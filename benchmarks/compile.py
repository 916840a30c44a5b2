"""Compiled functions beside eager ones, and beside PyTorch's: the same programs, in processes of their own, in turn.

    python benchmarks/compile.py [--torch PYTHON] [--programs mlp,lstm] [--rounds 5] [--markdown]

Each program is written once. flambeau runs it eagerly, recorded at every call (`compile`), and replayed (`mode="replay"`); PyTorch
eagerly and by `torch.compile`. Predictions of whole models (`resnet50-32`: for 32 samples) are replayed with batch norms folded
(`mode="predict"`); training steps of whole models (`train-gpt`) have columns for memory and for the first call, too, one for replays that
keep as little as they can (`least`, an activation_memory_budget of 0), and one for PyTorch as a careful user sets it (fused optimizers,
channels_last for pictures). A number is the median over the rounds of the least time of a call in each.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

Program = tuple[Callable[..., Any], tuple[Any, ...]]
OURS = ("eager", "compile", "replay")
TRAINED = (*OURS, "least")  # the last replays with an activation_memory_budget of 0
PREDICTING = ("eager", "replay", "predict")
THEIRS = ("eager", "compile")
TRAINING = ("alexnet", "vgg19", "resnet50", "mobilenet", "unet", "dcgan", "mlp", "ncf", "gnmt", "lstm_lm", "gpt")
THEIRS_IN_TRAINING = ("eager", "tuned", "compile")
WARM_UP = {"train": 3}  # calls before those that are timed; five for other programs


def chain(tl: Any) -> Program:
    """Ten element-wise ops over 16 M elements."""

    def f(x: Any, y: Any) -> Any:
        for _ in range(5):
            x = x * 1.0001 + y
        return x

    return f, (tl.randn(1 << 24), tl.randn(1 << 24))


def mlp(tl: Any) -> Program:
    """A training step of a network 64 wide with Adam."""
    nn = tl.nn
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = tl.optim.Adam(model.parameters(), 1e-3)

    def f(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return f, (tl.randn(16, 64), tl.randint(0, 10, (16,)))


def lstm(tl: Any) -> Program:
    """Twenty steps of an LSTM cell in a loop of Python."""
    cell = tl.nn.LSTMCell(32, 32)

    def f(xs: Any) -> Any:
        h, c = tl.zeros(8, 32), tl.zeros(8, 32)
        with tl.no_grad():
            for x in xs:
                h, c = cell(x, (h, c))
        return h

    return f, (tl.randn(20, 8, 32),)


def actor_critic(tl: Any) -> Program:
    """A step of an actor and a critic that share a layer, on a batch of transitions."""
    nn, functional = tl.nn, tl.nn.functional
    shared, actor, critic = nn.Linear(8, 128), nn.Linear(128, 4), nn.Linear(128, 1)
    optimizer = tl.optim.Adam([*shared.parameters(), *actor.parameters(), *critic.parameters()], 3e-3)

    def f(states: Any, actions: Any, returns: Any) -> Any:
        optimizer.zero_grad()
        h = functional.relu(shared(states))
        log_p = functional.log_softmax(actor(h), -1).gather(1, actions).squeeze(1)
        value = critic(h).squeeze(1)
        advantage = returns - value.detach()
        loss = -(log_p * advantage).mean() + functional.smooth_l1_loss(value, returns)
        loss.backward()
        optimizer.step()
        return loss

    return f, (tl.randn(32, 8), tl.randint(0, 4, (32, 1)), tl.randn(32))


def sgd(tl: Any) -> Program:
    """SGD with momentum over 100 parameters, written with tensor ops. Gradients are so small that no number becomes denormal."""
    parameters = [tl.randn(32, 32) for _ in range(100)]
    momenta = [tl.zeros(32, 32) for _ in range(100)]

    def f(scale: Any) -> Any:
        with tl.no_grad():
            for p, m in zip(parameters, momenta, strict=True):
                m.mul_(0.9).add_(p * scale)
                p.sub_(m * 0.01)
        return scale * 1

    return f, (tl.tensor(1e-6),)


def resnet_block(tl: Any) -> Program:
    """Prediction by two convolutions with batch norm and a shortcut."""
    nn = tl.nn
    body = nn.Sequential(
        nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64)
    ).eval()

    def f(x: Any) -> Any:
        with tl.no_grad():
            return (body(x) + x).relu()

    return f, (tl.randn(4, 64, 28, 28),)


def whole_model(tl: Any, model: str, batch: int | None = None, tuned: bool = False) -> Any:
    """A model of `models/`; without a batch, of the size that it is trained with."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    from models import program_named
    from models.program import Settings

    kind = program_named(model)
    return kind(tl, batch or kind.batch, Settings(channels_last=tuned and kind.images, fused=tuned))


def prediction(model: str, batch: int) -> Callable[[Any], Program]:
    """Of a model of `models/`, with statistics of one training step."""

    def make(tl: Any) -> Program:
        program = whole_model(tl, model, batch)
        program.step()
        program.train(False)
        network = next(iter(program.modules.values()))

        def f(*inputs: Any) -> Any:
            with tl.no_grad():
                return network(*inputs)

        return f, program.inputs

    return make


PROGRAMS: dict[str, Callable[[Any], Program]] = {f.__name__: f for f in (chain, mlp, lstm, actor_critic, sgd, resnet_block)}
PREDICTIONS = {f"{model}-{batch}": prediction(model, batch) for model in ("resnet50", "mobilenet", "unet", "gpt") for batch in (1, 32)}


def measure(library: str, variant: str, name: str, seconds: float, threads: int) -> list[float]:
    """In this process: milliseconds of a call, the least in that time, and of the first one; MB that all of it took beyond the library."""
    tl = importlib.import_module(library)
    tl.set_num_threads(threads)
    tl.manual_seed(0)
    before = resident_mb()
    kind, _, model = name.partition("-")
    if kind == "train":
        program = whole_model(tl, model, tuned=variant == "tuned")
        f, args = program.step, ()
        if (library, variant) == ("torch", "compile"):  # as its documentation does: the model, not the step around it
            for module in program.modules.values():
                module.compile()
    else:
        f, args = (PROGRAMS | PREDICTIONS)[name](tl)
    if variant in ("replay", "predict"):
        f = tl.compile(f, mode=variant)
    elif variant == "least":
        f = tl.compile(f, mode="replay", options={"activation_memory_budget": 0})
    elif variant == "compile" and (library == "flambeau" or kind != "train"):
        f = tl.compile(f)
    start = time.perf_counter()
    f(*args)
    first = time.perf_counter() - start
    for _ in range(WARM_UP.get(kind, 5)):
        f(*args)
    if variant in ("replay", "predict", "least") and "replayed" not in tl.compiler.explain(f):
        raise SystemExit(tl.compiler.explain(f))
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        f(*args)
        best = min(best, time.perf_counter() - start)
    return [best * 1e3, first * 1e3, resident_mb("VmHWM") - before]


def resident_mb(field: str = "VmRSS") -> float:
    """Of this process, now or (VmHWM) at most."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"/proc/self/status has no {field}")


def in_process(python: str, library: str, variant: str, name: str, options: argparse.Namespace) -> list[float]:
    """The same, in a process of its own; NaN where it fails."""
    order = json.dumps([library, variant, name, options.seconds, options.threads])
    count = {key: str(options.threads) for key in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run([python, __file__, "--measure", order], capture_output=True, text=True, env=os.environ | count)
    if done.returncode != 0:
        print(f"{library}, {variant}, {name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return [float("nan")] * 3
    return [float(number) for number in json.loads(done.stdout.splitlines()[-1])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each variant in each round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*json.loads(options.measure))))
        return
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import harness

    names = options.programs.split(",")
    training = [f"train-{model}" for model in TRAINING]
    if unknown := [name for name in names if name not in (*PROGRAMS, *PREDICTIONS, *training)]:
        parser.error(f"there is no program {unknown[0]!r}; there are {', '.join((*PROGRAMS, *PREDICTIONS, *training))}")
    print(f"{harness.machine()}; {options.threads} threads; median of {options.rounds} rounds (least, most)")
    table([name for name in names if name in PROGRAMS], OURS, options)
    table([name for name in names if name in PREDICTIONS], PREDICTING, options)
    training_table([name for name in names if name in training], options)


def table(names: list[str], ours: tuple[str, ...], options: argparse.Namespace) -> None:
    """A line a program; the last of our variants is compared with PyTorch's."""
    if not names:
        return
    variants = [(sys.executable, "flambeau", v) for v in ours]
    if options.torch:
        variants += [(options.torch, "torch", v) for v in THEIRS]
    heads = ["", *(f"{library} {v}, ms" for _, library, v in variants), *(f"eager / {v}" for v in ours[1:])]
    if options.torch:
        heads += [f"PyTorch / {ours[-1]}", f"torch.compile / {ours[-1]}"]
    line = "| {} |" if options.markdown else "{}"
    print("\n" + line.format((" | " if options.markdown else "  ").join(heads)))
    if options.markdown:
        print("|" + "---|" * len(heads))
    for name in names:
        rounds = [[in_process(python, library, v, name, options)[0] for python, library, v in variants] for _ in range(options.rounds)]
        times = [statistics.median(column) for column in zip(*rounds, strict=True)]
        spread = [f"{t:.4g} ({min(c):.4g}, {max(c):.4g})" for t, c in zip(times, zip(*rounds, strict=True), strict=True)]
        ratios = [times[0] / times[1], times[0] / times[2], *(t / times[2] for t in times[3:])]
        print(line.format((" | " if options.markdown else "  ").join([name, *spread, *(f"{r:.2f}" for r in ratios)])), flush=True)


def training_table(names: list[str], options: argparse.Namespace) -> None:
    """A line a model: times, and of our replay what it is beside eager mode and beside the best of PyTorch."""
    if not names:
        return
    variants = [(sys.executable, "flambeau", v) for v in TRAINED]
    if options.torch:
        variants += [(options.torch, "torch", v) for v in THEIRS_IN_TRAINING]
    heads = ["", *(f"{library} {v}, ms" for _, library, v in variants), *(f"eager / {v}" for v in TRAINED[1:])]
    heads += ["best of PyTorch / replay"] if options.torch else []
    heads += ["memory, replay / eager", "least / eager", "first call of replay / of eager"]
    line = "| {} |" if options.markdown else "{}"
    between = " | " if options.markdown else "  "
    print("\n" + line.format(between.join(heads)))
    if options.markdown:
        print("|" + "---|" * len(heads))
    kept: list[list[float]] = []
    for name in names:
        rounds = [[in_process(python, library, v, name, options) for python, library, v in variants] for _ in range(options.rounds)]
        times, firsts, memory = ([statistics.median(r[k][what] for r in rounds) for k in range(len(variants))] for what in range(3))
        spread = [f"{t:.4g} ({min(r[k][0] for r in rounds):.4g}, {max(r[k][0] for r in rounds):.4g})" for k, t in enumerate(times)]
        ratios = [times[0] / t for t in times[1 : len(TRAINED)]]
        ratios += [min(t for t in times[len(TRAINED) :] if t == t) / times[2]] if options.torch else []
        ratios += [memory[2] / memory[0], memory[3] / memory[0], firsts[2] / firsts[0]]
        kept.append(ratios)
        print(line.format(between.join([name, *spread, *(f"{r:.2f}" for r in ratios)])), flush=True)
    means = [statistics.geometric_mean([r for r in column if r == r]) for column in zip(*kept, strict=True)]
    print(line.format(between.join(["geometric mean", *[""] * len(variants), *(f"{m:.2f}" for m in means)])))


if __name__ == "__main__":
    main()
