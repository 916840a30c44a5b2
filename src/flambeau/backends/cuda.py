"""CUDA's switches. There is no CUDA backend."""


class _Matmul:
    """How a GPU multiplies matrices."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True


matmul = _Matmul()


def is_built() -> bool:
    """False: this build has no CUDA backend."""
    return False
