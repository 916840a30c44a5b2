"""`torch.ao.nn.quantized`."""

import flambeau.nn  # noqa: F401 whole, before its parts: another thread may be importing it, and they would be half made
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
