"""`torch.fx.graph_module`: modules of traced graphs, of which there are none."""

from flambeau.fx import GraphModule

__all__ = ["GraphModule"]
