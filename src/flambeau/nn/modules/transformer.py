"""Transformer encoder and decoder.

Source: Vaswani et al. 2017; `norm_first` is the pre-norm form of Xiong et al. 2020.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from flambeau._C import ArgumentError, ShapeError, Tensor, is_grad_enabled, ops
from flambeau._C import bool as dtype_bool
from flambeau._warn import warn
from flambeau.amp.autocast_mode import is_autocast_enabled
from flambeau.backends.mha import get_fastpath_enabled
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn._room import check_room
from flambeau.nn.containers import ModuleList
from flambeau.nn.functional._multihead import _canonical_mask, _none_or_dtype
from flambeau.nn.module import Module
from flambeau.nn.modules.activation import GELU, ReLU
from flambeau.nn.modules.attention import MultiheadAttention
from flambeau.nn.modules.dropout import Dropout
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.norm import LayerNorm


def _activation(given: Any) -> Callable[[Tensor], Tensor]:
    if given == "relu":
        return F.relu
    if given == "gelu":
        return F.gelu
    if not callable(given):
        raise ArgumentError(f"activation should be relu/gelu, not {given} (or a callable)")
    return given  # type: ignore[no-any-return]


def _known_activation(activation: Any) -> int:
    """1 for relu, 2 for gelu, 0 for another: what a layer of PyTorch's says, and asks one that it reads from a file."""
    for n, (function, kind) in enumerate(((F.relu, ReLU), (F.gelu, GELU)), 1):
        if activation is function or isinstance(activation, kind):
            return n
    return 0


def _clones(module: Module, n: int) -> ModuleList:
    nbytes = sum(p.nbytes for p in module.parameters() if not p.is_meta)
    check_room(f"{type(module).__name__}: num_layers", n, nbytes)
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _is_batch_first(layers: ModuleList) -> bool:
    attention = getattr(layers[0], "self_attn", None) if len(layers) else None
    return bool(getattr(attention, "batch_first", False))


def _causal_mask(size: int, like: Tensor | None = None) -> Tensor:
    options: dict[str, Any] = {} if like is None else {"dtype": like.dtype, "device": like.device}
    return ops.triu(ops.full((size, size), -math.inf, **options), 1)


def _is_causal(mask: Tensor | None, given: bool | None, size: int) -> bool:
    if given is not None:
        return given
    if mask is None or tuple(mask.shape) != (size, size) or not mask.is_floating_point():
        return False
    return bool((mask == _causal_mask(size, mask)).all().item())


def _length(x: Tensor, batch_first: bool) -> int:
    return x.shape[1 if batch_first and x.dim() == 3 else 0]  # type: ignore[no-any-return]


def _attended(attention: Module, x: Tensor, source: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
    y, _ = attention(x, source, source, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False)
    return y  # type: ignore[no-any-return]


class TransformerEncoderLayer(Module):
    """Self-attention and a feed-forward block, each with residual and norm.

    Shape: [T, B, d_model] (`batch_first`: [B, T, d_model]; unbatched [T, d_model]).
    """

    __constants__ = ["norm_first"]
    _fl_later = {"activation": F.relu, "activation_relu_or_gelu": 1}

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **kw
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **kw)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **kw)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _activation(activation)
        self.activation_relu_or_gelu = _known_activation(self.activation)

    # The blocks have PyTorch's names and arguments: programs replace them, and call them from a `forward` of their own.
    def _sa_block(self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False) -> Tensor:
        return self.dropout1(_attended(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))  # type: ignore[no-any-return]

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout2(x)  # type: ignore[no-any-return]

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        other = _none_or_dtype(src_mask)
        src_key_padding_mask = _canonical_mask(src_key_padding_mask, "src_key_padding_mask", other, "src_mask", src.dtype)
        src_mask = _canonical_mask(src_mask, "src_mask", None, "", src.dtype, False)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal=is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal))
        return self.norm2(x + self._ff_block(x))  # type: ignore[no-any-return]


def _why_padding_counts(layer: Module) -> str:
    """Why PyTorch's encoders do not leave out what is padded in prediction, with layers like this one; empty where they do."""
    if not isinstance(layer, TransformerEncoderLayer):
        return f"the layer is a {type(layer).__name__}, no TransformerEncoderLayer"
    attention, activation = layer.self_attn, layer.activation
    known = activation in (F.relu, F.gelu) or isinstance(activation, (ReLU, GELU))
    reasons: list[tuple[str, Callable[[], bool]]] = [
        ("norm_first of the layer is True", lambda: layer.norm_first),
        ("batch_first of the layer is False", lambda: not attention.batch_first),
        ("the attention of the layer has no bias", lambda: attention.in_proj_bias is None),
        ("keys and values of the layer's attention have other sizes than queries", lambda: not attention._qkv_same_embed_dim),
        ("the activation of the layer is neither relu nor gelu", lambda: not known),
        ("the two norms of the layer have different eps", lambda: layer.norm1.eps != layer.norm2.eps),
        ("the number of heads of the layer is odd", lambda: attention.num_heads % 2 == 1),
    ]
    return next((reason for reason, holds in reasons if holds()), "")


