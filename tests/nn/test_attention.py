"""Attention and transformers: against a plain version, masks, both paths, errors."""

import math
import typing
import warnings

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F


def setup_function():
    fl.manual_seed(0)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def reference(layer, q, k, v, mask):
    """q [B, T, E], additive mask broadcastable to [B, H, T, S]."""
    e, heads = layer.embed_dim, layer.num_heads
    w, b = layer.in_proj_weight.detach().numpy(), layer.in_proj_bias.detach().numpy()
    parts = [x @ w[i * e : (i + 1) * e].T + b[i * e : (i + 1) * e] for i, x in enumerate((q, k, v))]
    q, k, v = (x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3) for x in parts)
    p = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(e // heads) + mask)
    out = (p @ v).transpose(0, 2, 1, 3)
    out = out.reshape(*out.shape[:2], e)
    wo, bo = layer.out_proj.weight.detach().numpy(), layer.out_proj.bias.detach().numpy()
    return out @ wo.T + bo, p.mean(1)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masked", ["none", "attn", "padding", "both"])
def test_against_numpy(masked, need_weights):
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    q, kv = fl.randn(2, 3, 8), fl.randn(2, 4, 8)
    attn = fl.tensor([[False, True, False, False]] * 3) if masked in ("attn", "both") else None
    pad = fl.tensor([[False] * 4, [False, False, False, True]])
    pad = pad if masked in ("padding", "both") else None
    additive = np.zeros((2, 1, 3, 4))
    if attn is not None:
        additive = np.where(attn.numpy(), -np.inf, additive)
    if pad is not None:
        additive = np.where(pad.numpy()[:, None, None, :], -np.inf, additive)
    want, want_weights = reference(layer, q.numpy(), kv.numpy(), kv.numpy(), additive)
    out, weights = layer(q, kv, kv, pad, need_weights, attn)
    np.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-4, atol=1e-5)
    if need_weights:
        np.testing.assert_allclose(weights.detach().numpy(), want_weights, rtol=1e-4, atol=1e-5)
    else:
        assert weights is None


def test_layouts_agree():
    layer = nn.MultiheadAttention(8, 2)
    first = nn.MultiheadAttention(8, 2, batch_first=True)
    first.load_state_dict(layer.state_dict())
    x = fl.randn(3, 2, 8)
    a, w = layer(x, x, x)
    y = x.transpose(0, 1)
    b, w2 = first(y, y, y)
    np.testing.assert_allclose(a.detach().numpy(), b.transpose(0, 1).detach().numpy(), rtol=1e-5)
    one, w3 = layer(x[:, 1], x[:, 1], x[:, 1], average_attn_weights=False)
    np.testing.assert_allclose(one.detach().numpy(), a[:, 1].detach().numpy(), rtol=1e-4, atol=1e-6)
    assert w.shape == (2, 3, 3) and w3.shape == (2, 3, 3)


def test_causal_hint_changes_nothing():
    layer = nn.MultiheadAttention(8, 2)
    x = fl.randn(4, 2, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    a, _ = layer(x, x, x, attn_mask=mask, need_weights=False, is_causal=True)
    b, _ = layer(x, x, x, attn_mask=mask)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="is_causal=True is a hint"):
        layer(x, x, x, is_causal=True)


@pytest.mark.parametrize("call", [
    lambda x: nn.TransformerEncoderLayer(8, 2, 8)(x, is_causal=True),
    lambda x: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8), 1)(x, is_causal=True),
    lambda x: nn.TransformerDecoderLayer(8, 2, 8)(x, x, tgt_is_causal=True),
    lambda x: nn.TransformerDecoderLayer(8, 2, 8)(x, x, memory_is_causal=True),
    lambda x: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 8), 1)(x, x, tgt_is_causal=True),
    lambda x: nn.Transformer(8, 2, 1, 1, 8)(x, x, src_is_causal=True),
])  # fmt: skip
def test_the_causal_hint_alone_is_refused(call):
    """What asks for it would otherwise look at what comes later, in silence."""
    with pytest.raises(ValueError, match="is_causal=True is a hint and needs the mask itself in attn_mask"):
        call(fl.randn(4, 2, 8))


