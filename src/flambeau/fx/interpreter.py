"""`torch.fx.interpreter`: what runs traced graphs, of which there are none."""

from flambeau.fx import Interpreter, Transformer

__all__ = ["Interpreter", "Transformer"]
