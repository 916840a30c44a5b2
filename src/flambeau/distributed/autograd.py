"""`torch.distributed.autograd`: backward passes over several processes, which are not here."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["context", "is_available"]


def is_available() -> bool:
    """False: calls of functions in other processes, whose graphs it would join, are not here."""
    return False


class context:  # noqa: N801
    """A backward pass over several processes; none can be entered.

    Raises:
        RuntimeError: when it is entered.
    """

    def __enter__(self) -> NoReturn:
        raise RuntimeError("distributed.autograd.context: there are no calls of functions in other processes here; call backward() itself")

    def __exit__(self, *exc: Any) -> None:
        return None
