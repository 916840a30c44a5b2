"""A table of vectors looked up by integer."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor, ops
from flambeau._errors import AssertedShapeError, AssertedValueError
from flambeau.autograd import no_grad
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

_embedding = F.embedding  # Note [Functions that programs replace]


class Embedding(Module):
    """Looks up rows of `weight`.

    Shape: [*] of int -> [*, embedding_dim]; weight [num_embeddings, embedding_dim].

    The row `padding_idx` starts as zeros and gets no gradient. With `sparse` the gradient is a sparse tensor, which `optim.SparseAdam`,
    `optim.SGD` and `optim.Adagrad` take.

    Raises:
        ValueError: `padding_idx` is out of range.

    >>> import flambeau as fl
    >>> fl.nn.Embedding(10, 3)(fl.tensor([[1, 2], [3, 4]])).shape
    flambeau.Size([2, 2, 3])
    """

    __constants__ = ["num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"]
    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None:
            if not -int(num_embeddings) <= padding_idx < num_embeddings:
                raise AssertedValueError(
                    "Embedding: Padding_idx must be within num_embeddings: "
                    f"padding_idx = {padding_idx}; expected -{num_embeddings} <= padding_idx < {num_embeddings}"
                )
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if _weight is None:
            data = ops.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(data, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertedShapeError(
                    "Embedding: Shape of weight does not match num_embeddings and embedding_dim: "
                    f"weight has shape {list(_weight.shape)}; expected [{num_embeddings}, {embedding_dim}]"
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Makes a layer around a given [num_embeddings, embedding_dim] table."""
        if embeddings.dim() != 2:
            raise AssertedShapeError(
                f"Embedding.from_pretrained: Embeddings parameter is expected to be 2-dimensional, got shape {list(embeddings.shape)}"
            )
        rows, cols = embeddings.shape
        return cls(
            num_embeddings=rows,
            embedding_dim=cols,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def reset_parameters(self) -> None:
        """Draws N(0, 1); the padding row becomes zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        """For classes that draw the weights otherwise."""
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        if self.max_norm is None and not self.scale_grad_by_freq and F.embedding is _embedding:
            row = self.padding_idx
            look_up = ops.embedding_sparse if self.sparse else ops.embedding
            return look_up(self.weight, input, -1 if row is None else row)
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq:
            parts.append("scale_grad_by_freq=True")
        if self.sparse:
            parts.append("sparse=True")
        return ", ".join(parts)
