"""The command line: `flambeau demo`, `flambeau bench` and `flambeau info` (also `python -m flambeau`)."""

from __future__ import annotations

import argparse
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
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    args = _parser().parse_args(argv)
    if args.command == "info":
        from flambeau import show_config

        print(show_config())
        return 0
    if args.command == "bench":
        from flambeau import _bench

        _bench.run(args.seconds)
        return 0
    from flambeau._demo import run

    result = run(epochs=args.epochs, seed=args.seed, folder=args.out, quiet=args.quiet)
    return 0 if result.same_after_reload else 1
