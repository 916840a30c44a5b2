"""Where each intermediate buffer of a graph will lie, before anything runs.

`plan` decides in three steps, each in a file of its own:

    _rules.py    which output takes the place of which operand, because the op allows it and the operand dies there
    _blocks.py   blocks from a pool, matched by size: the two heuristics of the MXNet paper (arXiv 1512.01274, section 3.1)
    _arena.py    offsets in one arena, by the intervals in which memory is in use

and `_edges.py` says what must not run in parallel any more because it shares memory now.
"""

from __future__ import annotations

from flambeau.graph._plan._planner import MODES, Block, Place, Plan, plan
from flambeau.graph._plan._rules import InplaceRule, declared, elementwise

__all__ = ["MODES", "Block", "InplaceRule", "Place", "Plan", "declared", "elementwise", "plan"]
