"""`EmbeddingBag`: rows of a table, reduced bag by bag."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor, ops
from flambeau._errors import AssertedShapeError, AssertedValueError
from flambeau.autograd import no_grad
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter


class EmbeddingBag(Module):
    """Sums, means or maxima of the rows that the indices of each bag name; see `functional.embedding_bag`.

    Shape: input [B, n], or [n] with offsets [B] -> [B, embedding_dim].

    Raises:
        ValueError: `padding_idx` is out of range.

    >>> import flambeau as fl
    >>> fl.nn.EmbeddingBag(10, 3)(fl.tensor([1, 2, 4, 5]), fl.tensor([0, 3])).shape
    flambeau.Size([2, 3])
    """

    __constants__ = [
        "num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse", "include_last_offset",
        "padding_idx",
    ]  # fmt: skip
    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None:
            if not -int(num_embeddings) <= padding_idx < num_embeddings:
                raise AssertedValueError(f"EmbeddingBag: padding_idx = {padding_idx}, but there are {num_embeddings} rows")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = padding_idx
        if _weight is None:
            self.weight = Parameter(ops.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                wanted = [num_embeddings, embedding_dim]
                raise AssertedShapeError(f"EmbeddingBag: weight has shape {list(_weight.shape)}; expected {wanted}")
            self.weight = Parameter(_weight)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Makes a layer around a given [num_embeddings, embedding_dim] table."""
        if embeddings.ndim != 2:
            raise AssertedShapeError(f"EmbeddingBag.from_pretrained: embeddings has shape {list(embeddings.shape)}; expected 2-D")
        rows, columns = embeddings.shape
        layer = cls(
            num_embeddings=rows, embedding_dim=columns, max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq,
            mode=mode, sparse=sparse, _weight=embeddings, include_last_offset=include_last_offset, padding_idx=padding_idx,
        )  # fmt: skip
        layer.weight.requires_grad_(not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Draws N(0, 1); the padding row becomes zero."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        """For classes that draw the weights otherwise."""
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        usual = {"max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False}
        text += "".join(f", {name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value)
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
