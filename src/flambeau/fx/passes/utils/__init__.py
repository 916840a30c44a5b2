"""Parts of graphs as modules of their own."""

from __future__ import annotations

from flambeau.fx.passes.utils.common import HolderModule, lift_subgraph_as_module

__all__ = ["HolderModule", "lift_subgraph_as_module"]
