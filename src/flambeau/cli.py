"""The command line: `flambeau demo`, `bench`, `info`, `doctor`, `run` and `pipeline plan` (also `python -m flambeau`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from flambeau import __version__


def _at_least(least: int) -> Callable[[str], int]:
    """An int that is not below `least`, for argparse."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r}; expected an integer >= {least}")
        return value

    return number


def _seconds(text: str) -> float:
    """A positive number, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a positive number of seconds")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flambeau", description="A deep-learning library: a short demo and information."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo", help="train a small network on handwritten digits and draw what it predicts"
    )
    demo.add_argument(
        "--epochs", type=_at_least(1), default=30, help="passes over the data (%(default)s)"
    )
    demo.add_argument("--seed", type=_at_least(0), default=0, help="random seed (%(default)s)")
    demo.add_argument(
        "--out", default=".", help="folder for the model and the picture (%(default)s)"
    )
    demo.add_argument("--quiet", action="store_true", help="no progress bar")
    bench = commands.add_parser(
        "bench", help="measure this machine and what the library reaches of it, in about ten seconds"
    )
    bench.add_argument(
        "--seconds", type=_seconds, default=1.0, help="time for each row (%(default)s)"
    )
    commands.add_parser("info", help="print versions, processor features, threads and libraries")
    commands.add_parser("doctor", help="look for what makes programs slow or wrong on this machine, and say what to do")
    run = commands.add_parser(
        "run", help="run a program that was written for PyTorch", usage="flambeau run [--report] {FILE | -m MODULE} [ARGUMENT ...]",
        description="Runs a program with `torch` meaning flambeau. With --report it lists the names of PyTorch's that the program would "
        "miss, by reading its source and without running it; FILE may then be a folder or an installed package, too.",
    )  # fmt: skip
    run.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    pipeline = commands.add_parser("pipeline", help="plan a training step in stages")
    plan = pipeline.add_subparsers(dest="task", required=True).add_parser(
        "plan", help="measure a model's layers, simulate all schedules, and say which to take"
    )
    plan.add_argument("model", metavar="FILE:FUNCTION", help="gives a module and a sample batch, as model.py:make")
    plan.add_argument("--ranks", type=_at_least(1), required=True, help="how many work at the same time")
    plan.add_argument("--micro-batches", type=_at_least(1), default=8, help="parts of the batch (%(default)s)")
    plan.add_argument("--memory", metavar="SIZE", help="what each rank has, as 2GiB")
    plan.add_argument(
        "--param-scale", type=float, default=2.0, help="bytes held per byte of parameters, with gradients and optimizer (%(default)s)"
    )
    plan.add_argument("--seconds", type=_seconds, default=1.0, help="time for measuring (%(default)s)")
    plan.add_argument("--run", action="store_true", help="make some steps by it, and print what they took beside what was predicted")
    plan.add_argument("--draw", metavar="FILE", help="write the timeline of what should be taken, as SVG")
    return parser


def _plan(args: argparse.Namespace) -> int:
    from flambeau.pipeline import _planner

    try:
        memory = None if args.memory is None else _planner.bytes_of(args.memory)
        model, batch = _planner.load(args.model)
        layers, choices = _planner.plan(
            model, batch, ranks=args.ranks, micro_batches=args.micro_batches, memory=memory,
            param_scale=args.param_scale, seconds=args.seconds,
        )  # fmt: skip
    except (TypeError, ValueError) as fault:
        print(f"flambeau pipeline plan: {fault}", file=sys.stderr)
        return 2
    for line in _planner.report(layers, choices, args.micro_batches, memory):
        print(line)
    if args.draw:
        choices[0].timeline.draw(args.draw)
    if args.run:
        print()
        for line in _planner.try_out(model, batch, choices[0], args.micro_batches):
            print(line)
    return 0


def _run(words: list[str]) -> int:
    """`flambeau run`, whose options end where the program's own arguments begin, as with Python itself."""
    report = words[:1] == ["--report"]
    rest = words[1:] if report else words
    module = rest[:1] == ["-m"]
    rest = rest[1:] if module else rest
    if not rest or rest[0].startswith("-"):
        _parser().error(f"run: got {rest[0] if rest else 'nothing'}; expected a Python file, or -m MODULE")
    try:
        if report:
            from flambeau.compat._torch.report import report as write_report

            return write_report(rest[0])
        from flambeau.compat._torch import run as runner

        runner.check(rest[0], module)
    except FileNotFoundError as fault:
        print(fault, file=sys.stderr)
        return 2
    return runner.run(rest[0], rest[1:], module)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["run"] and words[1:] and words[1] not in ("-h", "--help"):
        return _run(words[1:])
    args = _parser().parse_args(words)
    if args.command == "info":
        from flambeau import show_config

        print(show_config())
        return 0
    if args.command == "doctor":
        from flambeau import _doctor

        return _doctor.main()
    if args.command == "bench":
        from flambeau import _bench

        _bench.run(args.seconds)
        return 0
    if args.command == "run":
        _parser().error("run: expected a Python file, or -m MODULE")
    if args.command == "pipeline":
        return _plan(args)
    from flambeau._demo import run

    result = run(epochs=args.epochs, seed=args.seed, folder=args.out, quiet=args.quiet)
    return 0 if result.same_after_reload else 1
