"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from flambeau import _C
from flambeau._C import ShapeError, Tensor, ops
from flambeau._warn import warn
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.functional._norm import check_eps
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

# Note [Functions that programs replace]
_batch_norm, _layer_norm, _group_norm, _rms_norm = F.batch_norm, F.layer_norm, F.group_norm, F.rms_norm


class _Affine(Module):
    """A layer with a scale `weight` and a shift `bias`, of which each may be None."""

    weight: Parameter | None
    bias: Parameter | None

    def _fl_add_affine(self, shape: tuple[int, ...], affine: bool, bias: bool, **options: Any) -> None:
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(ops.empty(*shape, **options)) if wanted else None)

    def reset_parameters(self) -> None:
        """Sets weight to 1 and bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _NormBase(_Affine):
    """What batch and instance norm share: affine parameters and running statistics."""

    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    _version = 2
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _fl_ranks: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._fl_add_affine((num_features,), affine, bias, device=device, dtype=dtype)
        for name, fill in (("running_mean", ops.zeros), ("running_var", ops.ones)):
            tracked = (
                fill(num_features, device=device, dtype=dtype) if track_running_stats else None
            )
            self.register_buffer(name, tracked)
        counter = ops.zeros((), dtype=_C.int64, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", counter)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Sets mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def reset_parameters(self) -> None:
        """Resets statistics, weight to 1 and bias to 0."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        """Raises for a number of axes that the layer does not take; subclasses of programs say which they take."""
        if not self._fl_ranks:
            raise NotImplementedError(f"{type(self).__name__} defines no _check_input_dim, which says of how many axes inputs are")
        if input.dim() not in self._fl_ranks:
            ranks = " or ".join(f"{r}D" for r in self._fl_ranks)
            raise ShapeError(f"{type(self).__name__}: expected {ranks} input (got {input.dim()}D input): shape {list(input.shape)}")

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        # Files from before version 2 have no counter: it stays what it is.
        key = prefix + "num_batches_tracked"
        version = local_metadata.get("version")
        if self.track_running_stats and key not in state_dict and (version is None or version < 2):
            counter = self.num_batches_tracked
            state_dict[key] = ops.zeros((), dtype=_C.int64) if counter is None or counter.is_meta else counter
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    _fl_checks = True  # by itself, without a call where the input has one of `_fl_ranks`

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_check_input_dim" in vars(cls):
            cls._fl_checks = False

    def forward(self, input: Tensor) -> Tensor:
        if not self._fl_checks or input.dim() not in self._fl_ranks:
            self._check_input_dim(input)
        buffers, params = self._buffers, self._parameters
        # Attributes where they are parametrized or pruned.
        mean = buffers["running_mean"] if "running_mean" in buffers else self.running_mean
        var = buffers["running_var"] if "running_var" in buffers else self.running_var
        momentum = self.momentum
        training = self.training
        if training:
            counter = buffers.get("num_batches_tracked")
            if self.track_running_stats and counter is not None:
                counter.add_(1)
                if momentum is None:  # the cumulative average
                    momentum = 1.0 / float(counter.item())
            if input.numel() == input.shape[1]:
                raise ShapeError(
                    f"{type(self).__name__}: Expected more than 1 value per channel when training, but input has shape "
                    f"{list(input.shape)} (use a larger batch or .eval())"
                )
            if not self.track_running_stats:
                mean = var = None
        elif mean is None or var is None:
            training = True
        weight = params["weight"] if "weight" in params else self.weight
        bias = params["bias"] if "bias" in params else self.bias
        check_eps(type(self).__name__, self.eps, training)
        batch_norm = ops.batch_norm if F.batch_norm is _batch_norm else F.batch_norm
        return batch_norm(input, mean, var, weight, bias, training, momentum or 0.0, self.eps)


class BatchNorm1d(_BatchNorm):
    """Normalises every channel over batch and positions.

    Shape: [N, C] or [N, C, L].

    Source: Ioffe and Szegedy 2015, algorithm 1.
    """

    _fl_ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises every channel over batch and positions.

    `momentum=None` keeps the plain average of all batches.

    Shape: [N, C, H, W].

    Raises:
        ValueError: a wrong number of dimensions, or one value per channel in training.

    Source: Ioffe and Szegedy 2015, algorithm 1.

    >>> import flambeau as fl
    >>> fl.nn.BatchNorm2d(3)(fl.ones(2, 3, 4, 4)).shape
    flambeau.Size([2, 3, 4, 4])
    """

    _fl_ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises every channel over batch and positions.

    Shape: [N, C, D, H, W].

    Source: Ioffe and Szegedy 2015, algorithm 1.
    """

    _fl_ranks = (5,)


class _InstanceNorm(_NormBase):
    def _get_no_batch_dim(self) -> int:
        """The number of axes of an input without a batch."""
        if not self._fl_ranks:
            raise NotImplementedError(f"{type(self).__name__} defines no _get_no_batch_dim, the number of axes of an input without a batch")
        return self._fl_ranks[0]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _fl_other_channels(self, input: Tensor) -> None:
        """Without parameters and statistics the layer has nothing for which the number of channels matters."""
        other = f"{type(self).__name__}: input has shape {list(input.shape)}"
        if self.affine or self.track_running_stats:
            batched = input.dim() == self._fl_ranks[-1]
            channels = input.shape[int(batched)]
            raise ShapeError(
                f"{other}; expected input's size at dim={int(batched)} to match num_features ({self.num_features}), but got: {channels}"
            )
        warn(f"{other}, which does not match num_features = {self.num_features}; without affine and track_running_stats that is not used")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = input.dim() == self._get_no_batch_dim()
        x = input.unsqueeze(0) if unbatched else input
        if x.shape[1] != self.num_features:
            self._fl_other_channels(input)
        use_input = self.training or not self.track_running_stats
        y = F.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            use_input,
            self.momentum or 0.0,
            self.eps,
        )
        return y.squeeze(0) if unbatched else y


class InstanceNorm1d(_InstanceNorm):
    """Normalises every channel of every sample.

    Shape: [C, L] or [N, C, L].

    Source: Ulyanov et al. 2016.
    """

    _fl_ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises every channel of every sample.

    Shape: [C, H, W] or [N, C, H, W].

    Source: Ulyanov et al. 2016.
    """

    _fl_ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises every channel of every sample.

    Shape: [C, D, H, W] or [N, C, D, H, W].

    Source: Ulyanov et al. 2016.
    """

    _fl_ranks = (4, 5)


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    shape = (int(normalized_shape),) if isinstance(normalized_shape, (int, Integral)) else tuple(normalized_shape)
    if not shape:
        raise ShapeError(f"normalized_shape = {normalized_shape!r}; expected at least one size")
    return shape


class LayerNorm(_Affine):
    """Normalises over the last dimensions, then scales and shifts.

    Shape: [*, *normalized_shape].

    Source: Ba et al. 2016, eq. 4.

    Example:
        >>> import flambeau as fl
        >>> fl.nn.LayerNorm(2)(fl.tensor([[1.0, 3.0]]))
        tensor([[-1.0000,  1.0000]], grad_fn=<NativeLayerNormBackward0>)
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._fl_add_affine(self.normalized_shape, elementwise_affine, bias, device=device, dtype=dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        p = self._parameters
        weight = p["weight"] if "weight" in p else self.weight
        bias = p["bias"] if "bias" in p else self.bias
        layer_norm = ops.layer_norm if F.layer_norm is _layer_norm else F.layer_norm
        return layer_norm(input, self.normalized_shape, weight, bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Divides by the root mean square over the last dimensions, then scales.

    `eps=None` takes the machine epsilon of the dtype that is computed in, float32 for inputs of 16 bits.

    Shape: [*, *normalized_shape].

    Source: Zhang and Sennrich 2019, eq. 4.
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(ops.empty(*self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets weight to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        p = self._parameters
        weight = p["weight"] if "weight" in p else self.weight
        rms_norm = ops.rms_norm if F.rms_norm is _rms_norm else F.rms_norm
        return rms_norm(x, self.normalized_shape, weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """Normalises groups of channels of every sample, then scales and shifts every channel.

    Shape: [N, C, *].

    Raises:
        ValueError: the channels do not divide by the groups.

    Source: Wu and He 2018.
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._fl_add_affine((num_channels,), affine, bias, device=device, dtype=dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        p = self._parameters
        weight = p["weight"] if "weight" in p else self.weight
        bias = p["bias"] if "bias" in p else self.bias
        group_norm = ops.group_norm if F.group_norm is _group_norm else F.group_norm
        return group_norm(input, self.num_groups, weight, bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divides by a local sum of squares over neighbouring channels.

    Source: Krizhevsky et al. 2012, section 3.3.
    """

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """The older `LocalResponseNorm` of pictures, with PyTorch's sums: over the channels nearer than (size + 1) // 2, and over the first
    channel for those that are farther from it.

    Shape: input [N, C, H, W], output the same.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = (self.size + 1) // 2
        squares = input * input
        padded = ops.pad(squares.reshape(input.shape[0], 1, input.shape[1], -1), (0, 0, reach - 1, reach - 1), "constant", 0)
        sums = ops.avg_pool2d(padded, (2 * reach - 1, 1), 1, 0, False, True).reshape(input.shape) * (2 * reach - 1)
        if input.shape[1] > reach:
            sums = ops.cat([sums[:, :reach], sums[:, reach:] + squares[:, :1]], 1)
        return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta
