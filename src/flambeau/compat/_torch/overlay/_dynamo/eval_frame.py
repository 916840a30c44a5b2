"""`torch._dynamo.eval_frame`."""

from flambeau.compiler import OptimizedModule

__all__ = ["OptimizedModule"]
