"""What watches values to choose the scale of their integers, as `FakeQuantize` and programs that round by hand use it.

There are no quantised tensors, so that types of integers (`torch.qint8`) and schemes (`torch.per_tensor_affine`) are known by
their names."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

from flambeau._C import Tensor, float32, int8, int32, int64, ops, uint8
from flambeau._from_data import tensor
from flambeau._warn import warn
from flambeau.nn.module import Module

__all__ = [
    "FixedQParamsObserver", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver",
    "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver", "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver",
    "default_debug_observer", "default_dynamic_quant_observer", "default_float_qparams_observer", "default_histogram_observer",
    "default_observer", "default_per_channel_weight_observer", "default_placeholder_observer", "default_reuse_input_observer",
    "default_weight_observer",
]  # fmt: skip


class _Made:
    """A class with arguments that it will be made with; calling this makes an instance."""

    def __init__(self, make: functools.partial[Any]) -> None:
        self.p = make
        self.later: dict[str, Callable[[], Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.p(*args, **({name: make() for name, make in self.later.items() if name not in kwargs} | kwargs))

    def __repr__(self) -> str:
        return repr(self.p) + (repr(self.later) if self.later else "")

    def with_args(self, **kwargs: Any) -> _Made:
        """The same with further arguments."""
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs: Callable[[], Any]) -> _Made:
        """The same with further arguments, each of which a function gives when an instance is made."""
        made = _with_args(self)
        made.later = self.later | kwargs
        return made


def _with_args(made: Any, **kwargs: Any) -> _Made:
    return _Made(functools.partial(made, **kwargs))


class Makes:
    """Classes that are handed on with arguments for the instances to come."""

    @classmethod
    def with_args(cls, **kwargs: Any) -> _Made:
        """What makes an instance with these arguments when it is called."""
        return _with_args(cls, **kwargs)

    @classmethod
    def with_callable_args(cls, **kwargs: Callable[[], Any]) -> _Made:
        """What makes an instance with arguments that functions give when it is called."""
        return _with_args(cls).with_callable_args(**kwargs)


class ObserverBase(Makes, ABC, Module):
    """An observer: `forward` looks at a tensor and returns it, `calculate_qparams` tells the scale and the zero point."""

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Looks at x."""

    @abstractmethod
    def calculate_qparams(self, **kwargs: Any) -> Any:
        """Scale and zero point of what was seen."""


EPS = 2.0**-23
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1), "int32": (-(2**31), 2**31 - 1)}
RANGES |= {"qint8": RANGES["int8"], "quint8": RANGES["uint8"], "qint32": RANGES["int32"]}
MIDDLES = {"uint8": 128, "quint8": 128, "uint16": 2**15}  # zero points of symmetric scales


def said(value: Any) -> str:
    """The name of a type or a scheme, given itself or as a text."""
    return str(value).rpartition(".")[2]


