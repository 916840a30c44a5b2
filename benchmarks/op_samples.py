"""Times every entry of PyTorch's own sample database (`op_db`) in both libraries: small tensors, so that what is seen is what a call costs.

    PYTHONPATH=build/torch:tests/parity:tests python benchmarks/op_samples.py
    PYTHONPATH=build/torch:tests/parity:tests python benchmarks/op_samples.py --backward --names grid_sample ctc_loss

Both libraries run in one process on one thread, turn about; `make parity` puts PyTorch into build/torch. Printed are the geometric mean
of ours over theirs and the calls above `--above`. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SAMPLES = 3  # of an entry
ROUND_S = 0.004  # a round of one side; there are two


@dataclass
class Timed:
    """One call; seconds in ours and theirs."""

    name: str
    shapes: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def fastest(call: Callable[[], object]) -> float:
    """Seconds of the fastest of some calls; short ones are timed in groups."""
    call()
    begin = time.perf_counter()
    call()
    group = max(1, min(200, int(2e-4 / max(time.perf_counter() - begin, 1e-7))))
    best, end = float("inf"), time.perf_counter() + ROUND_S
    while True:
        begin = time.perf_counter()
        for _ in range(group):
            call()
        now = time.perf_counter()
        best = min(best, (now - begin) / group)
        if now > end:
            return best


def backward_of(lib: Any, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Callable[[], object] | None:
    """The call with its gradients, of ones; None where there are none."""
    from compare import flat

    def results() -> list[Any]:
        return [t for t in flat(f(*args, **kwargs)) if getattr(t, "requires_grad", False)]

    ones = [lib.ones_like(t) for t in results()]
    return (lambda: lib.autograd.backward(results(), ones)) if ones else None


def timed(name: str, backward: bool, wanted: Sequence[str]) -> Iterator[Timed]:
    """The samples of an entry that both sides take, of the first of the wanted types that it has."""
    from beside import torch
    from samples import op_db, ours_of, spread, tensors, theirs_of, translated

    import flambeau as fl

    op = op_db()[name]
    have = op.supported_backward_dtypes("cpu") if backward else op.supported_dtypes("cpu")
    dtype = next((t for t in (getattr(torch, w) for w in wanted) if t in have), None)
    if dtype is None or (backward and not op.supports_autograd):
        return
    try:
        f = translated(op.op, op.name)
        torch.manual_seed(0)
        samples = spread(op.sample_inputs("cpu", dtype, requires_grad=backward))
    except Exception as error:  # what has no counterpart is the parity tests' business
        print(f"{name}: {error}", file=sys.stderr)
        return
    for sample in samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]:
        here = ours_of([sample.input, *sample.args], backward), ours_of(sample.kwargs, backward)
        there = theirs_of([sample.input, *sample.args], backward), theirs_of(sample.kwargs, backward)
        try:
            ours: Any = backward_of(fl, f, *here) if backward else lambda f=f, here=here: f(*here[0], **here[1])
            theirs: Any = backward_of(torch, op.op, *there) if backward else lambda op=op, there=there: op.op(*there[0], **there[1])
            if ours is None or theirs is None:
                continue
            pairs = [(fastest(ours), fastest(theirs)) for _ in range(2)]
        except Exception as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        shapes = " ".join(str(list(t.shape)) for t in tensors([sample.input, sample.args]))
        yield Timed(name, shapes[:60], min(a for a, _ in pairs), min(b for _, b in pairs))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--names", nargs="*", help="entries whose names contain one of these")
    p.add_argument("--backward", action="store_true", help="with gradients")
    p.add_argument("--dtypes", nargs="+", default=["float32", "int64"], help="the first that an entry takes (default float32 int64)")
    p.add_argument("--above", type=float, default=1.15, help="print the calls whose ratio is above this (default 1.15)")
    args = p.parse_args(argv)

    from beside import torch
    from samples import op_db

    import flambeau as fl

    warnings.simplefilter("ignore")
    fl.set_num_threads(1)
    torch.set_num_threads(1)
    names = sorted(n for n in op_db() if not args.names or any(part in n for part in args.names))
    rows = [row for name in names for row in timed(name, args.backward, args.dtypes)]
    if not rows:
        print("no call that both libraries take")
        return 1
    mean = statistics.geometric_mean(r.ratio for r in rows)
    print(f"{len(rows)} calls of {len(names)} entries, ours / theirs: geometric mean {mean:.3f}")
    print("\n| call | shapes | flambeau, us | PyTorch, us | ratio |\n| --- | --- | --- | --- | --- |")
    for r in sorted(rows, key=lambda r: -r.ratio):
        if r.ratio > args.above:
            print(f"| {r.name} | {r.shapes} | {r.ours * 1e6:.1f} | {r.theirs * 1e6:.1f} | {r.ratio:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
