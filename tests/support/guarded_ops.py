"""Runs every entry of the op table on its samples, on strided copies of them, and with an axis of size 0, forward and
backward: `python -m support.guarded_ops FROM STEP` takes every STEP-th entry. A call is printed before it runs.

Meant for `FLAMBEAU_ALLOCATOR=guard` (or `guard-front`), as is guarded.py.
"""

from __future__ import annotations

import sys

import flambeau as fl
from flambeau import _C
from support.table import OPS, arrays, call, map_arrays, strided, tensors


def variants(op, index):
    """(what was done to the sample, its arguments)."""
    plain = arrays(op, index)
    yield "plain", tensors(op, plain)
    yield "strided", map_arrays(tensors(op, plain) | {k: v for k, v in plain.items() if k == op.first_tensor}, strided)
    sizes = [v.shape for v in plain.values() if hasattr(v, "shape")]
    rank = getattr(plain.get(op.first_tensor), "ndim", 0)
    for axis in range(max((len(s) for s in sizes), default=0)):
        # All tensors, those of as many axes as the first one (so that indices along another axis stay), the first one.
        for which, chosen in {
            "all": lambda name, a: True, "all of its rank": lambda name, a: a.ndim == rank, "the first": lambda name, a: name == op.first_tensor,
        }.items():  # fmt: skip

            def emptied(name, value, axis=axis, chosen=chosen):
                return map_arrays({name: value}, lambda a: a.take([], axis=axis) if a.ndim > axis and chosen(name, a) else a)[name]

            yield f"axis {axis} of {which} empty", tensors(op, {k: emptied(k, v) for k, v in plain.items()})


def leaves(args):
    for value in args.values():
        for x in value if isinstance(value, list) else [value]:
            if isinstance(x, fl.Tensor) and x.is_floating_point():
                yield x.requires_grad_()


def attempt(function):
    """What refuses its arguments is a way to end well."""
    try:
        return function()
    except (RuntimeError, TypeError, ValueError, IndexError):
        return []


def run(op, args):
    attempt(lambda: call(op, args))
    if op.get("inplace") and isinstance(args[op.first_tensor], fl.Tensor):
        attempt(lambda: getattr(_C.ops, op.name + "_")(**{k: v.clone() if k == op.first_tensor else v for k, v in args.items()}))
    list(leaves(args))
    for y in attempt(lambda: call(op, args)):
        if y.requires_grad:
            attempt(lambda y=y: (y * y).sum().backward(create_graph=True))


def main(first: int, step: int) -> None:
    fl.manual_seed(0)
    for op in OPS[first::step]:
        for index in range(len(op.get("samples", []))):
            for what, args in variants(op, index):
                print(op.ident, index, what, flush=True)
                run(op, args)
    print("whole", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
