"""Copies of states, which `async_save` writes while the program goes on and changes the state."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from flambeau._C import Tensor
from flambeau.autograd.modes import no_grad
from flambeau.distributed.checkpoint.metadata import STATE_DICT_TYPE

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


@runtime_checkable
class AsyncStager(Protocol):
    """Makes the copy of a state that `async_save` writes. One that is made in the background is a future."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `async_save` calls `synchronize_staging` before it returns."""
        return self._synchronize_after_execute

    def stage(self, state_dict: STATE_DICT_TYPE) -> Future[STATE_DICT_TYPE] | STATE_DICT_TYPE:
        """A copy that later changes of the state do not reach."""
        raise NotImplementedError(f"{type(self).__name__} must implement stage method")

    def synchronize_staging(self) -> None:
        """Waits until the copy is there."""

    def close(self) -> None:
        """Gives back what was taken."""


@dataclass
class StagingOptions:
    """How `DefaultStager` copies.

    Args:
        use_pinned_memory: has no meaning on a CPU, as have `use_shared_memory` and `use_non_blocking_copy`.
        use_async_staging: a thread copies, and `stage` returns a future.
    """

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


def _copied(value: Any, before: Any, seen: dict[int, Any]) -> Any:
    """A copy of tensors and of the containers around them, into the tensors of an earlier copy where these fit."""
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, Tensor):
        plain = value.detach()
        fits = isinstance(before, Tensor) and before.shape == plain.shape and before.dtype == plain.dtype
        made: Any = before.copy_(plain) if fits else plain.clone()
    elif isinstance(value, Mapping):
        held = before if isinstance(before, Mapping) else {}
        made = {key: _copied(part, held.get(key), seen) for key, part in value.items()}
    elif type(value) in (list, tuple):
        olds = before if type(before) is type(value) and len(before) == len(value) else [None] * len(value)
        made = type(value)(_copied(part, old, seen) for part, old in zip(value, olds))
    else:
        made = copy.deepcopy(value)
    seen[id(value)] = made
    return made


class BlockingAsyncStager(AsyncStager):
    """Copies at once.

    Args:
        cache_staged_state_dict: copies into the same tensors each time, so that the memory is there already. Who uses that waits for one
            saving before the next begins.
        type_check: has no meaning here.
    """

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict = cache_staged_state_dict
        self.type_check = type_check
        self.state_dict_cache: STATE_DICT_TYPE | None = None

    def stage(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        with no_grad():
            made: STATE_DICT_TYPE = _copied(state_dict, self.state_dict_cache, {})
        if self.cache_staged_state_dict:
            self.state_dict_cache = made
        return made

    def synchronize_staging(self) -> None:
        pass

    def close(self) -> None:
        self.state_dict_cache = None


class DefaultStager(AsyncStager):
    """Copies at once, or in a thread of its own.

    Args:
        config: `StagingOptions`; on a CPU `use_async_staging` alone has a say. What a thread copies may not be changed before its future
            is done.
    """

    def __init__(self, config: StagingOptions | None = None) -> None:
        self._config = config or StagingOptions()
        self._executor = ThreadPoolExecutor(1, "staging") if self._config.use_async_staging else None
        self._future: Future[STATE_DICT_TYPE] | None = None

    def stage(self, state_dict: STATE_DICT_TYPE, **kwargs: Any) -> Future[STATE_DICT_TYPE] | STATE_DICT_TYPE:
        if self._executor is None:
            return self._copy(state_dict)
        self._future = self._executor.submit(self._copy, state_dict)
        return self._future

    @staticmethod
    def _copy(state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        with no_grad():
            made: STATE_DICT_TYPE = _copied(state_dict, None, {})
        return made

    def synchronize_staging(self) -> None:
        if self._future is not None:
            self._future.result()

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True)
