"""`torch.utils.flop_counter`: floating point operations of what runs in a region, by the op table's formulas, for each module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau._warn import warn
from flambeau.profiler import profile
from flambeau.profiler._events import FunctionEvent

__all__ = ["FlopCounterMode"]

_SUFFIXES = ("", "K", "M", "B", "T")


def _modules_of(event: FunctionEvent) -> Iterator[str]:
    """Paths of the modules that an event ran in, the innermost first; those of backward are its forward's."""
    at: FunctionEvent | None = event
    while at is not None:
        if at.kind == "module":
            yield at.name
        at = at.forward if at.forward is not None else at.cpu_parent


class FlopCounterMode:
    """Counts while the region runs, forward and backward: in all ("Global"), and for each module that is called ("Net", "Net.layers.0").

    Ops have the names that they have here; what PyTorch counts as `aten.addmm` is a `linear`.

    Args:
        mods: not needed, as in PyTorch.
        depth: how deep the table goes into modules; None: to the end.
        display: whether the region prints its table when it ends.

    Raises:
        NotImplementedError: `custom_mapping` is given: operations are counted by the op table's formulas, which it can not add to.

    Example:
        >>> import flambeau as fl
        >>> net = fl.nn.Sequential(fl.nn.Linear(3, 4), fl.nn.ReLU(), fl.nn.Linear(4, 1))
        >>> with FlopCounterMode(depth=1) as counter:
        ...     y = net(fl.ones(2, 3))
        Module        FLOP    % Total
        ----------  ------  ---------
        Sequential      64    100.00%
         - linear       64    100.00%
        >>> counter.get_total_flops(), counter.get_flop_counts()["Sequential.0"]
        (64, {'linear': 48})
    """

    def __init__(self, mods: Any = None, depth: int | None = 2, display: bool = True, custom_mapping: Any = None) -> None:
        if custom_mapping:
            raise NotImplementedError(
                "FlopCounterMode: custom_mapping is given; operations are counted by the op table's formulas, which it can not add to"
            )
        if mods is not None:
            warn("FlopCounterMode: mods is given; modules are found as they are called, and it can be left away")
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[str, int]] = {"Global": {}}
        self._profile: Any = None

    def __enter__(self) -> FlopCounterMode:
        self._profile = profile(with_modules=True)
        self._profile.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._profile.__exit__(*exc)
        self.flop_counts = {"Global": {}}
        for event in self._profile.events():
            flops = int(event.flops - sum(child.flops for child in event.cpu_children))
            for module in {"Global", *_modules_of(event)} if flops > 0 else ():
                counts = self.flop_counts.setdefault(module, {})
                counts[event.name] = counts.get(event.name, 0) + flops
        self._profile = None
        if self.display and exc[0] is None:
            print(self.get_table())

    def get_total_flops(self) -> int:
        """All of them."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Those of each op, for each module and under "Global"."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as a table, modules to that depth; "Global" is shown where no module has all of them."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        shown = sorted(m for m in self.flop_counts if m != "Global" and (depth is None or m.count(".") < depth))
        alone = total > 0 and all(sum(self.flop_counts[module].values()) < total for module in shown)
        rows = self._rows("Global", 0, total) if alone else []
        for module in shown:
            rows += self._rows(module, module.count(".") + alone, total)
        return _table(["Module", "FLOP", "% Total"], rows or [["Global", "0", "0%"]])

    def _rows(self, module: str, indent: int, total: int) -> list[list[str]]:
        """A module's row, and those of its ops."""
        counts = self.flop_counts[module]
        named = [(module, sum(counts.values())), *((f" - {op}", n) for op, n in counts.items())]
        scale = max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))
        number = "{:.3f}" if scale else "{:.0f}"
        return [
            [" " * indent + name, number.format(n / 1000**scale) + _SUFFIXES[scale], f"{n / total:.2%}" if total else "0%"]
            for name, n in named
        ]


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Columns under their heads, the first one to the left, the others to the right."""
    widths = [max(len(head[i]) + 2, *(len(row[i]) for row in rows)) for i in range(len(head))]
    lines = [head, ["-" * w for w in widths], *rows]
    return "\n".join("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) for row in lines)
