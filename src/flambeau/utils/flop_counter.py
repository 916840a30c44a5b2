"""`torch.utils.flop_counter`: floating point operations of what runs in a region, by the op table's formulas."""

from __future__ import annotations

from typing import Any

from flambeau.profiler import profile

__all__ = ["FlopCounterMode"]


class FlopCounterMode:
    """Counts while the region runs, forward and backward. Ops are not told apart by modules: `mods` and `depth` have no say.

    >>> import flambeau as fl
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = fl.ones(2, 3) @ fl.ones(3, 4)
    >>> counter.get_total_flops()
    48
    """

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None) -> None:
        if custom_mapping:
            raise NotImplementedError(
                "FlopCounterMode: custom_mapping is given; operations are counted by the op table's formulas, which it can not add to"
            )
        self.display = display
        self._profile: Any = None
        self._counts: dict[str, int] = {}

    def __enter__(self) -> FlopCounterMode:
        self._profile = profile()
        self._profile.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._profile.__exit__(*exc)
        self._counts = {row.key: int(row.self_flops) for row in self._profile.key_averages() if row.self_flops}
        if self.display and exc[0] is None:
            print(self.get_table())

    def get_total_flops(self) -> int:
        """All of them."""
        return sum(self._counts.values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Those of each op, under "Global"."""
        return {"Global": dict(self._counts)}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text."""
        return "\n".join(f"{name:40} {count:>16,}" for name, count in sorted(self._counts.items(), key=lambda item: -item[1]))