def test_a_region_for_kernels_of_a_gpu_refuses_attention_alone():
    q = fl.randn(1, 2, 3, 4)
    expected = F.scaled_dot_product_attention(q, q, q)
    kernels = [nn.attention.SDPBackend.EFFICIENT_ATTENTION, nn.attention.SDPBackend.CUDNN_ATTENTION]
    with nn.attention.sdpa_kernel(kernels):  # programs look for what there is by what raises in here
        text = "sdpa_kernel allows EFFICIENT_ATTENTION, CUDNN_ATTENTION, of a GPU; expected MATH or FLASH_ATTENTION, too"
        with pytest.raises(RuntimeError, match=text):
            F.scaled_dot_product_attention(q, q, q)
        with pytest.raises(RuntimeError, match=text):
            nn.MultiheadAttention(4, 2)(q[0], q[0], q[0], need_weights=False)
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            assert fl.equal(F.scaled_dot_product_attention(q, q, q), expected)
    assert fl.equal(F.scaled_dot_product_attention(q, q, q), expected)


def test_errors():
    with pytest.raises(ValueError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(8, 3)
    layer = nn.MultiheadAttention(8, 2)
    x = fl.zeros(3, 2, 8)
    with pytest.raises(ValueError, match="key: was expecting embedding dimension of 8"):
        layer(x, fl.zeros(3, 2, 6), x)
    with pytest.raises(ValueError, match=r"The shape of the 2D attn_mask is \[2"):
        layer(x, x, x, attn_mask=fl.zeros(2, 3))
    with pytest.raises(ValueError, match=r"key_padding_mask has shape \[3, 2\]"):
        layer(x, x, x, key_padding_mask=fl.zeros(3, 2))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_transformer_does_not_look_ahead(batch_first, norm_first):
    model = nn.Transformer(
        8, 2, 1, 2, 16, dropout=0.0, batch_first=batch_first, norm_first=norm_first
    ).eval()
    src, tgt = fl.randn(4, 2, 8), fl.randn(5, 2, 8)
    if batch_first:
        src, tgt = src.transpose(0, 1), tgt.transpose(0, 1)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    a = model(src, tgt, tgt_mask=mask)
    changed = tgt.clone()
    if batch_first:
        changed[:, 3:] *= -1
    else:
        changed[3:] *= -1
    b = model(src, changed, tgt_mask=mask)
    moved = (a - b).abs().sum(-1)
    early, late = (moved[:, :3], moved[:, 3:]) if batch_first else (moved[:3], moved[3:])
    assert early.max().item() < 1e-4 and late.min().item() > 1e-3


def test_encoder_copies_its_layer():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 3, nn.LayerNorm(8))
    assert len({id(p) for p in encoder.parameters()}) == 3 * 12 + 2
    assert encoder(fl.zeros(3, 2, 8)).shape == (3, 2, 8)


# ---------------------------------------------------------------- second derivatives


def parts(*shapes):
    generator = fl.Generator().manual_seed(1)
    return [fl.randn(*shape, dtype=fl.float64, generator=generator).requires_grad_() for shape in shapes]


HIDDEN = fl.tensor([[True, False, True, True], [False, False, False, False], [True, True, True, False]])
SECOND = {
    "plain": {},
    "causal": {"is_causal": True},
    "bool mask": {"attn_mask": HIDDEN},  # a row may look at nothing
    "float mask": {"attn_mask": fl.randn(1, 4, dtype=fl.float64, generator=fl.Generator().manual_seed(2))},
    "scale": {"scale": 0.3},
}


@pytest.mark.parametrize("how", SECOND)
def test_second_derivatives(how):
    def f(q, k, v):
        return fl.nn.functional.scaled_dot_product_attention(q, k, v, **SECOND[how])

    assert fl.autograd.gradgradcheck(f, parts((2, 3, 2), (2, 4, 2), (2, 4, 3)))


def test_second_derivatives_by_a_mask():
    q, k, v, mask = parts((2, 3, 2), (2, 4, 2), (2, 4, 2), (3, 1))
    assert fl.autograd.gradgradcheck(fl.nn.functional.scaled_dot_product_attention, (q, k, v, mask))


def test_third_derivatives():
    q, k, v = parts((1, 2, 2), (1, 2, 2), (1, 2, 2))

    def first(q):
        y = fl.nn.functional.scaled_dot_product_attention(q, k.detach(), v.detach())
        return fl.autograd.grad(y.pow(2).sum(), q, create_graph=True)[0]

    assert fl.autograd.gradgradcheck(first, (q,))


