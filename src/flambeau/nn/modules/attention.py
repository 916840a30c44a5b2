"""Multi-head attention as a layer."""

from __future__ import annotations

import math
from typing import Any

from flambeau import _C
from flambeau._C import Tensor, ops
from flambeau._errors import AssertedShapeError, AssertedValueError
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.functional._multihead import _canonical_mask, _none_or_dtype
from flambeau.nn.module import Module
from flambeau.nn.modules.linear import NonDynamicallyQuantizableLinear
from flambeau.nn.parameter import Parameter


class MultiheadAttention(Module):
    """softmax(q k^T / sqrt(head_dim)) v in `num_heads` subspaces, with projections around.

    Shape: query [T, B, E], key [S, B, kdim], value [S, B, vdim] (`batch_first`: [B, T, E];
    unbatched [T, E]) -> output like query, weights [B, T, S] ([B, heads, T, S] with
    `average_attn_weights=False`, None with `need_weights=False`). attn_mask [T, S] or [B * heads,
    T, S]; key_padding_mask [B, S]; True (or -inf) means "not attended".

    Raises:
        ValueError: embed_dim does not divide by num_heads, or shapes that do not fit.

    Source: Vaswani et al. 2017, section 3.2.

    >>> import flambeau as fl
    >>> x = fl.zeros(2, 5, 8)
    >>> out, weights = fl.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> out.shape, weights.shape
    (flambeau.Size([2, 5, 8]), flambeau.Size([2, 5, 5]))
    """

    __constants__ = ["batch_first"]
    _fl_later = {"_qkv_same_embed_dim": True}
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"MultiheadAttention: embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads}"
            )
        if embed_dim % num_heads:
            raise AssertedValueError(
                f"MultiheadAttention: embed_dim must be divisible by num_heads, got embed_dim = {embed_dim} and num_heads = {num_heads}"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim

        def new(*shape: int) -> Parameter:
            return Parameter(ops.empty(*shape, device=device, dtype=dtype))

        if self._qkv_same_embed_dim:
            self.in_proj_weight = new(3 * embed_dim, embed_dim)
            names: tuple[str, ...] = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        else:
            self.q_proj_weight = new(embed_dim, embed_dim)
            self.k_proj_weight = new(embed_dim, self.kdim)
            self.v_proj_weight = new(embed_dim, self.vdim)
            names = ("in_proj_weight",)
        for name in names:
            self.register_parameter(name, None)
        self.register_parameter("in_proj_bias", new(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.bias_k = new(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = new(1, 1, embed_dim) if add_bias_kv else None
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            init.xavier_uniform_(self.q_proj_weight)
            init.xavier_uniform_(self.k_proj_weight)
            init.xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def _fl_project(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        e = self.embed_dim
        if self._qkv_same_embed_dim and q is k and k is v:
            a, b, c = F.linear(q, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
            return a, b, c
        if self._qkv_same_embed_dim:
            weights = self.in_proj_weight.split(e, 0)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.split(e, 0)
        q, k, v = (F.linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases))
        return q, k, v

    def _fl_check(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        shapes = f"query {list(q.shape)}, key {list(k.shape)}, value {list(v.shape)}"
        n = q.dim()
        if n not in (2, 3):
            raise AssertedShapeError(
                f"MultiheadAttention: query should be unbatched 2D or batched 3D tensor but received {n}-D query tensor: {shapes}"
            )
        if k.dim() != n or v.dim() != n:
            what = "unbatched (2-D)" if n == 2 else "batched (3-D)"
            raise AssertedShapeError(f"MultiheadAttention: For {what} `query`, expected `key` and `value` to be {n}-D: {shapes}")
        for name, x, size in (
            ("query", q, self.embed_dim),
            ("key", k, self.kdim),
            ("value", v, self.vdim),
        ):
            if x.shape[-1] != size:
                raise AssertedShapeError(
                    f"MultiheadAttention: {name}: was expecting embedding dimension of {size}, but got {x.shape[-1]} ({shapes})"
                )
        if k.shape[:-1] != v.shape[:-1]:
            raise AssertedShapeError(
                f"MultiheadAttention: key shape {list(k.shape)} does not match value shape {list(v.shape)} (all but features)"
            )

    def merge_masks(self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor) -> tuple[Tensor | None, int | None]:
        """Both masks as one, [B, heads, T, T], and 2; one of the keys alone as it is, and 1; without any None twice."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        n, t, _ = query.shape
        merged = attn_mask.view(n, -1, t, t) if attn_mask.ndim == 3 else attn_mask.expand(n, self.num_heads, t, t)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(n, 1, 1, t).expand(-1, self.num_heads, -1, -1)
        return merged, 2

    def _fl_mask(
        self, q: Tensor, batch: int, t: int, s: int, attn_mask: Any, padding: Any
    ) -> Tensor | None:
        """The additive mask, broadcastable to [B, heads, T, S], or None."""
        padding = _canonical_mask(padding, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", q.dtype)
        mask = _canonical_mask(attn_mask, "attn_mask", None, "", q.dtype)
        if mask is not None:
            mask = mask.to(q.dtype)
            full = (batch * self.num_heads, t, s)
            if tuple(mask.shape) == full:
                mask = mask.reshape(batch, self.num_heads, t, s)
            elif tuple(mask.shape) != (t, s):
                n, sizes = mask.ndim, f"{(t, s)} or {full}"
                if n not in (2, 3):
                    raise AssertedShapeError(
                        f"MultiheadAttention: expected `attn_mask` to be `None`, 2-D or 3-D but found {n}-D tensor instead, "
                        f"{list(mask.shape)}"
                    )
                raise AssertedShapeError(
                    f"MultiheadAttention: The shape of the {n}D attn_mask is {list(mask.shape)}, but should be {sizes}"
                )
        if padding is not None:
            if tuple(padding.shape) != (batch, s):
                what = f"`key_padding_mask` to be `None` or 2-D but found {padding.ndim}-D tensor instead"
                if padding.ndim == 2:
                    i = int(padding.shape[0] == batch)
                    what = f"key_padded_mask.shape[{i}] to be {(batch, s)[i]}, but got {padding.shape[i]}"
                raise AssertedShapeError(
                    f"MultiheadAttention: Expected {what}: key_padding_mask has shape {list(padding.shape)}; expected {[batch, s]}"
                )
            padding = padding.to(q.dtype).reshape(batch, 1, 1, s)
            mask = padding if mask is None else mask + padding
        return mask

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        self._fl_check(query, key, value)
        if is_causal and attn_mask is None:
            raise _C.ArgumentError(
                "MultiheadAttention: is_causal=True is a hint and needs the mask itself in "
                "attn_mask "
                "(Transformer.generate_square_subsequent_mask makes one)"
            )
        batched = query.dim() == 3
        if not batched:
            same = query is key and key is value
            query = query.unsqueeze(0)
            key, value = (query, query) if same else (key.unsqueeze(0), value.unsqueeze(0))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        q, k, v = self._fl_project(query, key, value)
        if batched and not self.batch_first:  # [T, B, E] -> [B, T, E]
            q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
        batch, t, e = q.shape
        if k.shape[0] != batch:
            raise AssertedShapeError(
                f"MultiheadAttention: query has batch {batch}, key has {k.shape[0]}; expected equal"
            )
        mask = self._fl_mask(q, batch, t, k.shape[1], attn_mask, key_padding_mask)
        causal = is_causal and key_padding_mask is None and not need_weights
        if self.bias_k is not None and self.bias_v is not None:
            k = ops.cat([k, self.bias_k.expand(batch, 1, e)], 1)
            v = ops.cat([v, self.bias_v.expand(batch, 1, e)], 1)
        if self.add_zero_attn:
            zeros = ops.zeros(batch, 1, e, dtype=q.dtype, device=q.device)
            k, v = ops.cat([k, zeros], 1), ops.cat([v, zeros], 1)
        s = k.shape[1]
        extra = (self.bias_k is not None) + self.add_zero_attn
        if extra and mask is not None:
            mask, causal = F.pad(mask, (0, extra), "constant", 0), False
        heads = self.num_heads
        q = q.reshape(batch, t, heads, self.head_dim).transpose(1, 2)  # [B, H, T, D]
        k = k.reshape(batch, s, heads, self.head_dim).transpose(1, 2)  # [B, H, S, D]
        v = v.reshape(batch, s, heads, self.head_dim).transpose(1, 2)  # [B, H, S, D]
        p = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = ops.matmul(q * (1.0 / math.sqrt(self.head_dim)), k.transpose(-2, -1))
            if mask is not None:
                scores = scores + mask
            weights = F.softmax(scores, -1)
            if p > 0.0:
                weights = F.dropout(weights, p)
            out = ops.matmul(weights, v)
            if average_attn_weights:
                weights = weights.mean(1)
            if not batched:
                weights = weights.squeeze(0)
        else:
            out = F.scaled_dot_product_attention(
                q, k, v, attn_mask=None if causal else mask, dropout_p=p, is_causal=causal
            )
        out = out.transpose(1, 2)  # [B, T, H, D]
        if batched and not self.batch_first:
            out = out.transpose(0, 1)  # [T, B, H, D]
        # Its numbers alone, as in PyTorch: it is not called as a module, and its hooks do not run.
        out = F.linear(out.reshape(*out.shape[:2], e), self.out_proj.weight, self.out_proj.bias)
        return (out if batched else out.squeeze(0)), weights
