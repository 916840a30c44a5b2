"""`torch._dynamo.eval_frame`."""

from flambeau.compat._torch.overlay._dynamo import is_dynamo_supported
from flambeau.compiler import OptimizedModule

__all__ = ["OptimizedModule", "is_dynamo_supported"]