def test_second_derivatives_of_halves_and_of_nothing():
    q, k, v = (x.detach().bfloat16().requires_grad_() for x in parts((2, 3, 4), (2, 3, 4), (2, 3, 4)))
    (g,) = fl.autograd.grad(fl.nn.functional.scaled_dot_product_attention(q, k, v).sum(), q, create_graph=True)
    (h,) = fl.autograd.grad(g.float().pow(2).sum(), k)
    assert h.dtype == fl.bfloat16 and h.isfinite().all()
    q, k, v = parts((2, 0, 4), (2, 3, 4), (2, 3, 4))
    (g,) = fl.autograd.grad(fl.nn.functional.scaled_dot_product_attention(q, k, v).sum(), k, create_graph=True)
    assert fl.autograd.grad(g.sum(), v)[0].tolist() == fl.zeros(2, 3, 4).tolist()


def test_a_penalty_of_an_attention_layers_gradient():
    """Beside the same layer by ops."""
    fl.manual_seed(0)
    x = fl.randn(2, 5, 8, requires_grad=True)
    layer = fl.nn.MultiheadAttention(8, 2, batch_first=True)

    def penalty(need_weights):
        (g,) = fl.autograd.grad(layer(x, x, x, need_weights=need_weights)[0].pow(2).sum(), x, create_graph=True)
        return fl.autograd.grad(g.pow(2).sum(), layer.in_proj_weight)[0]

    assert fl.allclose(penalty(False), penalty(True), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("heads", [(4, 1, 1), (1, 4, 4), (4, 1, 4), (4, 4, 1)])
@pytest.mark.parametrize("causal", [False, True])
def test_leading_axes_broadcast(heads, causal):
    """One head of keys and values for all of the queries, as Falcon has."""
    q, k, v = (fl.randn(2, n, 5, 8, dtype=fl.float64, requires_grad=True) for n in heads)
    found = fl.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    want = fl.nn.functional.scaled_dot_product_attention(*(x.expand(2, 4, 5, 8).contiguous() for x in (q, k, v)), is_causal=causal)
    assert found.shape == (2, 4, 5, 8)
    assert fl.equal(found, want)
    for got, expected in zip(fl.autograd.grad(found.sum(), (q, k, v)), fl.autograd.grad(want.sum(), (q, k, v))):
        assert fl.allclose(got, expected)
    with pytest.raises(fl.ShapeError, match="expected equal leading axes"):
        fl.nn.functional.scaled_dot_product_attention(fl.ones(2, 4, 5, 8), fl.ones(2, 2, 5, 8), fl.ones(2, 2, 5, 8))


@pytest.mark.parametrize(
    "options, why",
    [
        ({}, "batch_first of the layer is False"),
        ({"batch_first": True, "norm_first": True}, "norm_first of the layer is True"),
        ({"batch_first": True, "bias": False}, "the attention of the layer has no bias"),
        ({"batch_first": True, "activation": fl.tanh}, "the activation of the layer is neither relu nor gelu"),
        ({"batch_first": True, "nhead": 1}, "the number of heads of the layer is odd"),
    ],
)
def test_an_encoder_says_why_padding_is_not_left_out(options, why):
    layer = nn.TransformerEncoderLayer(**{"d_model": 4, "nhead": 2, "dim_feedforward": 4, **options})
    with pytest.warns(UserWarning, match=f"enable_nested_tensor is True, but self.use_nested_tensor is False because {why}"):
        assert not nn.TransformerEncoder(layer, 1).use_nested_tensor
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


@pytest.mark.parametrize("dropout_p", [0.0, 1e-9])
@pytest.mark.parametrize("shape", [(4, 4), (2, 1, 4, 4), (2, 3, 1, 4)])
def test_a_mask_and_is_causal_hold_together(dropout_p, shape):
    """As PyTorch has it where its fused kernel runs."""
    q = fl.linspace(0, 1, 2 * 3 * 4 * 8).reshape(2, 3, 4, 8)
    keep = fl.tensor([[1, 0, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]).bool()[: shape[-2]].expand(shape)
    both = keep & fl.ones(4, 4).tril().bool()
    attention = fl.nn.functional.scaled_dot_product_attention
    found = attention(q, q, q, attn_mask=keep, dropout_p=dropout_p, is_causal=True)
    assert fl.allclose(found, attention(q, q, q, attn_mask=both), atol=1e-5)
    added = keep.float()
    found = attention(q, q, q, attn_mask=added, dropout_p=dropout_p, is_causal=True)
    want = attention(q, q, q, attn_mask=added + fl.zeros(4, 4).masked_fill(~fl.ones(4, 4).tril().bool(), -math.inf))
    assert fl.allclose(found, want, atol=1e-5)


def test_blocks_of_a_mask():
    """The lists are those that PyTorch gives."""
    from flambeau.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 10, 14, BLOCK_SIZE=4)
    assert mask.to_dense().tolist() == [[[[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]]] and mask.to_dense().dtype == fl.int32
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 3]]] and mask.kv_indices.tolist() == [[[[0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 2, 3]]]]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 0]]] and mask.full_q_indices.tolist()[0][0][0] == [1, 0, 2]
    assert mask.q_num_blocks.tolist() == [[[2, 2, 1, 0]]] and mask.q_indices.tolist()[0][0][0] == [0, 2, 1]
    assert mask.dense().tolist() == [[[[q >= k for k in range(14)] for q in range(10)]]]
    assert abs(mask.sparsity() - 100 * (1 - 96 / 140)) < 1e-9 and mask.numel() == 140
    assert str(mask).splitlines()[:3] == ["BlockMask(shape=(1, 1, 10, 14), sparsity=31.43%,", "(0, 0)", "██      "]

    near = create_block_mask(lambda b, h, q, k: (q - k).abs() <= b + h, 2, 3, 8, 8, BLOCK_SIZE=(2, 4))
    assert near[1].shape == (1, 3, 8, 8) and near[:, 1:].shape == (2, 2, 8, 8) and fl.equal(near[1, 2].dense(), near.dense()[1:, 2:])
    with pytest.raises(IndexError, match="3 indices; expected a batch, or a batch and a head"):
        near[0, 0, 0]

    some = BlockMask.from_kv_blocks(
        fl.tensor([[[1, 1]]]), fl.tensor([[[[0, 1], [1, 0]]]]), fl.tensor([[[0, 1]]]), fl.tensor([[[[0, 1], [0, 1]]]]), 2,
        lambda b, h, q, k: q > k,
    )  # fmt: skip
    want = [[False, False, False, False], [True, False, False, False], [True, True, False, False], [True, True, True, False]]
    assert some.dense().tolist() == [[want]] and some.kv_num_blocks.tolist() == [[[1, 1]]] and some.to_dense().tolist() == [[[[1, 0], [1, 1]]]]
    q = fl.randn(1, 1, 4, 2)
    assert fl.allclose(flex_attention(q, q, q, block_mask=some)[..., 1:, :], F.scaled_dot_product_attention(q, q, q, fl.tensor(want))[..., 1:, :])
    with pytest.raises(ValueError, match=r"kv_indices \[1, 2, 2\]; expected"):
        BlockMask.from_kv_blocks(fl.tensor([[[1, 1]]]), fl.tensor([[[0, 1], [1, 0]]]))


