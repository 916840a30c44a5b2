"""What watches values to choose the scale of their integers. The base can be derived from; PyTorch's own observers are refused, as they
give scales of quantised tensors, of which there are none."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

from flambeau._C import Tensor
from flambeau.nn.module import Module

__all__ = [
    "FixedQParamsObserver", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver",
    "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver", "PlaceholderObserver", "RecordingObserver",
]  # fmt: skip


class _Made:
    """A class with arguments that it will be made with; calling this makes an instance."""

    def __init__(self, make: functools.partial[Any]) -> None:
        self.p = make
        self.later: dict[str, Callable[[], Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.p(*args, **({name: make() for name, make in self.later.items() if name not in kwargs} | kwargs))

    def __repr__(self) -> str:
        return repr(self.p) + (repr(self.later) if self.later else "")

    def with_args(self, **kwargs: Any) -> _Made:
        """The same with further arguments."""
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs: Callable[[], Any]) -> _Made:
        """The same with further arguments, each of which a function gives when an instance is made."""
        made = _with_args(self)
        made.later = self.later | kwargs
        return made


def _with_args(made: Any, **kwargs: Any) -> _Made:
    return _Made(functools.partial(made, **kwargs))


class Makes:
    """Classes that are handed on with arguments for the instances to come."""

    @classmethod
    def with_args(cls, **kwargs: Any) -> _Made:
        """What makes an instance with these arguments when it is called."""
        return _with_args(cls, **kwargs)

    @classmethod
    def with_callable_args(cls, **kwargs: Callable[[], Any]) -> _Made:
        """What makes an instance with arguments that functions give when it is called."""
        return _with_args(cls).with_callable_args(**kwargs)


class ObserverBase(Makes, ABC, Module):
    """An observer: `forward` looks at a tensor and returns it, `calculate_qparams` tells the scale and the zero point."""

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Looks at x."""

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Scale and zero point of what was seen."""


class _Refused(ObserverBase):
    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: there are no quantised tensors."""
        raise NotImplementedError(f"ao.quantization.{type(self).__name__}: there are no quantised tensors in flambeau")

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **kwargs: Any) -> Any:
        return None


class MinMaxObserver(_Refused):
    """Refused when one is made: there are no quantised tensors."""


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Refused when one is made: there are no quantised tensors."""


class PerChannelMinMaxObserver(_Refused):
    """Refused when one is made: there are no quantised tensors."""


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Refused when one is made: there are no quantised tensors."""


class HistogramObserver(_Refused):
    """Refused when one is made: there are no quantised tensors."""


class FixedQParamsObserver(_Refused):
    """Refused when one is made: there are no quantised tensors."""


class PlaceholderObserver(_Refused):
    """Refused when one is made: there are no quantised tensors."""


class NoopObserver(_Refused):
    """Refused when one is made: there are no quantised tensors."""


class RecordingObserver(_Refused):
    """Refused when one is made: there are no quantised tensors."""
