"""Causal masks of scores that are not square, as `torch.nn.attention.bias` has them, and padded batches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from beside import as_ours, as_theirs, randn, values

torch = pytest.importorskip("torch")

from torch.nn.attention import bias as theirs  # noqa: E402

import flambeau as fl  # noqa: E402
from flambeau.nn.attention import bias as ours  # noqa: E402


@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.parametrize("queries, keys", [(3, 5), (4, 4)])
def test_attention_takes_them(name, queries, keys):
    arrays = randn(1, 2, queries, 8), randn(1, 2, keys, 8, seed=1), randn(1, 2, keys, 8, seed=2)
    mine, other = getattr(ours, name)(queries, keys), getattr(theirs, name)(queries, keys)
    assert isinstance(mine, fl.Tensor) and (mine.seq_len_q, mine.seq_len_kv, int(mine.variant)) == (other.seq_len_q, other.seq_len_kv, int(other.variant))
    y = fl.nn.functional.scaled_dot_product_attention(*map(as_ours, arrays), attn_mask=mine)
    z = torch.nn.functional.scaled_dot_product_attention(*map(as_theirs, arrays), attn_mask=other)
    assert abs(values(y) - values(z)).max() < 1e-6


def test_what_is_computed_with_a_mask_is_a_plain_tensor():
    for lib, bias in ((torch, theirs), (fl, ours)):
        mask, q, kv = bias.causal_lower_right(2, 3), lib.ones(1, 1, 2, 4), lib.ones(1, 1, 3, 4)
        assert repr(mask) == "tensor([[ True,  True, False],\n        [ True,  True,  True]])"
        assert type(lib.nn.functional.scaled_dot_product_attention(q, kv, kv, mask)) is lib.Tensor
        assert isinstance(mask, bias.CausalBias)


PADDING = {"at the end": [[0, 0, 1], [0, 1, 1]], "a gap": [[0, 1, 0], [0, 0, 1]], "none": [[0, 0, 0], [0, 0, 0]]}
ENCODERS = list(itertools.product((True, False), (False, True), ("relu", "gelu", "selu"), (2, 1), (True, False), (False, True)))


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("training, grad", [(False, False), (False, True), (True, False)])
def test_encoders_over_padded_batches(padding, training, grad):
    """Where PyTorch leaves padding out, its results there are zeros."""
    for batch_first, norm_first, activation, heads, nested, norm in ENCODERS:
        found = []
        for tl in (torch, fl):
            act = getattr(tl.nn.functional, activation)
            layer = tl.nn.TransformerEncoderLayer(4, heads, 8, 0.0, act, batch_first=batch_first, norm_first=norm_first)
            encoder = tl.nn.TransformerEncoder(layer, 2, tl.nn.LayerNorm(4) if norm else None, nested).train(training)
            with tl.no_grad():
                for i, (_, p) in enumerate(sorted(encoder.named_parameters())):
                    p.copy_(tl.sin(tl.arange(p.numel(), dtype=p.dtype) * 0.7 + i).reshape(p.shape) * 0.5)
            x = tl.cos(tl.arange(24.0) * 0.37).reshape(2, 3, 4)
            with tl.set_grad_enabled(grad):
                y = encoder(x if batch_first else x.transpose(0, 1), src_key_padding_mask=tl.tensor(PADDING[padding]).bool())
            found.append((encoder.use_nested_tensor, y.detach().numpy()))
        assert found[0][0] == found[1][0]
        np.testing.assert_allclose(found[1][1], found[0][1], atol=1e-5)
