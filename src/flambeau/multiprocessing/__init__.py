"""Python's `multiprocessing`, through which tensors travel in shared memory, without a copy; and `spawn`.

`x.share_memory_()` and `module.share_memory()` move tensors into memory that other processes see: what one writes, the others read.
A tensor that is sent, by a queue, a pipe, a pool or as an argument of a process that is not forked, is moved there first.

Example (processes that train one model, as in Hogwild):
    >>> import flambeau as fl
    >>> import flambeau.multiprocessing as mp
    >>> model = fl.nn.Linear(2, 1).share_memory()
    >>> model.weight.is_shared()
    True
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
from multiprocessing import *  # noqa: F403

from flambeau._errors import AssertedValueError
from flambeau.multiprocessing import _sharing
from flambeau.multiprocessing._contexts import JoinableQueue, Pool, Queue, get_context  # type: ignore[assignment]
from flambeau.multiprocessing._spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies",
    "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip
__all__ += _multiprocessing.__all__  # type: ignore[attr-defined]


def get_all_sharing_strategies() -> set[str]:
    """How shared tensors travel: as descriptors of files."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """The one in use."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Takes "file_descriptor", and "file_system" with the same effect: nothing is left in the file system either way.

    Raises:
        AssertedValueError: PyTorch has no such way.
    """
    if new_strategy not in ("file_descriptor", "file_system"):
        raise AssertedValueError(f"set_sharing_strategy: {new_strategy!r}; expected 'file_descriptor' or 'file_system'")
