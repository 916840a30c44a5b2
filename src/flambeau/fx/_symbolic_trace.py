"""`torch.fx._symbolic_trace`: PyTorch's tracer, which is not here."""

from flambeau.fx import Tracer, symbolic_trace, wrap

__all__ = ["Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]


def is_fx_tracing() -> bool:
    """False: nothing is traced."""
    return False