def test_flex_attention_has_the_names_that_programs_annotate_with():
    from flambeau.nn.attention import flex_attention as flex

    assert typing.get_args(flex._score_mod_signature) == ([fl.Tensor] * 5, fl.Tensor)
    assert typing.get_args(flex._mask_mod_signature) == ([fl.Tensor] * 4, fl.Tensor)


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16], ids=str)
def test_a_learned_mask_is_added_in_float32(dtype):
    fl.manual_seed(0)
    q, k, v = (fl.randn(2, 4, 65, 32).to(dtype) for _ in range(3))
    mask = fl.randn(65, 65).to(dtype)
    exact = nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), mask.double())
    plain, learned = (nn.functional.scaled_dot_product_attention(q, k, v, m) for m in (mask, mask.clone().requires_grad_()))
    assert learned.dtype is dtype and learned.requires_grad
    errors = [(y.double() - exact).abs().max().item() for y in (plain, learned)]
    assert errors[1] <= 1.5 * errors[0]


def test_the_last_projection_is_not_called_as_a_module():
    layer, x, calls = nn.MultiheadAttention(8, 2), fl.ones(2, 8), []
    want = layer(x, x, x)[0]
    layer.out_proj.register_forward_hook(lambda *args: calls.append(args))
    layer.out_proj.forward = lambda x: x * 0
    assert fl.equal(layer(x, x, x)[0], want) and not calls


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.bfloat16], ids=str)
@pytest.mark.parametrize("length", [1, 5, 64, 65, 130])
def test_heads_come_back_as_they_lay(dtype, length):
    """Features that were cut into heads are features again by a view, whatever blocks of queries there are."""
    fl.manual_seed(0)
    features = [fl.randn(2, length, 3, 16, dtype=dtype, requires_grad=True) for _ in range(3)]
    for causal in (False, True):
        ways = []
        for heads in ([x.transpose(1, 2) for x in features], [x.transpose(1, 2).contiguous() for x in features]):
            y = nn.functional.scaled_dot_product_attention(*heads, is_causal=causal)
            gradients = fl.autograd.grad(y.float().square().sum(), features)
            ways.append((y, *gradients))
        assert ways[0][0].transpose(1, 2).view(2, length, 48).stride() == (48 * length, 48, 1)
        assert ways[1][0].is_contiguous()
        assert all(fl.equal(a, b) for a, b in zip(*ways, strict=True))


