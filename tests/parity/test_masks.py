"""Causal masks of scores that are not square, as `torch.nn.attention.bias` has them."""

from __future__ import annotations

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
