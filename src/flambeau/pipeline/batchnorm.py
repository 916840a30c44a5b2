"""Batch norm whose running statistics are those of the whole batch, though it sees micro-batches.

    micro-batches     normalised each by its own mean and variance     (as with any batch norm)
    running_mean/var  updated once, with mean and variance of all      (as without micro-batches)

What the micro-batches had is merged as it comes (Chan, Golub and LeVeque 1979) and written to the
running statistics by `commit()`, which the executor calls when a mini-batch is through, however many
micro-batches it had. So normalising itself is not what it would be without a pipeline, and can not be
without waiting for all micro-batches; evaluation is.
"""

from __future__ import annotations

import operator
from typing import Any

from flambeau import _C
from flambeau._C import ShapeError, Tensor, ops
from flambeau.autograd import no_grad
from flambeau.nn.module import Module
from flambeau.nn.modules.norm import _BatchNorm
from flambeau.pipeline._flags import is_recomputing

__all__ = ["DeferredBatchNorm", "convert"]


class _Moments:
    """Count, mean and sum of squared deviations of samples that come in parts.

    An object of its own, and no buffers: nothing of it is in a state dict, it stays as exact as it is when a
    model is made half, and counting changes no attribute of the module.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.parts = 0
        self.count = 0
        self.mean: Tensor | None = None
        self.squares: Tensor | None = None

    def add(self, count: int, mean: Tensor, var: Tensor) -> None:
        """Merges a part: `var` is its unbiased variance."""
        self.parts += 1
        if count == 0:
            return
        squares = var * (count - 1)
        if self.mean is None or self.squares is None:
            self.count, self.mean, self.squares = count, mean, squares
            return
        # Chan et al.: no difference of large squares, which would cancel.
        total = self.count + count
        delta = mean - self.mean
        self.mean = self.mean + delta * (count / total)
        self.squares = self.squares + squares + delta * delta * (self.count * count / total)
        self.count = total

    def result(self) -> tuple[Tensor, Tensor] | None:
        """Mean and unbiased variance; None without samples."""
        if self.mean is None or self.squares is None:
            return None
        return self.mean, self.squares / max(self.count - 1, 1)


class DeferredBatchNorm(_BatchNorm):
    """Batch norm for micro-batches: running statistics are updated once per mini-batch.

    In training every micro-batch is normalised by its own statistics, and adds them to what `commit` writes. What is
    computed again in backward does not count twice.

    Args:
        num_features: how many channels there are.
        eps: is added to the variance.
        momentum: how much a mini-batch counts; None keeps the plain average of all.
        affine: whether there are weight and bias.
        chunks: commits by itself after as many micro-batches, for loops without an executor; None leaves all to
            `commit`.
        device: where the tensors are.
        dtype: their type.

    Shape: [N, C, *].

    Raises:
        ValueError: too few dimensions, one value per channel in training, or `chunks` is not positive.

    Source: Ioffe and Szegedy 2015, algorithm 1; merging: Chan, Golub and LeVeque 1979.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline.batchnorm import DeferredBatchNorm
        >>> norm = DeferredBatchNorm(1, momentum=1.0)
        >>> for part in fl.arange(6.0).reshape(6, 1).split(2):
        ...     y = norm(part)
        >>> norm.running_mean
        tensor([0.])
        >>> norm.commit()
        >>> norm.running_mean, norm.running_var
        (tensor([2.5000]), tensor([3.5000]))
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        chunks: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        chunks = _checked(chunks)
        super().__init__(num_features, eps, momentum, affine, device=device, dtype=dtype)
        self.chunks = chunks
        self._pending = _Moments()

    @classmethod
    def convert_deferred_batch_norm(cls, module: Module, chunks: int | None = None) -> Module:
        """The same as `convert`."""
        return convert(module, chunks)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        mean, var = self.running_mean, self.running_var
        tracks = mean is not None and var is not None
        if not self.training and tracks:
            return self._normalise(input, mean, var, training=False, momentum=0.0)
        if input.numel() == input.shape[1]:
            raise ShapeError(
                f"DeferredBatchNorm: training needs more than one value per channel, but the micro-batch has shape "
                f"{list(input.shape)} (use fewer chunks, a larger batch or .eval())"
            )
        if not (self.training and tracks) or is_recomputing():
            return self._normalise(input, None, None, training=True, momentum=0.0)
        return self._tracked(input)

    def _tracked(self, input: Tensor) -> Tensor:
        # The kernel needs the statistics anyway; with momentum 1 it leaves them, the variance unbiased, in these two.
        wide = _C.promote_types(self.running_mean.dtype, _C.float32)  # type: ignore[union-attr]
        mean = ops.zeros(self.num_features, dtype=wide, device=input.device)
        var = ops.zeros(self.num_features, dtype=wide, device=input.device)
        output = self._normalise(input, mean, var, training=True, momentum=1.0)
        with no_grad():
            self._pending.add(input.numel() // self.num_features, mean, var)
        if self._pending.parts == self.chunks:
            self.commit()
        return output

    def _normalise(self, input: Tensor, mean: Any, var: Any, training: bool, momentum: float) -> Tensor:
        return ops.batch_norm(input, mean, var, self.weight, self.bias, training, momentum, self.eps)

    def commit(self) -> None:
        """Updates the running statistics with those of the micro-batches since the last time, if there were any.

        Example:
            >>> from flambeau.pipeline.batchnorm import DeferredBatchNorm
            >>> norm = DeferredBatchNorm(4)
            >>> norm.commit()
            >>> int(norm.num_batches_tracked)
            0
        """
        found = self._pending.result()
        self.discard()
        running_mean, running_var, counter = self.running_mean, self.running_var, self.num_batches_tracked
        if found is None or running_mean is None or running_var is None:
            return
        with no_grad():
            momentum = self.momentum
            if counter is not None:
                counter.add_(1)
                if momentum is None:  # the cumulative average
                    momentum = 1.0 / float(counter.item())
            for running, new in ((running_mean, found[0]), (running_var, found[1])):
                running.copy_(running * (1.0 - (momentum or 0.0)) + new * (momentum or 0.0))

    def discard(self) -> None:
        """Forgets the micro-batches since the last `commit`: those of a mini-batch that failed.

        Example:
            >>> import flambeau as fl
            >>> from flambeau.pipeline.batchnorm import DeferredBatchNorm
            >>> norm = DeferredBatchNorm(1)
            >>> y = norm(fl.ones(2, 1))
            >>> norm.discard()
            >>> norm.commit()
            >>> norm.running_mean
            tensor([0.])
        """
        self._pending.clear()

    def reset_running_stats(self) -> None:
        """Sets mean 0, variance 1, no batches, and forgets micro-batches that are not committed."""
        super().reset_running_stats()
        if "_pending" in self.__dict__:  # not while it is constructed
            self.discard()

    def _check_input_dim(self, input: Tensor) -> None:
        if self._fl_ranks:
            super()._check_input_dim(input)
        if input.dim() < 2 or input.shape[1] != self.num_features:
            raise ShapeError(f"DeferredBatchNorm: input has shape {list(input.shape)}; expected [N, {self.num_features}, ...]")

    def extra_repr(self) -> str:
        return super().extra_repr() + f", chunks={self.chunks}"


def _checked(chunks: int | None) -> int | None:
    if chunks is None:
        return None
    chunks = operator.index(chunks)
    if chunks < 1:
        raise ValueError(f"number of chunks must be positive integer, got {chunks} (or None: commit() is called by the executor)")
    return chunks


def _deferred(norm: _BatchNorm, chunks: int | None) -> DeferredBatchNorm:
    """A deferred one that shares parameters, buffers and hooks with `norm`."""
    new = DeferredBatchNorm.__new__(DeferredBatchNorm)
    new.__setstate__(norm.__getstate__())
    new.chunks = chunks
    new._pending = _Moments()
    new._fl_ranks = norm._fl_ranks
    return new


def _is_wanted(module: Module, chunks: int | None) -> bool:
    if isinstance(module, DeferredBatchNorm):
        return module.chunks != chunks
    # A subclass with a forward of its own means something else by it.
    return isinstance(module, _BatchNorm) and type(module).forward is _BatchNorm.forward and module.track_running_stats


class _Conversion:
    """One walk over a tree. What stands in it twice is converted once."""

    def __init__(self, chunks: int | None) -> None:
        self.chunks = chunks
        self.done: dict[Module, Module] = {}

    def of(self, module: Module) -> Module:
        if module not in self.done:
            self.done[module] = self._made(module)
        return self.done[module]

    def _made(self, module: Module) -> Module:
        if _is_wanted(module, self.chunks):
            return _deferred(module, self.chunks)  # type: ignore[arg-type]
        for name, child in list(module._modules.items()):
            if child is not None and (new := self.of(child)) is not child:
                module._modules[name] = new
        return module


def convert(module: Module, chunks: int | None = None) -> Module:
    """Replaces the batch norms of a model by deferred ones, in place.

    Parameters, buffers and hooks are shared with the layers that are replaced, and keys of the state dict stay. Layers
    without running statistics, and those of subclasses that define a forward, stay as they are.

    Args:
        module: the model, which is changed. A batch norm itself is not, since there is nothing around it.
        chunks: `DeferredBatchNorm`'s.

    Returns:
        The model, or what replaces it. The same layer is in it where it was deferred with the same `chunks` before.

    Raises:
        TypeError: `module` is no module.
        ValueError: `chunks` is not positive.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.pipeline.batchnorm import convert
        >>> convert(fl.nn.Sequential(fl.nn.Linear(3, 4), fl.nn.BatchNorm1d(4)))[1]  # doctest: +ELLIPSIS
        DeferredBatchNorm(4, ..., chunks=None)
    """
    chunks = _checked(chunks)
    if not isinstance(module, Module):
        raise TypeError(f"convert: module is a {type(module).__name__}; expected a Module")
    return _Conversion(chunks).of(module)