class TransformerEncoder(Module):
    """A stack of `num_layers` copies of a layer, with an optional norm at the end.

    In prediction (`eval()`, and nothing that a gradient is asked for) PyTorch leaves out what `src_key_padding_mask` says is padding,
    and its results there are zeros before the last norm. Here all is computed, and they are zeros in the same cases: layers that have
    `batch_first`, relu or gelu, their norms behind, biases and an even number of heads, a batch, no `mask`, padding at the end of
    rows alone, no autocast; never with `enable_nested_tensor=False`.
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        why = _why_padding_counts(encoder_layer) if enable_nested_tensor else ""
        self.use_nested_tensor = enable_nested_tensor and not why
        if why:
            warn(f"TransformerEncoder: enable_nested_tensor is True, but self.use_nested_tensor is False because {why}")

    @property
    def _fl_batch_first(self) -> bool:
        return _is_batch_first(self.layers)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        src_key_padding_mask = _canonical_mask(src_key_padding_mask, "src_key_padding_mask", _none_or_dtype(mask), "mask", src.dtype)
        mask = _canonical_mask(mask, "mask", None, "", src.dtype, False)
        causal = _is_causal(mask, is_causal, _length(src, self._fl_batch_first))
        for layer in self.layers:
            src = layer(
                src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal
            )
        if src_key_padding_mask is not None and self._fl_leaves_out_padding(src, mask):
            src = src.masked_fill(self._fl_left_out(src_key_padding_mask).unsqueeze(-1), 0.0)
        return src if self.norm is None else self.norm(src)

    def _fl_leaves_out_padding(self, src: Tensor, mask: Tensor | None) -> bool:
        layer: Any = self.layers[0]
        if not self.use_nested_tensor or layer.training or src.ndim != 3 or mask is not None:
            return False
        if is_autocast_enabled(src.device.type) or not get_fastpath_enabled():
            return False
        return not (is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in layer.parameters())))

    def _fl_left_out(self, padding: Tensor) -> Tensor:
        """What is padded; nothing, where a row goes on after its padding and that is looked for."""
        out = padding if padding.dtype is dtype_bool else padding != 0
        if not self.mask_check or out.shape[1] < 2:
            return out
        return out & ~(out[:, :-1] & ~out[:, 1:]).any()


class TransformerDecoderLayer(Module):
    """Self-attention, attention to the memory and a feed-forward block.

    Shape: tgt [T, B, d_model], memory [S, B, d_model].
    """

    __constants__ = ["norm_first"]
    _fl_later = {"activation": F.relu}

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **kw
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **kw
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **kw)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **kw)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation(activation)

    def _sa_block(self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False) -> Tensor:
        return self.dropout1(_attended(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))  # type: ignore[no-any-return]

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        return self.dropout2(_attended(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal))  # type: ignore[no-any-return]

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout3(x)  # type: ignore[no-any-return]

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        cross = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *cross)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *cross))
        return self.norm3(x + self._ff_block(x))  # type: ignore[no-any-return]


class TransformerDecoder(Module):
    """A stack of `num_layers` copies of a decoder layer, with an optional norm at the end."""

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    @property
    def _fl_batch_first(self) -> bool:
        return _is_batch_first(self.layers)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        causal = _is_causal(tgt_mask, tgt_is_causal, _length(tgt, self._fl_batch_first))
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder together.

    Shape: src [S, B, d_model], tgt [T, B, d_model] -> [T, B, d_model].
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kw: dict[str, Any] = {"device": device, "dtype": dtype}
        args = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first)
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*args, norm_first, bias, **kw),
            num_encoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw),
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*args, norm_first, bias, **kw),
            num_decoder_layers,
            LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kw),
        )
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for param in self.parameters():
            if param.dim() > 1:
                init.xavier_uniform_(param)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask [sz, sz]: -inf above the diagonal, 0 elsewhere."""
        options = {k: v for k, v in (("device", device), ("dtype", dtype)) if v is not None}
        return ops.triu(ops.full((sz, sz), -math.inf, **options), 1)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(
                f"Transformer: the feature number of src and tgt must be equal to d_model = {self.d_model}: "
                f"src has shape {list(src.shape)}, tgt {list(tgt.shape)}"
            )
        at = 0 if self.batch_first else 1
        if src.ndim == tgt.ndim == 3 and src.shape[at] != tgt.shape[at]:
            raise ShapeError(
                f"Transformer: the batch number of src and tgt must be equal: src has shape {list(src.shape)}, tgt {list(tgt.shape)}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(  # type: ignore[no-any-return]
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
