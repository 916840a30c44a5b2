"""Which data pipes a data pipe is made of."""

from __future__ import annotations

from typing import Any

from flambeau.utils.data.datapipes._base import IterDataPipe, MapDataPipe
from flambeau.utils.data.datapipes.iter import _Branches

__all__ = ["traverse_dps"]

Graph = dict[int, tuple[Any, Any]]  # id of a pipe -> the pipe, and the graph of its sources


def traverse_dps(datapipe: Any) -> Graph:
    """The pipe and its sources: {id: (pipe, {id of a source: (source, ...)})}.

    Attributes of pipes are looked at, and what is in lists, tuples and dicts of them.
    """
    return _graph(datapipe, set())


def _graph(pipe: Any, above: set[int]) -> Graph:
    if id(pipe) in above:
        return {}
    below: Graph = {}
    for value in vars(pipe).values():
        for source in _pipes(value):
            below.update(_graph(source, above | {id(pipe)}))
    return {id(pipe): (pipe, below)}


def _pipes(value: Any) -> list[Any]:
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        return [value]
    if isinstance(value, _Branches):
        return _pipes(value.source)
    if isinstance(value, dict):
        value = list(value.values())
    return [pipe for item in value for pipe in _pipes(item)] if isinstance(value, (list, tuple)) else []
