"""The order in which the weights of convolutions lie in memory."""

from __future__ import annotations

from typing import Any, TypeVar

from flambeau._no_tensor import wants_tensors
from flambeau.nn.module import Module
from flambeau.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def _convert(module: M, kinds: tuple[type[Module], ...], memory_format: Any) -> M:
    for layer in module.modules():
        if isinstance(layer, kinds):
            weight: Any = layer.weight
            weight.data = weight.detach().contiguous(memory_format=memory_format)
    return module


@wants_tensors
def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lets the weights of all convolutions of images in `module` lie in `memory_format`; other layers stay as they are.

    Example:
        >>> import flambeau as fl
        >>> layer = fl.nn.utils.convert_conv2d_weight_memory_format(fl.nn.Conv2d(4, 2, 3), fl.channels_last)
        >>> layer.weight.is_contiguous(memory_format=fl.channels_last)
        True
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


@wants_tensors
def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """The same for convolutions of volumes."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
