"""What this thread is doing while a layer runs: a checkpointed forward, or the recomputation of one.

A layer with side effects asks, so that it has them once: running statistics, counters, logs. The
executor sets the flags around each call of a partition. Every thread has its own.
"""

from __future__ import annotations

import threading


class _Flags(threading.local):
    checkpointing = False
    recomputing = False


_flags = _Flags()


def is_checkpointing() -> bool:
    """Whether this thread runs a forward whose activations are dropped and computed again in backward.

    Example:
        >>> from flambeau.pipeline._flags import is_checkpointing, use_flags
        >>> with use_flags(checkpointing=True):
        ...     is_checkpointing()
        True
        >>> is_checkpointing()
        False
    """
    return _flags.checkpointing


def is_recomputing() -> bool:
    """Whether this thread computes again, in backward, what a checkpointed forward dropped.

    Example:
        >>> from flambeau.pipeline._flags import is_recomputing
        >>> is_recomputing()
        False
    """
    return _flags.recomputing


class use_flags:  # noqa: N801 (it is called as a function is)
    """Sets both flags of this thread within the scope, and restores them.

    Example:
        >>> from flambeau.pipeline._flags import is_checkpointing, is_recomputing, use_flags
        >>> with use_flags(recomputing=True):
        ...     (is_checkpointing(), is_recomputing())
        (False, True)
    """

    __slots__ = ("_before", "_flags")

    def __init__(self, *, checkpointing: bool = False, recomputing: bool = False) -> None:
        self._flags = checkpointing, recomputing

    def __enter__(self) -> None:
        self._before = _flags.checkpointing, _flags.recomputing
        _flags.checkpointing, _flags.recomputing = self._flags

    def __exit__(self, *error: object) -> None:
        _flags.checkpointing, _flags.recomputing = self._before
