"""Graphs: recorded programs, with their memory planned before they run.

A `Graph` is a list of calls of ops over buffers. It can be checked (`validate`), read (`print`, `draw`), saved and loaded,
simplified (`passes`), and its memory planned (`plan`). docs/graph.md explains all of it.

Example:
    >>> from flambeau import graph
    >>> g = graph.example()
    >>> g.plan("none").total, g.plan("arena").total
    (2560, 1024)
"""

from __future__ import annotations

from flambeau.graph import passes
from flambeau.graph._example import example
from flambeau.graph._graph import Graph
from flambeau.graph._memory import Memory
from flambeau.graph._plan import MODES, Block, InplaceRule, Place, Plan, declared, elementwise, plan
from flambeau.graph._record import record
from flambeau.graph._run import execute
from flambeau.graph._structure import (
    KINDS,
    Arg,
    Buffer,
    Draw,
    DType,
    GraphError,
    Life,
    Node,
    Ref,
    Value,
    refs_of,
)

__all__ = [
    "KINDS",
    "MODES",
    "Arg",
    "Block",
    "Buffer",
    "Draw",
    "DType",
    "Graph",
    "GraphError",
    "InplaceRule",
    "Life",
    "Memory",
    "Node",
    "Place",
    "Plan",
    "Ref",
    "Value",
    "declared",
    "elementwise",
    "example",
    "execute",
    "passes",
    "plan",
    "record",
    "refs_of",
]
