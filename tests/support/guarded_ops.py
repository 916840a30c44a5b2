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
    for axis in range(max((len(s) for s in sizes), default=0)):
        for every in (True, False):  # tensors, or the first one

            def emptied(a, axis=axis):
                return a if a.ndim <= axis else a.take([], axis=axis)

            changed = {k: map_arrays({k: v}, emptied)[k] if every or k == op.first_tensor else v for k, v in plain.items()}
            yield f"axis {axis} of {'all' if every else 'the first'} empty", tensors(op, changed)


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
