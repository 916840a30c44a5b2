"""`torch._logging`: what parts of PyTorch's compiler write, which is not here. Levels are kept for who asks, and nothing is written."""

from __future__ import annotations

from typing import Any

__all__ = ["set_logs"]

levels: dict[str, Any] = {}  # what is kept


def set_logs(*, all: Any = None, modules: dict[str, Any] | None = None, **parts: Any) -> None:  # noqa: A002
    """Keeps levels (numbers) and switches by name; a call without any forgets them.

    Raises:
        ValueError: something else than a number or a switch.
    """
    given = {**({} if all is None else {"all": all}), **(modules or {}), **{k: v for k, v in parts.items() if v is not None}}
    for name, level in given.items():
        if not isinstance(level, (bool, int)):
            raise ValueError(f"set_logs: {name} = {level!r}; expected a level of logging or a bool")
    if not given:
        levels.clear()
    levels.update(given)
