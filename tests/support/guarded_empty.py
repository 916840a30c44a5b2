"""Every op that works along an axis, of tensors without elements: `FLAMBEAU_ALLOCATOR=guard python guarded_empty.py`."""

from __future__ import annotations

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "tools")]

from fuzz.catalogue import catalogue  # noqa: E402

import flambeau as fl  # noqa: E402

SHAPES = ((0,), (1, 0), (0, 1), (3, 0), (0, 3), (2, 0, 3), (3, 2, 0), (1, 2, 4, 0, 8), (5, 1, 0, 0, 0))


def calls():
    """(what it is, the call) of every op whose other arguments have defaults, and of its gradient."""
    for target in catalogue().targets:
        needed = [p.name for p in target.parameters if p.required]
        if not target.name.startswith(("fl.", ".")) or "dim" not in {p.name for p in target.parameters} or set(needed) - {"x", "input", "dim", "k", "q"}:
            continue
        for shape in SHAPES:
            for dim in range(len(shape)):
                for dtype in (fl.float32, fl.float64, fl.int64, fl.bool):
                    yield f"{target.name} of {shape} along {dim}, {dtype}", target.name, shape, {"dim": dim, **{n: 1 for n in needed if n in "kq"}}, dtype


def main() -> None:
    count = 0
    for what, name, shape, arguments, dtype in calls():
        print(what, flush=True)
        x = fl.empty(shape, dtype=dtype, requires_grad=dtype.is_floating_point)
        try:
            y = getattr(x.detach(), name[1:])(**arguments) if name.startswith(".") else getattr(fl, name[3:])(x, **arguments)
            for part in y if isinstance(y, tuple) else (y,):
                if isinstance(part, fl.Tensor) and part.requires_grad:
                    part.sum().backward(retain_graph=True)
        except (ValueError, TypeError, RuntimeError, IndexError):
            continue
        count += 1
    print(count, "calls")


if __name__ == "__main__":
    main()
