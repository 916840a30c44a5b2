"""Passes: functions from a graph to a simpler one that computes the same.

Each is a file of its own with a picture of before and after; each may be run alone, gives the same result every time, and
changes nothing when it is run on its own result.
"""

from __future__ import annotations

from flambeau.graph._graph import Graph
from flambeau.graph.passes._cse import cse as cse
from flambeau.graph.passes._inplace_sums import inplace_sums as inplace_sums
from flambeau.graph.passes._prune import prune as prune
from flambeau.graph.passes._rewrite import Effects

__all__ = ["cse", "inplace_sums", "prune", "run"]

_prune, _cse, _inplace_sums = prune, cse, inplace_sums


def run(
    graph: Graph, *, effects: Effects = (), prune: bool = True, cse: bool = True, inplace_sums: bool = True
) -> Graph:
    """Runs the passes in order, without those that are switched off.

    Args:
        effects: ops that may neither be left out nor merged, since they draw random numbers or are opaque.

    >>> from flambeau import graph
    >>> graph.passes.run(graph.example(), inplace_sums=False) == graph.example()
    True
    """
    if prune:
        graph = _prune(graph, effects)
    if cse:
        graph = _cse(graph, effects)
    if inplace_sums:
        graph = _inplace_sums(graph)
    return graph
