"""`memory_summary`: what the allocator holds, and who owns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau import _C
from flambeau._units import bytes_text

if TYPE_CHECKING:
    from flambeau.nn import Module


def memory_summary(model: Module | None = None, row_limit: int = 20) -> str:
    """Memory as a table: bytes in use and held, now and at most, and counts of the allocator.

    With a model, also its largest owners: bytes of the parameters, gradients and buffers that each module
    holds itself. What several modules share counts for the first.

    Example:
        >>> import flambeau as fl
        >>> print(fl.memory_summary(fl.nn.Linear(256, 256)))  # doctest: +SKIP

    Raises:
        TypeError: `model` is no Module.
    """
    from flambeau.profiler._averages import layout

    stats = _C.memory_stats()
    rows = [
        ["allocated", bytes_text(stats["allocated_bytes"]), bytes_text(stats["peak_allocated_bytes"])],
        ["reserved", bytes_text(stats["reserved_bytes"]), bytes_text(stats["peak_reserved_bytes"])],
    ]
    foot = [
        f"{stats['allocations']} allocations, {stats['frees']} frees, {stats['segments']} segments, "
        f"{stats['retries']} retries after giving back what was cached"
    ]
    text = layout(["Memory of the CPU", "Now", "Peak"], rows, None, foot)
    if model is None:
        return text
    from flambeau.nn import Module

    if not isinstance(model, Module):
        raise TypeError(f"memory_summary: model is a {type(model).__name__}; expected a Module or None")
    owners = []
    seen: set[int] = set()
    total = [0, 0, 0]
    for name, module in model.named_modules():
        held = [0, 0, 0]
        for param in module.parameters(recurse=False):
            if id(param) not in seen:
                seen.add(id(param))
                held[0] += param.numel() * param.itemsize
                held[1] += 0 if param.grad is None else param.grad.numel() * param.grad.itemsize
        for buffer in module.buffers(recurse=False):
            if id(buffer) not in seen:
                seen.add(id(buffer))
                held[2] += buffer.numel() * buffer.itemsize
        total = [a + b for a, b in zip(total, held)]
        if any(held):
            path = f"{type(model).__name__}.{name}" if name else type(model).__name__
            owners.append((sum(held), path, type(module).__name__, held))
    owners.sort(key=lambda o: -o[0])
    lines = [
        [path, kind, *(bytes_text(b) if b else "--" for b in held), bytes_text(every)]
        for every, path, kind, held in owners[:row_limit]
    ]
    foot = [f"All {len(owners)} owners: {bytes_text(sum(total))}, {bytes_text(total[0])} of them parameters, "
            f"{bytes_text(total[1])} gradients, {bytes_text(total[2])} buffers"]  # fmt: skip
    return text + "\n\n" + layout(["Module", "Type", "Parameters", "Gradients", "Buffers", "Together"], lines, None, foot)