@pytest.mark.parametrize("keys", [3, 8, 70])
def test_a_query_that_is_no_number_has_no_number(keys):
    q, k = fl.ones(1, 1, 70, 8), fl.ones(1, 1, keys, 8)
    q[0, 0, 1, 2] = float("nan")
    q.requires_grad_()
    y = nn.functional.scaled_dot_product_attention(q, k, k)
    y.sum().backward()
    for rows in (y[0, 0], q.grad[0, 0]):
        assert rows[1].isnan().all() and not rows[0].isnan().any() and not rows[2:].isnan().any()
    hidden = fl.ones(70, keys, dtype=fl.bool)
    hidden[0] = False
    assert (nn.functional.scaled_dot_product_attention(q, k, k, hidden)[0, 0, 0] == 0).all()


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.bfloat16, fl.float16])
@pytest.mark.parametrize("queries", [1, 5, 150])
def test_keys_and_values_are_read_where_they_lie(queries, dtype):
    """Parts of a cache, heads cut out of features, and heads that are shared: as copies in rows."""
    cache = [fl.randn(2, 4, 300, 16).to(dtype) for _ in range(2)]
    cut = [fl.randn(2, 270, 4, 16).to(dtype).transpose(1, 2) for _ in range(2)]
    q = fl.randn(2, queries, 4, 16).to(dtype).transpose(1, 2)
    lying = {
        "filled so far": [t[:, :, :270] for t in cache], "later": [t[:, :, 30:] for t in cache], "cut": cut, "backwards": [t.transpose(0, 1) for t in cut],
        "shared": [t[:, :1, :270].expand(2, 4, 270, 16) for t in cache], "columns": [t[..., ::2].transpose(2, 3).contiguous().transpose(2, 3) for t in cut],
    }  # fmt: skip
    for name, (k, v) in lying.items():
        now = q.transpose(0, 1) if name == "backwards" else q[..., : k.shape[-1]]
        for causal in (False, True) if queries == 150 else (False,):
            got = F.scaled_dot_product_attention(now, k, v, is_causal=causal)
            want = F.scaled_dot_product_attention(now.contiguous(), k.contiguous(), v.contiguous(), is_causal=causal)
            assert got.shape == want.shape and fl.allclose(got.float(), want.float(), rtol=0.02 if dtype.itemsize == 2 else 1e-5, atol=1e-2 if dtype.itemsize == 2 else 1e-6), name


@pytest.mark.eager("memory at a moment")
def test_one_query_takes_no_copy_of_a_cache():
    k, v = fl.randn(2, 8, 1024, 64), fl.randn(2, 1024, 8, 64).transpose(1, 2)
    q = fl.randn(2, 8, 1, 64)
    F.scaled_dot_product_attention(q, k[:, :, :900], v[:, :, :900])
    before = fl.memory_stats()["allocated_bytes"]
    fl.reset_peak_memory_stats()
    F.scaled_dot_product_attention(q, k[:, :, :900], v[:, :, :900])
    assert fl.memory_stats()["peak_allocated_bytes"] - before < k.numel()  # bytes: a quarter of either
