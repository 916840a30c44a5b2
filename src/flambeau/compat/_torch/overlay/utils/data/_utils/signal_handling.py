"""`torch.utils.data._utils.signal_handling`: PyTorch's handlers for signals of workers. None are installed here.

A loader with processes asks every few seconds whether they live, and says itself which one ended; what the handlers add is that it says so at once.
"""

from __future__ import annotations

from collections.abc import Iterable


def _set_worker_signal_handlers() -> None:
    """Leaves a worker the handlers that it has."""


def _set_worker_pids(loader_id: int, pids: Iterable[int]) -> None:
    """Nothing looks after these processes besides the loader."""


def _remove_worker_pids(loader_id: int) -> None:
    """Nothing was noted of them."""


def _set_SIGCHLD_handler() -> None:  # noqa: N802
    """Leaves the program the handler that it has."""
