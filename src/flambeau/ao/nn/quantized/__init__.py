"""`torch.ao.nn.quantized`."""

from flambeau.nn.quantized import (
    BatchNorm2d,
    BatchNorm3d,
    Conv1d,
    Conv2d,
    Conv3d,
    Embedding,
    EmbeddingBag,
    FloatFunctional,
    LayerNorm,
    Linear,
)

__all__ = [
    "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "FloatFunctional", "LayerNorm", "Linear",
]  # fmt: skip
