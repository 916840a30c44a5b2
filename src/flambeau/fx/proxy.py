"""`torch.fx.proxy`: what stands for values while PyTorch traces. Nothing is traced here: classes can be asked about, not made."""

from __future__ import annotations

from typing import Any

from flambeau.fx import Proxy, Tracer, _refused

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]


class TraceError(ValueError):
    """What PyTorch's tracer raises where a program looks at a value."""


TracerBase = Tracer


class GraphAppendingTracer(Tracer):
    """A tracer that adds to a graph; refused, as there are no graphs."""


class _Refused(Proxy):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refused(type(self).__name__)


class Attribute(_Refused):
    """An attribute of such a value; none can be made."""


class ParameterProxy(_Refused):
    """A parameter of a traced module; none can be made."""
