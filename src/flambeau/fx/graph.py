"""`torch.fx.graph`: graphs, of which there are none."""

from flambeau.fx import Graph

__all__ = ["Graph"]
