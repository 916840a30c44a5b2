"""`torch.backends.cpu`."""

from flambeau import _C

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The instructions that kernels use: "DEFAULT", "AVX2" or "AVX512"."""
    name = str(_C.isa_name())
    return "AVX512" if "v4" in name else "AVX2" if "v3" in name else "DEFAULT"
