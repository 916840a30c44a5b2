"""`torch.ao.nn.intrinsic`: layers one behind the other, which a quantised model would compute at once. Each is a `Sequential` of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau._errors import AssertedTypeError
from flambeau.nn.containers import Sequential
from flambeau.nn.module import Module
from flambeau.nn.modules.activation import LeakyReLU, ReLU, Tanh
from flambeau.nn.modules.conv import Conv1d, Conv2d, Conv3d
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d",
    "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearLeakyReLU", "LinearReLU", "LinearTanh",
]  # fmt: skip


class _FusedModule(Sequential):
    """Layers of certain kinds.

    Raises:
        TypeError: one is of another kind.
    """

    _fl_kinds: Sequence[type[Module]] = ()

    def __init__(self, *layers: Any) -> None:
        found, wanted = [type(layer).__name__ for layer in layers], [kind.__name__ for kind in self._fl_kinds]
        if len(found) != len(wanted) or not all(map(isinstance, layers, self._fl_kinds)):
            raise AssertedTypeError(f"ao.nn.intrinsic.{type(self).__name__}: got {', '.join(found)}; expected {', '.join(wanted)}")
        super().__init__(*layers)


class ConvReLU1d(_FusedModule):
    """Conv1d and ReLU."""

    _fl_kinds = (Conv1d, ReLU)


class ConvReLU2d(_FusedModule):
    """Conv2d and ReLU.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.ao.nn.intrinsic import ConvReLU2d
        >>> ConvReLU2d(fl.nn.Conv2d(1, 2, 1), fl.nn.ReLU())
        ConvReLU2d(
          (0): Conv2d(1, 2, kernel_size=(1, 1), stride=(1, 1))
          (1): ReLU()
        )
    """

    _fl_kinds = (Conv2d, ReLU)


class ConvReLU3d(_FusedModule):
    """Conv3d and ReLU."""

    _fl_kinds = (Conv3d, ReLU)


class ConvBn1d(_FusedModule):
    """Conv1d and BatchNorm1d."""

    _fl_kinds = (Conv1d, BatchNorm1d)


class ConvBn2d(_FusedModule):
    """Conv2d and BatchNorm2d."""

    _fl_kinds = (Conv2d, BatchNorm2d)


class ConvBn3d(_FusedModule):
    """Conv3d and BatchNorm3d."""

    _fl_kinds = (Conv3d, BatchNorm3d)


class ConvBnReLU1d(_FusedModule):
    """Conv1d, BatchNorm1d and ReLU."""

    _fl_kinds = (Conv1d, BatchNorm1d, ReLU)


class ConvBnReLU2d(_FusedModule):
    """Conv2d, BatchNorm2d and ReLU."""

    _fl_kinds = (Conv2d, BatchNorm2d, ReLU)


class ConvBnReLU3d(_FusedModule):
    """Conv3d, BatchNorm3d and ReLU."""

    _fl_kinds = (Conv3d, BatchNorm3d, ReLU)


class BNReLU2d(_FusedModule):
    """BatchNorm2d and ReLU."""

    _fl_kinds = (BatchNorm2d, ReLU)


class BNReLU3d(_FusedModule):
    """BatchNorm3d and ReLU."""

    _fl_kinds = (BatchNorm3d, ReLU)


class LinearReLU(_FusedModule):
    """Linear and ReLU."""

    _fl_kinds = (Linear, ReLU)


class LinearBn1d(_FusedModule):
    """Linear and BatchNorm1d."""

    _fl_kinds = (Linear, BatchNorm1d)


class LinearLeakyReLU(_FusedModule):
    """Linear and LeakyReLU."""

    _fl_kinds = (Linear, LeakyReLU)


class LinearTanh(_FusedModule):
    """Linear and Tanh."""

    _fl_kinds = (Linear, Tanh)
