"""`torch.utils.data.datapipes.datapipe`: pipes in envelopes, as loaders of packages send them to processes."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Iterator
from typing import Any

from flambeau.utils.data.datapipes._base import IterDataPipe, MapDataPipe


class _DataPipeSerializationWrapper:
    """A pipe that is pickled as one object: by dill, where pickle can not and dill is installed."""

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __getstate__(self) -> tuple[bytes, bool]:
        try:
            return pickle.dumps(self._datapipe), False
        except Exception:
            if importlib.util.find_spec("dill") is None:
                raise
            return importlib.import_module("dill").dumps(self._datapipe), True

    def __setstate__(self, state: tuple[bytes, bool]) -> None:
        content, by_dill = state
        if by_dill:
            self._datapipe = importlib.import_module("dill").loads(content)
        else:
            self._datapipe = pickle.loads(content)

    def __len__(self) -> int:
        try:
            return len(self._datapipe)
        except Exception as error:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length") from error


class _IterDataPipeSerializationWrapper(_DataPipeSerializationWrapper, IterDataPipe):
    """The same of a pipe that is iterated."""

    def __init__(self, datapipe: Any) -> None:
        super().__init__(datapipe)
        self._datapipe_iter: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        self._datapipe_iter = iter(self._datapipe)
        return self

    def __next__(self) -> Any:
        if self._datapipe_iter is None:
            raise AssertionError("Iterator has not been initialized; call __iter__() before __next__()")
        return next(self._datapipe_iter)


class _MapDataPipeSerializationWrapper(_DataPipeSerializationWrapper, MapDataPipe):
    """The same of a pipe with `__getitem__`."""

    def __getitem__(self, index: Any) -> Any:
        return self._datapipe[index]