def _range(op: str, dtype: Any, reduce_range: bool, quant_min: int | None, quant_max: int | None) -> tuple[int, int]:
    if (quant_min is None) != (quant_max is None):
        raise ValueError(f"{op}: quant_min = {quant_min}, quant_max = {quant_max}; expected both, or neither")
    if quant_min is not None and quant_max is not None:
        if not quant_min < quant_max or not quant_min <= 0 <= quant_max:
            raise ValueError(f"{op}: quant_min = {quant_min}, quant_max = {quant_max}; expected quant_min < quant_max, with 0 among them")
        return (quant_min // 2, quant_max // 2) if reduce_range else (quant_min, quant_max)
    low, high = RANGES.get(said(dtype), (0, 15))
    halved = reduce_range and said(dtype) in ("int8", "uint8", "qint8", "quint8")
    return (low // 2, high // 2) if halved else (low, high)


class _Watches(ObserverBase):
    """Keeps `min_val` and `max_val`, and makes a scale and a zero point of them."""

    min_val: Tensor
    max_val: Tensor
    eps: Tensor
    _fl_schemes: tuple[str, ...] = ()

    def __init__(
        self, dtype: Any, qscheme: Any, reduce_range: bool, quant_min: int | None, quant_max: int | None, eps: float, is_dynamic: bool
    ) -> None:
        super().__init__(dtype, is_dynamic)
        op = f"ao.quantization.{type(self).__name__}"
        if said(qscheme) not in self._fl_schemes:
            raise NotImplementedError(f"{op}: qscheme = {qscheme}; expected {' or '.join(self._fl_schemes)}")
        if is_dynamic and isinstance(self, (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)):
            raise NotImplementedError(f"{op}: is_dynamic = True; an average of what was seen is none of the last value")
        symmetric = said(qscheme).endswith("symmetric") and said(dtype) in ("uint8", "quint8")
        if reduce_range and symmetric and not isinstance(self, HistogramObserver):
            raise NotImplementedError(f"{op}: cannot reduce range for symmetric quantization of {said(dtype)}; leave out reduce_range")
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.has_customized_qrange = quant_min is not None
        self.quant_min, self.quant_max = _range(op, dtype, reduce_range, quant_min, quant_max)
        self.register_buffer("eps", tensor([eps]))

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """(scale, zero point), one of each or one for each channel; 1 and 0, with a warning, where nothing was seen.

        Raises:
            ValueError: the least value is above the largest.
        """
        return self._fl_qparams(self.min_val, self.max_val)

    def _fl_qparams(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        if low.numel() == 0 or (low.numel() == 1 and low.item() == float("inf") and high.item() == float("-inf")):
            warn(f"ao.quantization.{type(self).__name__}: calculate_qparams before anything was seen; scale = 1 and zero_point = 0")
            return tensor([1.0]), tensor([0])
        if not bool((low <= high).all()):
            raise ValueError(f"ao.quantization.{type(self).__name__}: min_val = {low.tolist()} is above max_val = {high.tolist()}")
        low_or_0, high_or_0 = low.clamp(max=0), high.clamp(min=0)
        steps, eps = self.quant_max - self.quant_min, self.eps.to(low.device)
        scheme = said(self.qscheme)
        zero: Tensor
        if scheme.endswith("symmetric"):
            scale = ops.maximum(ops.maximum(-low_or_0, high_or_0) / (steps / 2), eps)
            middle = MIDDLES.get(said(self.dtype), 0)
            if middle and self.has_customized_qrange:
                middle = (self.quant_min + self.quant_max) // 2
            zero = ops.full(scale.shape, middle, dtype=int64, device=low.device)
        elif scheme == "per_channel_affine_float_qparams":
            scale = (high - low) / steps
            scale = ops.where(scale > eps, scale, ops.ones_like(scale))
            zero = -low / scale
        else:
            scale = ops.maximum((high_or_0 - low_or_0) / steps, eps)
            zero = (self.quant_min - ops.round(low_or_0 / scale).to(int32)).clamp(self.quant_min, self.quant_max)
        return scale.reshape(-1), zero.reshape(-1)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _fl_seen(self, low: Tensor, high: Tensor) -> None:
        """Takes what the last tensor had into account."""
        self._fl_put(ops.minimum(low, self.min_val), ops.maximum(high, self.max_val))

    def _fl_put(self, low: Tensor, high: Tensor) -> None:
        self.min_val.resize_(low.shape)
        self.max_val.resize_(high.shape)
        self.min_val.copy_(low)
        self.max_val.copy_(high)


class _Averages(_Watches):
    """Moves by a part of the way to what the last tensor had."""

    averaging_constant: float

    def _fl_seen(self, low: Tensor, high: Tensor) -> None:
        part = self.averaging_constant
        self._fl_put(self.min_val + part * (low - self.min_val), self.max_val + part * (high - self.max_val))


class MinMaxObserver(_Watches):
    """The least and the largest value of all tensors that it was given.

    Args:
        dtype: the integers that the scale is for; 8 bits without a sign.
        qscheme: per_tensor_affine or per_tensor_symmetric, the latter with 0 in the middle.
        reduce_range: one bit less.
        quant_min, quant_max: a range other than the type's.

    Raises:
        NotImplementedError: another scheme.
        ValueError: half a range, or one without 0.

    Example:
        >>> import flambeau as fl
        >>> watch = fl.ao.quantization.MinMaxObserver()
        >>> _ = watch(fl.tensor([-1.0, 1.55]))
        >>> watch.calculate_qparams()
        (tensor([0.0100]), tensor([100], dtype=flambeau.int32))
    """

    _fl_schemes = ("per_tensor_affine", "per_tensor_symmetric")

    def __init__(
        self, dtype: Any = uint8, qscheme: Any = "per_tensor_affine", reduce_range: bool = False, quant_min: int | None = None,
        quant_max: int | None = None, factory_kwargs: Any = None, eps: float = EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic)
        made = factory_kwargs or {}
        self.register_buffer("min_val", tensor(float("inf"), **made))
        self.register_buffer("max_val", tensor(float("-inf"), **made))

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            low, high = ops.aminmax(x_orig.detach().to(self.min_val.dtype))
            if self.min_val.item() == float("inf") and self.max_val.item() == float("-inf"):
                self._fl_put(low, high)
            else:
                self._fl_seen(low, high)
        return x_orig

    def reset_min_max_vals(self) -> None:
        """Forgets what it saw."""
        self.min_val.fill_(float("inf"))
        self.max_val.fill_(float("-inf"))


class MovingAverageMinMaxObserver(_Averages, MinMaxObserver):
    """As `MinMaxObserver`, with moving averages: each tensor counts by `averaging_constant`."""

    def __init__(self, dtype: Any = uint8, qscheme: Any = "per_tensor_affine", averaging_constant: float = 0.01, **kwargs: Any) -> None:
        super().__init__(dtype, qscheme, **kwargs)
        self.averaging_constant = averaging_constant


class PerChannelMinMaxObserver(_Watches):
    """As `MinMaxObserver`, for each place along `ch_axis`.

    Raises:
        NotImplementedError: a scheme other than per_channel_affine, per_channel_symmetric and per_channel_affine_float_qparams.
    """

    _fl_schemes = ("per_channel_affine", "per_channel_symmetric", "per_channel_affine_float_qparams")

    def __init__(
        self, ch_axis: int = 0, dtype: Any = uint8, qscheme: Any = "per_channel_affine", reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: Any = None, eps: float = EPS, is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic)
        self.ch_axis, made = ch_axis, factory_kwargs or {}
        self.register_buffer("min_val", tensor([], **made))
        self.register_buffer("max_val", tensor([], **made))

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            x = x_orig.detach().movedim(self.ch_axis, 0).to(self.min_val.dtype).flatten(1)
            low, high = ops.aminmax(x, dim=1)
            if self.min_val.numel():
                self._fl_seen(low, high)
            else:
                self._fl_put(low, high)
        return x_orig

    def reset_min_max_vals(self) -> None:
        """Forgets what it saw."""
        self.min_val, self.max_val = self.min_val.new_empty((0,)), self.max_val.new_empty((0,))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        for name in ("min_val", "max_val"):  # as many channels as were saved
            if (saved := state_dict.get(prefix + name)) is not None:
                setattr(self, name, getattr(self, name).new_empty(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


class MovingAveragePerChannelMinMaxObserver(_Averages, PerChannelMinMaxObserver):
    """As `PerChannelMinMaxObserver`, with moving averages: each tensor counts by `averaging_constant`."""

    def __init__(
        self, averaging_constant: float = 0.01, ch_axis: int = 0, dtype: Any = uint8, qscheme: Any = "per_channel_affine", **kwargs: Any
    ) -> None:
        super().__init__(ch_axis, dtype, qscheme, **kwargs)
        self.averaging_constant = averaging_constant


class HistogramObserver(_Watches):
    """A histogram of all that it was given; the scale is for the range in which rounding loses least.

    The range is narrowed from its ends by whole bins, always at the end where fewer bins hold a share of the values, while the sum of
    squared errors goes down that 256 steps of the type over the narrower range would make (Caffe2's approximate L2 minimisation). A wider
    range than before takes over the old histogram, each bin as 16 thin ones by their middles.

    Args:
        bins: of the histogram.
        dtype, qscheme, reduce_range, quant_min, quant_max: as of `MinMaxObserver`.

    Example:
        >>> import flambeau as fl
        >>> watch = fl.ao.quantization.HistogramObserver(bins=8)
        >>> _ = watch(fl.tensor([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]))
        >>> watch.histogram
        tensor([1., 1., 1., 1., 1., 1., 1., 2.])
    """

    histogram: Tensor
    _fl_schemes = ("per_tensor_affine", "per_tensor_symmetric")
    _FINER = 16  # bins in the place of one, where it goes to a wider range
    _STEP = 1e-5  # of the share of values that is left out

    def __init__(
        self, bins: int = 2048, dtype: Any = uint8, qscheme: Any = "per_tensor_affine", reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: Any = None, eps: float = EPS, is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if is_dynamic:
            raise NotImplementedError("ao.quantization.HistogramObserver: is_dynamic = True; a histogram is none of the last value alone")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic)
        made = factory_kwargs or {}
        self.bins, self.dst_nbins, self.upsample_rate = bins, self._fl_steps(), self._FINER
        self.register_buffer("histogram", ops.zeros((bins,), **made))
        self.register_buffer("min_val", tensor(float("inf"), **made))
        self.register_buffer("max_val", tensor(float("-inf"), **made))

    def _fl_steps(self) -> int:
        low, high = RANGES.get(said(self.dtype), (0, 255))
        return high - low + 1

    def forward(self, x_orig: Tensor) -> Tensor:
        if not x_orig.numel():
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype).reshape(-1)
        low, high = ops.aminmax(x)
        if float("-inf") == low.item() or high.item() == float("inf"):
            warn("ao.quantization.HistogramObserver: a tensor has infinite values, which are left out")
            x = x[x.abs() != float("inf")]
            if not x.numel():
                return x_orig
            low, high = ops.aminmax(x)
        seen = self.min_val.item() <= self.max_val.item()
        before, kept = (self.min_val.clone(), self.max_val.clone()), self.histogram
        if seen:
            low, high = ops.minimum(low, before[0]), ops.maximum(high, before[1])
        found = ops.histc(x, self.bins, low.item(), high.item())
        if seen:
            found = found + (kept if bool((low == before[0]) & (high == before[1])) else self._fl_widened(kept, before, low, high))
        self.histogram.copy_(found)
        self._fl_put(low, high)
        return x_orig

    def _fl_widened(self, histogram: Tensor, range: tuple[Tensor, Tensor], low: Tensor, high: Tensor) -> Tensor:
        """The histogram of a range as one of a wider range."""
        first, last = range
        if bool(first == last):
            return ops.histc(first, self.bins, low.item(), high.item()) * histogram.sum()
        count = self.bins * self._FINER
        width = (last - first) / count
        middles = ops.linspace(first.item(), last.item(), count + 1)[:-1] + 0.5 * width
        edges = ops.linspace(low.item(), high.item(), self.bins + 1)
        bins = ops.bucketize(middles, edges, right=True) - 1
        return ops.bincount(bins, ops.repeat_interleave(histogram, self._FINER) / self._FINER, self.bins).to(histogram.dtype)

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """(scale, zero point) for the range that loses least; 1 and 0, with a warning, where nothing was seen."""
        if self.min_val.item() == float("inf") and self.max_val.item() == float("-inf"):
            return self._fl_qparams(self.min_val, self.max_val)
        return self._fl_qparams(*self._fl_range())

    def _fl_range(self) -> tuple[Tensor, Tensor]:
        """The least and the largest value that are not to be cut off."""
        width = (self.max_val - self.min_val) / self.bins
        sums = ops.cumsum(self.histogram, 0).tolist()
        total = self.histogram.sum().item()
        left, right = 0.0, 1.0  # shares of the values that are below and above of what may be cut off
        start, end, least = 0, self.bins - 1, float("inf")
        while left < right:
            first, last = start, end
            while first < end and sums[first] < (left + self._STEP) * total:
                first += 1
            while last > start and sums[last] > (right - self._STEP) * total:
                last -= 1
            if first - start > end - last:
                left, narrower = left + self._STEP, (first, end)
            else:
                right, narrower = right - self._STEP, (start, last)
            if narrower == (start, end):
                continue
            error = self._fl_error(*narrower)
            if error > least:
                break
            least, (start, end) = error, narrower
        return self.min_val + width * start, self.min_val + width * (end + 1)

    def _fl_error(self, start: int, end: int) -> float:
        """The sum of squared errors of values that are spread evenly over their bins, with the steps over bins from start to end."""
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        step = width * (end - start + 1) / self.dst_nbins
        if step == 0:
            return 0.0
        begins = (ops.arange(self.bins, dtype=float32) - start) * width  # of bins, from where steps begin
        ends = begins + width

        def step_of(x: Tensor) -> Tensor:
            return ops.floor(x / step).clamp(0, self.dst_nbins - 1)

        def cubes(x: Tensor) -> Tensor:
            return x * x * x

        first, last = step_of(begins), step_of(ends)
        half = step / 2
        # From where a bin begins to the end of its first step, all steps between, and from the beginning of its last step to its end.
        error = half**3 - cubes(begins - (first + 0.5) * step)
        error = error + (last - first - 1) * (2 * half**3)
        error = error + cubes(ends - (last + 0.5) * step) + half**3
        return float((error * self.histogram / (3 * width)).sum().item())

    def reset_min_max_vals(self) -> None:
        """Forgets what it saw."""
        self.min_val.fill_(float("inf"))
        self.max_val.fill_(float("-inf"))
        self.histogram.zero_()


class FixedQParamsObserver(ObserverBase):
    """A scale and a zero point that are known, whatever it sees."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, dtype: Any = uint8, qscheme: Any = "per_tensor_affine", quant_min: int = 0,
        quant_max: int = 255, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.qscheme, self.quant_min, self.quant_max = qscheme, quant_min, quant_max
        self.register_buffer("scale", tensor([float(scale)]))
        self.register_buffer("zero_point", tensor([int(zero_point)], dtype=int32))

    def forward(self, X: Tensor) -> Tensor:  # noqa: N803
        return X

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Watches nothing: what it is asked for is a type. It has no scale.

    Raises:
        NotImplementedError: `calculate_qparams` is called.
    """

    def __init__(
        self, dtype: Any = float32, custom_op_name: str = "", compute_dtype: Any = None, quant_min: int | None = None,
        quant_max: int | None = None, qscheme: Any = None, eps: float | None = None, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic or compute_dtype is not None)
        self.dtype, self.custom_op = compute_dtype or dtype, custom_op_name
        self.quant_min, self.quant_max, self.eps = quant_min, quant_max, eps
        self.qscheme = "per_tensor_affine" if qscheme is None else qscheme

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"ao.quantization.{type(self).__name__}: calculate_qparams: it watches nothing; use MinMaxObserver")


class NoopObserver(PlaceholderObserver):
    """Watches nothing."""

    def __init__(self, dtype: Any = "float16", custom_op_name: str = "", **kwargs: Any) -> None:
        super().__init__(dtype, custom_op_name)


class RecordingObserver(ObserverBase):
    """Keeps a copy of each tensor; `get_tensor_value()` tells them."""

    def __init__(self, dtype: Any = uint8, **kwargs: Any) -> None:
        super().__init__(dtype)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Tensor]:
        """What was seen."""
        return self.tensor_val

    def calculate_qparams(self, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("ao.quantization.RecordingObserver: calculate_qparams: it only keeps what it sees; use MinMaxObserver")


class ReuseInputObserver(ObserverBase):
    """Watches nothing: for ops whose results have the scale of what they are given.

    Raises:
        NotImplementedError: `calculate_qparams` is called.
    """

    def __init__(self) -> None:
        super().__init__(uint8)

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("ao.quantization.ReuseInputObserver: calculate_qparams: the scale is that of the input")


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_reuse_input_observer = ReuseInputObserver
default_weight_observer = MinMaxObserver.with_args(dtype=int8, qscheme="per_tensor_symmetric")
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(dtype=int8, qscheme="per_channel_symmetric")
default_dynamic_quant_observer = PlaceholderObserver.with_args(dtype=uint8, quant_min=0, quant_max=255, is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(dtype=uint8, qscheme="per_channel_affine_float_qparams", ch_axis=0)
