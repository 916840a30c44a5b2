"""Layers that learn their number of input features from the first input.

Until then their parameters are `UninitializedParameter`s, on the meta device, so that no op takes them for numbers. The
first call, or a state dict with known shapes, makes them what the layer's class without 'Lazy' has, and the layer one of it.
An optimizer may hold the parameters before: they stay the same objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau._C import ShapeError, Tensor
from flambeau.autograd import no_grad
from flambeau.nn.module import Module
from flambeau.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from flambeau.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin:
    """What makes a module lazy: in front of the class it is to become, in a subclass that defines `initialize_parameters`."""

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fl_watch()

    def _fl_watch(self: Any) -> None:
        self._initialize_hook = self.register_forward_pre_hook(_infer, with_kwargs=True)
        self._load_hook = self.register_load_state_dict_pre_hook(_materialize)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Gives parameters the shapes that the first input wants."""
        raise NotImplementedError(f"{type(self).__name__} does not define initialize_parameters")

    def has_uninitialized_params(self: Any) -> bool:
        """Whether there are parameters or buffers without a shape."""
        return any(is_lazy(t) for t in (*self._parameters.values(), *self._buffers.values()))

    def reset_parameters(self: Any) -> None:
        """Draws new initial values, once shapes are known."""
        if "_initialize_hook" in self.__dict__ and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]


def _infer(module: Any, args: Any, kwargs: Any) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"{type(module).__name__}: initialize_parameters left parameters without a shape")
    for name in ("_initialize_hook", "_load_hook"):
        module.__dict__.pop(name).remove()
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def _materialize(module: Any, state_dict: Any, prefix: str, *rest: Any) -> None:
    for name, own in (*module._parameters.items(), *module._buffers.items()):
        given = state_dict.get(prefix + name)
        if is_lazy(own) and isinstance(given, Tensor) and not is_lazy(given):
            own.materialize(given.shape)


def _make_lazy(module: Any, device: Any, dtype: Any, parameters: tuple[str, ...], buffers: tuple[str, ...] = ()) -> None:
    for name in parameters:
        if module._parameters.get(name) is not None:
            module._parameters[name] = UninitializedParameter(device=device, dtype=dtype)
    for name in buffers:
        if module._buffers.get(name) is not None:
            module._buffers[name] = UninitializedBuffer(device=device, dtype=dtype)


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose in_features is the size of the first input's last axis.

    >>> import flambeau as fl
    >>> layer = fl.nn.LazyLinear(2)
    >>> layer(fl.zeros(3, 5)).shape, layer
    (flambeau.Size([3, 2]), Linear(in_features=5, out_features=2, bias=True))
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, out_features, bias, device, dtype)
        _make_lazy(self, device, dtype, ("weight", "bias"))

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))  # type: ignore[attr-defined]
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))  # type: ignore[attr-defined]
                self.reset_parameters()
        elif self.in_features == 0:  # a state dict has said it
            self.in_features = self.weight.shape[-1]


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution whose in_channels is the number of the first input's channels."""

    def __init__(
        self, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)
        _make_lazy(self, device, dtype, ("weight", "bias"))

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            if self.in_channels == 0:  # a state dict has said it
                self.in_channels = self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups
            return
        name, axes = type(self).__name__, self._fl_n
        if input.ndim not in (axes + 1, axes + 2):
            raise ShapeError(
                f"Expected {axes + 1}D (unbatched) or {axes + 2}D (batched) input to {name}, but got input of size: {list(input.shape)}"
            )
        channels = input.shape[-axes - 1]
        if channels % self.groups:
            raise ShapeError(f"{name}: in_channels must be divisible by groups, got {channels} and {self.groups}")
        with no_grad():
            self.in_channels = channels
            out = self.out_channels // self.groups if self.transposed else self.out_channels
            lead = (channels, out) if self.transposed else (out, channels // self.groups)
            self.weight.materialize((*lead, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


class _LazyTransposed(_LazyConvXdMixin):
    """The same of a transposed one, whose arguments have another order."""

    def __init__(
        self, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1,
        bias: bool = True, dilation: int | Sequence[int] = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        made = super(_LazyConvXdMixin, self).__init__
        made(0, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode, device, dtype)
        _make_lazy(self, device, dtype, ("weight", "bias"))


class LazyConv1d(_LazyConvXdMixin, Conv1d):
    """`Conv1d` whose in_channels comes from the first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvXdMixin, Conv2d):
    """`Conv2d` whose in_channels comes from the first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvXdMixin, Conv3d):
    """`Conv3d` whose in_channels comes from the first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """`ConvTranspose1d` whose in_channels comes from the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """`ConvTranspose2d` whose in_channels comes from the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """`ConvTranspose3d` whose in_channels comes from the first input."""

    cls_to_become = ConvTranspose3d


class _LazyNormBase(LazyModuleMixin):
    """A normalisation whose num_features is the number of the first input's channels."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        _make_lazy(self, device, dtype, ("weight", "bias"), ("running_mean", "running_var"))

    def initialize_parameters(self: Any, input: Tensor) -> None:  # type: ignore[override]
        own = [t for t in (self.weight, self.bias, self.running_mean, self.running_var) if t is not None]
        if not any(is_lazy(t) for t in own):
            if self.num_features == 0:
                self.num_features = own[0].shape[0] if own else self._fl_channels(input)
            return
        with no_grad():
            self.num_features = self._fl_channels(input)
            for tensor in own:
                tensor.materialize((self.num_features,))
            self.reset_parameters()

    def _fl_channels(self: Any, input: Tensor) -> int:
        if input.ndim < 2:
            raise ShapeError(f"{type(self).__name__}: input has shape {list(input.shape)}; expected channels")
        unbatched = isinstance(self, (InstanceNorm1d, InstanceNorm2d, InstanceNorm3d)) and input.ndim == min(self._fl_ranks)
        return int(input.shape[0] if unbatched else input.shape[1])


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """`BatchNorm1d` whose num_features comes from the first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """`BatchNorm2d` whose num_features comes from the first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """`BatchNorm3d` whose num_features comes from the first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """`InstanceNorm1d` whose num_features comes from the first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """`InstanceNorm2d` whose num_features comes from the first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """`InstanceNorm3d` whose num_features comes from the first input."""

    cls_to_become = InstanceNorm3d
