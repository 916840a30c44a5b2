"""Models of papers' repositories: attention in all forms, decoding, graphs, pictures, points, codes. Both libraries run each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Optional

import pytest

torch = pytest.importorskip("torch")

from parity.programs import Refused, data, filled, part, programs_in, refusal, same  # noqa: E402

import flambeau as fl  # noqa: E402


def attention_masks(lib):
    F, nn = lib.nn.functional, lib.nn
    q, k, v = (data(lib, 2, 2, 4, 6, seed=s) for s in range(3))
    lengths = lib.tensor([4, 2])
    padding = lib.arange(4)[None, :] >= lengths[:, None]
    causal = lib.triu(lib.full((4, 4), float("-inf")), diagonal=1)
    boolean = lib.tril(lib.ones(4, 4, dtype=lib.bool))
    alibi = -(lib.arange(4)[None, :] - lib.arange(4)[:, None]).abs().float() * lib.tensor([0.5, 0.25]).view(2, 1, 1)
    both = boolean & ~padding[:, None, None, :]
    found = [F.scaled_dot_product_attention(q, k, v, attn_mask=m) for m in (None, causal, boolean, alibi, both, causal[None, None].expand(2, 2, -1, -1))]
    found += [F.scaled_dot_product_attention(q, k, v, is_causal=True), F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True), F.scaled_dot_product_attention(q, k, v, scale=0.1)]
    mha = filled(lib, nn.MultiheadAttention(8, 2, batch_first=True)).eval()
    x = data(lib, 2, 4, 8)
    for options in ({}, {"key_padding_mask": padding}, {"attn_mask": ~boolean}, {"attn_mask": causal, "is_causal": True}, {"attn_mask": causal, "key_padding_mask": padding.float().masked_fill(padding, float("-inf"))},
                    {"average_attn_weights": False}, {"need_weights": False}, {"attn_mask": (~boolean).expand(4, 4, 4)}):  # fmt: skip
        out, weights = mha(x, x, x, **options)
        found += [out, weights if weights is not None else None]
    layer = filled(lib, nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"))
    encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8), enable_nested_tensor=False)
    found += [encoder(x, mask=nn.Transformer.generate_square_subsequent_mask(4), src_key_padding_mask=padding.float() * -1e9), encoder(x, src_key_padding_mask=padding)]
    decoder = filled(lib, nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0))
    t = x.transpose(0, 1)
    found.append(decoder(t, t, tgt_mask=causal, memory_key_padding_mask=padding, tgt_is_causal=True))
    return found


def rotary_positions(lib):
    """Queries turned by complex numbers, and by halves; normed by their squares, gated, with shared keys: a block of a language model."""

    @dataclass
    class Args:
        dim: int = 16
        n_heads: int = 4
        n_kv_heads: Optional[int] = 2  # noqa: UP045
        norm_eps: float = 1e-5

    def precompute(dim, end, theta=10000.0):
        freqs = 1.0 / (theta ** (lib.arange(0, dim, 2)[: (dim // 2)].float() / dim))
        t = lib.arange(end, device=freqs.device)
        return lib.polar(lib.ones_like(lib.outer(t, freqs).float()), lib.outer(t, freqs).float())

    def apply_rotary(xq, xk, cis):
        xq_ = lib.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
        xk_ = lib.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
        shape = [d if i == 1 or i == xq_.ndim - 1 else 1 for i, d in enumerate(xq_.shape)]
        cis = cis.view(*shape)
        return lib.view_as_real(xq_ * cis).flatten(3).type_as(xq), lib.view_as_real(xk_ * cis).flatten(3).type_as(xk)

    def rotate_half(x):
        a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return lib.cat((-b, a), dim=-1)

    class RMSNorm(lib.nn.Module):
        def __init__(self, dim, eps):
            super().__init__()
            self.eps, self.weight = eps, lib.nn.Parameter(lib.ones(dim))

        def forward(self, x):
            return (x.float() * lib.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight

    class Attention(lib.nn.Module):
        def __init__(self, args):
            super().__init__()
            self.heads, self.kv, self.head = args.n_heads, args.n_kv_heads, args.dim // args.n_heads
            self.wq, self.wk = lib.nn.Linear(args.dim, args.dim, bias=False), lib.nn.Linear(args.dim, self.kv * self.head, bias=False)
            self.wv, self.wo = lib.nn.Linear(args.dim, self.kv * self.head, bias=False), lib.nn.Linear(args.dim, args.dim, bias=False)
            self.register_buffer("cache_k", lib.zeros(2, 8, self.kv, self.head), persistent=False)
            self.register_buffer("cache_v", lib.zeros(2, 8, self.kv, self.head), persistent=False)

        def forward(self, x, start, cis, mask):
            bsz, n, _ = x.shape
            xq, xk, xv = self.wq(x).view(bsz, n, self.heads, self.head), self.wk(x).view(bsz, n, self.kv, self.head), self.wv(x).view(bsz, n, self.kv, self.head)
            xq, xk = apply_rotary(xq, xk, cis)
            self.cache_k, self.cache_v = self.cache_k.to(xq), self.cache_v.to(xq)
            self.cache_k[:bsz, start : start + n] = xk
            self.cache_v[:bsz, start : start + n] = xv
            keys, values = (c[:bsz, : start + n][:, :, :, None, :].expand(-1, -1, -1, self.heads // self.kv, -1).reshape(bsz, start + n, self.heads, self.head) for c in (self.cache_k, self.cache_v))
            xq, keys, values = xq.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)
            scores = lib.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.head)
            if mask is not None:
                scores = scores + mask
            scores = lib.nn.functional.softmax(scores.float(), dim=-1).type_as(xq)
            return self.wo(lib.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, n, -1))

    class Block(lib.nn.Module):
        def __init__(self, args):
            super().__init__()
            self.attention, self.norm = Attention(args), RMSNorm(args.dim, eps=args.norm_eps)
            self.w1, self.w2, self.w3 = (lib.nn.Linear(*s, bias=False) for s in ((16, 24), (24, 16), (16, 24)))

        def forward(self, x, start, cis, mask=None):
            h = x + self.attention(self.norm(x), start, cis, mask)
            h1 = self.norm(h)
            return h + self.w2(lib.nn.functional.silu(self.w1(h1)) * self.w3(h1))

    args = Args()
    block = filled(lib, Block(args), scale=0.2)
    cis = precompute(args.dim // args.n_heads, 8)
    x = data(lib, 2, 6, 16)
    mask = lib.triu(lib.full((6, 6), float("-inf")), diagonal=1)
    mask = lib.hstack([lib.zeros((6, 0)), mask]).type_as(x)
    with lib.no_grad():
        whole = block(x, 0, cis[:6], mask)
        steps = lib.cat([block(x[:, i : i + 1], i, cis[i : i + 1]) for i in range(6)], dim=1)
    q = x.view(2, 6, 4, 4).transpose(1, 2)
    inv = 1.0 / (10000 ** (lib.arange(0, 4, 2, dtype=lib.int64).float() / 4))
    emb = lib.cat((lib.einsum("i,j->ij", lib.arange(6).float(), inv),) * 2, dim=-1)
    half = q * emb.cos()[None, None] + rotate_half(q) * emb.sin()[None, None]
    block.zero_grad()
    block.attention.cache_k, block.attention.cache_v = lib.zeros(2, 8, 2, 4), lib.zeros(2, 8, 2, 4)
    block(x, 0, cis[:6], mask).sum().backward()
    return [whole, steps, half, cis, block.attention.wq.weight.grad, sorted(block.state_dict()), block.attention.cache_k.shape, str(args)]


def search_and_sampling(lib):
    """Beam search, nucleus sampling and speculative sampling with tables in place of models."""
    F, table = lib.nn.functional, data(lib, 7, 7)

    def beam(start, width, steps, eos=0):
        seqs, scores, done = lib.tensor([[start]]), lib.zeros(1), []
        for _ in range(steps):
            logp = F.log_softmax(table[seqs[:, -1]], dim=-1)
            total = scores.unsqueeze(1) + logp
            top, index = total.view(-1).topk(min(width, total.numel()))
            rows, tokens = lib.div(index, 7, rounding_mode="floor"), index % 7
            seqs, scores = lib.cat([seqs[rows], tokens.unsqueeze(1)], dim=1), top
            ended = tokens == eos
            done += [(s.tolist(), round(v.item(), 3)) for s, v in zip(seqs[ended], scores[ended] / seqs.size(1) ** 0.6)]
            scores = scores.masked_fill(ended, -1e9)
        return seqs, scores, sorted(done, key=lambda t: -t[1])[:2]

    def filtered(logits, top_k=0, top_p=1.0, value=-float("Inf")):
        logits = logits.clone()
        if top_k > 0:
            logits[logits < lib.topk(logits, top_k)[0][..., -1, None]] = value
        if top_p < 1.0:
            ordered, index = lib.sort(logits, descending=True)
            remove = lib.cumsum(F.softmax(ordered, dim=-1), dim=-1) > top_p
            remove[..., 1:] = remove[..., :-1].clone()
            remove[..., 0] = 0
            logits = logits.masked_fill(remove.scatter(-1, index, remove), value)
        return logits

    penalty = lib.gather(table[:2], 1, lib.tensor([[0, 3], [2, 2]]))
    penalty = lib.where(penalty < 0, penalty * 1.3, penalty / 1.3)
    repeated = table[:2].scatter(1, lib.tensor([[0, 3], [2, 2]]), penalty)
    p, q = F.softmax(table, -1), F.softmax(data(lib, 7, 7, seed=4), -1)
    draft, ps, qs = lib.tensor([2, 5, 1]), p[lib.tensor([0, 2, 5])], q[lib.tensor([0, 2, 5])]
    accept = (ps.gather(1, draft[:, None]) / qs.gather(1, draft[:, None])).clamp(max=1).squeeze(-1)
    rejected = (lib.tensor([0.5, 0.9, 0.2]) > accept).nonzero()
    n = rejected[0].item() if rejected.numel() else 3
    residual = (ps - qs).clamp(min=0)
    residual = residual / residual.sum(dim=-1, keepdim=True)
    inverse = lib.searchsorted(lib.cumsum(residual[min(n, 2)], -1), lib.tensor([0.3]))
    gumbel = (table + -lib.log(-lib.log(lib.linspace(0.1, 0.9, 49).view(7, 7)))) / 0.5
    soft = gumbel.softmax(-1)
    index = soft.max(-1, keepdim=True)[1]
    hard = lib.zeros_like(table, memory_format=lib.legacy_contiguous_format).scatter_(-1, index, 1.0) - soft.detach() + soft
    ban = lib.full((2, 7), 0.0).index_fill(1, lib.tensor([1, 6]), float("-inf"))
    return [*beam(3, 3, 4), filtered(table, 3), filtered(table, 0, 0.7), filtered(table, 4, 0.5), repeated, accept, n, residual, inverse, soft, hard, ban, lib.multinomial(hard.detach().round().abs(), 1)]


def experts_and_routing(lib):
    F, nn = lib.nn.functional, lib.nn
    x = data(lib, 10, 6, requires_grad=True)
    gate, experts = filled(lib, nn.Linear(6, 4, bias=False)), nn.ModuleList([filled(lib, nn.Linear(6, 6), seed=i) for i in range(4)])
    probs = F.softmax(gate(x), dim=1, dtype=lib.float)
    weights, selected = lib.topk(probs, 2, dim=-1)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    final = lib.zeros_like(x)
    mask = F.one_hot(selected, num_classes=4).permute(2, 1, 0)
    for e in range(4):
        idx, top_x = lib.where(mask[e])
        current = x[None, top_x].reshape(-1, 6)
        final.index_add_(0, top_x, (experts[e](current) * weights[top_x, idx, None]).to(x.dtype))
    me, ce = probs.mean(dim=0), F.one_hot(selected[:, 0], 4).float().mean(dim=0)
    aux = (me * ce).sum() * 4 + lib.logsumexp(gate(x), -1).square().mean() * 1e-3
    (final.sum() + aux).backward()
    flat, order = selected.flatten().sort(stable=True)
    counts = lib.bincount(flat, minlength=4)
    offs = counts.cumsum(0).to(lib.int32)
    w = lib.stack([e.weight.t() for e in experts]).detach().requires_grad_()
    pad = F.pad(x.detach()[order // 2], (0, 2))
    wide = F.pad(w, (0, 2, 0, 2))
    grouped = F.grouped_mm(pad, wide, offs=offs)
    sliced = lib.cat([a @ b for a, b in zip(pad.split(counts.tolist()), wide)])
    back = lib.zeros(10, 8).index_add(0, order // 2, grouped * weights.flatten()[order].detach()[:, None])
    back.square().sum().backward()
    inner = F.grouped_mm(pad.t().contiguous(), grouped.detach(), offs=offs)
    wrong = [refusal(lambda: F.grouped_mm(pad, wide)), refusal(lambda: F.grouped_mm(pad, wide, offs=offs.long())), refusal(lambda: F.grouped_mm(pad.double(), wide.double(), offs=offs)),
             refusal(lambda: F.grouped_mm(pad, wide, offs=offs[:2])), refusal(lambda: F.grouped_mm(pad, wide, offs=offs, bias=lib.ones(8)))]  # fmt: skip
    capacity = lib.cumsum(F.one_hot(selected[:, 0], 4), dim=0) * F.one_hot(selected[:, 0], 4)
    kept = (capacity <= 2) & (capacity > 0)
    dispatch = lib.einsum("nec,nd->ecd", F.one_hot((capacity.sum(-1) - 1).clamp(max=1), 2).float()[:, None, :] * kept[..., None], x.detach())
    return [final, x.grad, gate.weight.grad, aux, counts, offs, grouped - sliced, w.grad, inner, F.grouped_mm(dispatch.repeat(1, 4, 1)[:, :, :4].contiguous(), wide[:, :4]), dispatch, *map(Refused, wrong)]


def graphs_of_nodes(lib):
    F = lib.nn.functional
    edges = lib.tensor([[0, 1, 1, 2, 3, 3, 4], [1, 0, 2, 1, 4, 0, 3]])
    n = 5
    loops = lib.arange(n)
    src, dst = lib.cat([edges[0], loops]), lib.cat([edges[1], loops])
    deg = lib.zeros(n).scatter_add_(0, dst, lib.ones(dst.numel()))
    norm = deg.pow(-0.5)
    norm[norm == float("inf")] = 0
    values = norm[src] * norm[dst]
    adj = lib.sparse_coo_tensor(lib.stack([dst, src]), values, (n, n)).coalesce()
    x = data(lib, n, 4, requires_grad=True)
    w = filled(lib, lib.nn.Linear(4, 3))
    gcn = F.relu(lib.sparse.mm(adj, w(x)))
    dense = adj.to_dense() @ w(x)
    gcn.sum().backward()
    reduced = [lib.zeros(n, 4).scatter_reduce(0, dst[:, None].expand(-1, 4), x.detach()[src], reduce=r, include_self=False) for r in ("sum", "mean", "amax", "amin", "prod")]
    reduced += [lib.full((n, 4), 9.0).index_reduce(0, dst, x.detach()[src], r, include_self=True) for r in ("mean", "amax", "amin", "prod")]
    att = lib.nn.Parameter(data(lib, 6))
    h = w(x)
    e = F.leaky_relu((lib.cat([h[src], h[dst]], dim=-1) * att).sum(-1), negative_slope=0.2)
    e = lib.exp(e - lib.zeros(n).scatter_reduce(0, dst, e, "amax", include_self=False)[dst])
    alpha = e / lib.zeros(n).index_add(0, dst, e)[dst]
    out = lib.zeros(n, 3).index_add(0, dst, alpha.unsqueeze(-1) * h[src])
    grads = lib.autograd.grad(out.pow(2).sum(), [x, att, w.weight])
    batch = lib.tensor([0, 0, 0, 1, 1])
    pooled = lib.zeros(2, 3).scatter_add(0, batch.view(-1, 1).expand_as(out), out) / lib.bincount(batch).view(-1, 1)
    csr = adj.to_sparse_csr()
    lap = lib.eye(n) - adj.to_dense()
    eig = lib.linalg.eigvalsh(lap)
    walk = lib.linalg.matrix_power(adj.to_dense(), 3)
    unique, inverse, times = lib.unique(edges, dim=1, return_inverse=True, return_counts=True)
    segments = lib.segment_reduce(x.detach(), "max", lengths=lib.tensor([3, 2]), axis=0)
    return [gcn, dense, w.weight.grad, reduced, out, alpha, grads, pooled, csr.crow_indices(), csr.col_indices(), csr.values(), eig, walk, unique, inverse, times, segments, adj._nnz(), adj.indices(), lib.combinations(lib.arange(4), 2)]


def points_and_rays(lib):
    """Sampling far points, balls around them, and volume rendering along rays."""
    xyz = data(lib, 2, 12, 3)

    def square_distance(src, dst):
        dist = -2 * lib.matmul(src, dst.permute(0, 2, 1))
        dist += lib.sum(src**2, -1).view(2, -1, 1)
        dist += lib.sum(dst**2, -1).view(2, 1, -1)
        return dist

    def index_points(points, idx):
        view, repeat = list(idx.shape), list(idx.shape)
        view[1:], repeat[0] = [1] * (len(view) - 1), 1
        batch = lib.arange(points.shape[0], dtype=lib.long).view(view).repeat(repeat)
        return points[batch, idx, :]

    centroids, distance, farthest = lib.zeros(2, 4, dtype=lib.long), lib.ones(2, 12) * 1e10, lib.tensor([0, 3])
    for i in range(4):
        centroids[:, i] = farthest
        centroid = xyz[lib.arange(2), farthest, :].view(2, 1, 3)
        dist = lib.sum((xyz - centroid) ** 2, -1)
        mask = dist < distance
        distance[mask] = dist[mask]
        farthest = lib.max(distance, -1)[1]
    new = index_points(xyz, centroids)
    group = lib.arange(12, dtype=lib.long).view(1, 1, 12).repeat([2, 4, 1])
    group[square_distance(new, xyz) > 1.5**2] = 12
    group = group.sort(dim=-1)[0][:, :, :5]
    first = group[:, :, 0].view(2, 4, 1).repeat([1, 1, 5])
    group[group == 12] = first[group == 12]
    local = index_points(xyz, group) - new.view(2, 4, 1, 3)
    dists, idx = lib.cdist(new, xyz).topk(3, dim=-1, largest=False, sorted=True)
    recip = 1.0 / (dists.square() + 1e-8)
    weight = recip / lib.sum(recip, dim=2, keepdim=True)
    interpolated = lib.sum(index_points(xyz, idx) * weight.view(2, 4, 3, 1), dim=2)
    chamfer = lib.cdist(xyz, new).min(-1).values.mean() + lib.cdist(new, xyz).min(-1)[0].mean()
    H, W, focal = 3, 4, 5.0
    i, j = lib.meshgrid(lib.linspace(0, W - 1, W), lib.linspace(0, H - 1, H), indexing="xy")
    dirs = lib.stack([(i - W * 0.5) / focal, -(j - H * 0.5) / focal, -lib.ones_like(i)], -1)
    c2w = lib.eye(4)[:3] + 0.1
    rays_d = lib.sum(dirs[..., None, :] * c2w[:3, :3], -1)
    rays_o = c2w[:3, -1].expand(rays_d.shape)
    z = lib.linspace(2.0, 6.0, 8)
    pts = rays_o[..., None, :] + rays_d[..., None, :] * z[..., :, None]

    def encode(p, levels=3):
        bands = 2.0 ** lib.linspace(0.0, levels - 1, steps=levels)
        return lib.cat([p] + [fn(p * f) for f in bands for fn in (lib.sin, lib.cos)], -1)

    net = filled(lib, lib.nn.Sequential(lib.nn.Linear(21, 8), lib.nn.ReLU(), lib.nn.Linear(8, 4)))
    raw = lib.cat([net(chunk) for chunk in lib.split(encode(pts.reshape(-1, 3)), 32)], 0).reshape(H, W, 8, 4)
    gaps = lib.cat([z[1:] - z[:-1], lib.tensor([1e10])], -1) * lib.norm(rays_d[..., None, :], dim=-1)
    alpha = 1.0 - lib.exp(-lib.relu(raw[..., 3]) * gaps)
    weights = alpha * lib.cumprod(lib.cat([lib.ones((H, W, 1)), 1.0 - alpha + 1e-10], -1), -1)[..., :-1]
    rgb, depth = lib.sum(weights[..., None] * lib.sigmoid(raw[..., :3]), -2), lib.sum(weights * z, -1)
    acc = weights.sum(-1)
    white = rgb + (1.0 - acc[..., None])
    white.mean().backward()
    pdf = (weights[..., 1:-1] + 1e-5).detach()
    cdf = lib.cumsum(pdf / lib.sum(pdf, -1, keepdim=True), -1)
    cdf = lib.cat([lib.zeros_like(cdf[..., :1]), cdf], -1)
    u = lib.linspace(0.0, 0.95, steps=5).expand([*list(cdf.shape[:-1]), 5]).contiguous()
    inds = lib.searchsorted(cdf, u, right=True)
    below, above = lib.max(lib.zeros_like(inds - 1), inds - 1), lib.min((cdf.shape[-1] - 1) * lib.ones_like(inds), inds)
    g = lib.stack([below, above], -1)
    taken = lib.gather(cdf.unsqueeze(2).expand([H, W, 5, cdf.shape[-1]]), 3, g)
    denom = taken[..., 1] - taken[..., 0]
    denom = lib.where(denom < 1e-5, lib.ones_like(denom), denom)
    t = (u - taken[..., 0]) / denom
    return [centroids, new, group, local, idx, interpolated, chamfer, rays_d, pts, rgb, depth, white, net[0].weight.grad, t, lib.linalg.cross(rays_d, rays_o, dim=-1)]


def pictures_that_move(lib):
    """Warping by flow and by homography, pyramids, patches, integral images, edges."""
    F = lib.nn.functional
    img = data(lib, 2, 3, 6, 8, requires_grad=True)
    theta = lib.tensor([[[0.9, -0.2, 0.1], [0.2, 0.9, -0.3]], [[1.0, 0, 0], [0, 1, 0.4]]])
    grids = [F.affine_grid(theta, img.size(), align_corners=a) for a in (True, False)]
    warped = [F.grid_sample(img, g, mode=m, padding_mode=p, align_corners=a) for g, a in zip(grids, (True, False)) for m in ("bilinear", "nearest", "bicubic") for p in ("zeros", "border", "reflection")]
    (g,) = lib.autograd.grad(sum(w.pow(2).sum() for w in warped), img)
    yy, xx = lib.meshgrid(lib.arange(6), lib.arange(8), indexing="ij")
    base = lib.stack((xx, yy), dim=0).float().unsqueeze(0).repeat(2, 1, 1, 1)
    flow = data(lib, 2, 2, 6, 8)
    v = base + flow
    v[:, 0], v[:, 1] = 2.0 * v[:, 0].clone() / 7 - 1.0, 2.0 * v[:, 1].clone() / 5 - 1.0
    by_flow = F.grid_sample(img, v.permute(0, 2, 3, 1), align_corners=True)
    valid = F.grid_sample(lib.ones_like(img), v.permute(0, 2, 3, 1), align_corners=True) > 0.999
    src = lib.tensor([[0.0, 0], [7, 0], [7, 5], [0, 5]])
    dst = src + data(lib, 4, 2) * 0.3
    rows = []
    for (x, y), (a, b) in zip(src.tolist(), dst.tolist()):
        rows += [[x, y, 1, 0, 0, 0, -a * x, -a * y], [0, 0, 0, x, y, 1, -b * x, -b * y]]
    h = lib.linalg.solve(lib.tensor(rows), dst.reshape(-1))
    hom = lib.cat([h, lib.ones(1)]).view(3, 3)
    back = (lib.cat([src, lib.ones(4, 1)], 1) @ hom.T)
    back = back[:, :2] / back[:, 2:]
    k = lib.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    kernel = lib.stack([k, k.t()]).unsqueeze(1).repeat(3, 1, 1, 1)
    sobel = F.conv2d(F.pad(img, (1, 1, 1, 1), mode="replicate"), kernel, groups=3)
    edges = lib.hypot(sobel[:, ::2], sobel[:, 1::2])
    gauss = lib.exp(-(lib.arange(-2, 3).float() ** 2) / 2)
    gauss = gauss / gauss.sum()
    blurred = F.conv2d(F.conv2d(F.pad(img, (2,) * 4, "reflect"), gauss.view(1, 1, 1, 5).expand(3, 1, 1, 5), groups=3), gauss.view(1, 1, 5, 1).expand(3, 1, 5, 1), groups=3)
    mu = F.avg_pool2d(img, 3, 1)
    ssim_var = F.avg_pool2d(img * img, 3, 1) - mu.pow(2)
    patches = F.unfold(img, kernel_size=2, stride=2)
    folded = F.fold(patches, output_size=(6, 8), kernel_size=2, stride=2)
    tokens = img.unfold(2, 2, 2).unfold(3, 2, 2).permute(0, 2, 3, 1, 4, 5).reshape(2, 12, -1)
    again = tokens.view(2, 3, 4, 3, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(2, 3, 6, 8)
    shuffled = F.pixel_unshuffle(F.pixel_shuffle(data(lib, 1, 8, 2, 2), 2), 2)
    integral = img.cumsum(-1).cumsum(-2)
    windows = img.permute(0, 2, 3, 1).roll(shifts=(-1, -2), dims=(1, 2)).view(2, 3, 2, 4, 2, 3).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 4, 3)
    sizes = [F.interpolate(img, scale_factor=s, mode=m, **o) for s, m, o in ((2, "nearest", {}), (0.5, "area", {}), (1.5, "bilinear", {"align_corners": False}), (2, "bicubic", {"align_corners": True}), (0.5, "bilinear", {"antialias": True}), (2, "nearest-exact", {}))]
    tv = (img[:, :, 1:] - img[:, :, :-1]).abs().mean() + lib.diff(img, dim=-1).abs().mean()
    median = F.unfold(F.pad(img, (1, 1, 1, 1)), 3).view(2, 3, 9, -1).median(dim=2)[0]
    hist = lib.histc(img.detach(), bins=5, min=-2, max=2)
    psnr = 10 * lib.log10(4.0 / F.mse_loss(img, blurred))
    return [warped, g, by_flow, valid, hom, back, edges, blurred, ssim_var, patches, folded, lib.equal(again, img), shuffled, integral, windows, sizes, tv, median, hist, psnr, lib.rot90(img, 1, (2, 3)), img.flip(-1)]


def boxes(lib):
    """Overlaps, non-maximum suppression, anchors, matching and a regression of boxes."""

    class Target(NamedTuple):
        boxes: object
        labels: object

    b = data(lib, 12, 4).abs()
    b = lib.cat([b[:, :2], b[:, :2] + b[:, 2:] + 0.1], dim=1)
    scores = lib.linspace(0.1, 0.9, 12)[lib.tensor([3, 7, 1, 0, 11, 5, 2, 9, 4, 10, 6, 8])]

    def area(x):
        return (x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])

    def iou(x, y):
        lt, rb = lib.max(x[:, None, :2], y[:, :2]), lib.min(x[:, None, 2:], y[:, 2:])
        inter = (rb - lt).clamp(min=0).prod(dim=2)
        union = area(x)[:, None] + area(y) - inter
        outer = (lib.max(x[:, None, 2:], y[:, 2:]) - lib.min(x[:, None, :2], y[:, :2])).clamp(min=0).prod(2)
        return inter / union, inter / union - (outer - union) / outer

    def nms(x, s, threshold):
        order, keep = s.sort(0, descending=True)[1], []
        while order.numel() > 0:
            if order.numel() == 1:
                keep.append(order.item())
                break
            i = order[0].item()
            keep.append(i)
            ids = (iou(x[i : i + 1], x[order[1:]])[0].squeeze(0) <= threshold).nonzero().squeeze()
            if ids.numel() == 0:
                break
            order = order[ids + 1]
        return lib.LongTensor(keep)

    pair, general = iou(b, b[:5])
    best, which = pair.max(dim=1)
    match = lib.where(best < 0.3, lib.full_like(which, -1), which)
    forced = pair == pair.max(dim=0, keepdim=True).values
    sizes, ratios = lib.tensor([2.0, 4.0]), lib.tensor([0.5, 1.0, 2.0])
    hs, ws = lib.sqrt(ratios), 1 / lib.sqrt(ratios)
    anchors = lib.stack([-(ws[:, None] * sizes[None, :]).view(-1), -(hs[:, None] * sizes[None, :]).view(-1), (ws[:, None] * sizes).view(-1), (hs[:, None] * sizes).view(-1)], dim=1).round() / 2
    sy, sx = lib.meshgrid(lib.arange(0, 2) * 8, lib.arange(0, 3) * 8, indexing="ij")
    shifts = lib.stack((sx.reshape(-1), sy.reshape(-1), sx.reshape(-1), sy.reshape(-1)), dim=1)
    every = (shifts.view(-1, 1, 4) + anchors.view(1, -1, 4)).reshape(-1, 4)
    cx, cy, w, h = ((b[:, :2] + b[:, 2:]) / 2).unbind(-1) + (b[:, 2:] - b[:, :2]).unbind(-1)
    encoded = lib.stack([cx / 8, cy / 8, lib.log(w / 4), lib.log(h / 4)], dim=-1)
    loss = lib.nn.functional.smooth_l1_loss(encoded, lib.zeros_like(encoded), beta=1.0 / 9, reduction="sum")
    target = Target(b[match >= 0], match[match >= 0])
    loader = part(lib, "utils.data").default_collate([target, target])
    clipped = lib.stack([b[..., 0::2].clamp(0, 1), b[..., 1::2].clamp(0, 1)], dim=b.dim()).reshape(b.shape)
    keep = ((clipped[:, 2:] - clipped[:, :2]) > 0.05).all(dim=1).nonzero(as_tuple=True)[0]
    mask = lib.zeros(4, 4, dtype=lib.uint8)
    mask[1:3, 2:] = 1
    ys, xs = lib.where(mask)
    return [nms(b, scores, 0.3), nms(b, scores, 0.7), pair, general, match, forced, every, encoded, loss, target, type(loader).__name__, loader, clipped, keep, lib.stack([xs.min(), ys.min(), xs.max(), ys.max()]), b[b[:, 0].argsort(), :][..., [1, 0, 3, 2]]]


def codes_and_flows(lib):
    """Vector quantisation with codes that are averaged, a coupling flow, an inverse by permutation, and a planar one."""
    F, nn = lib.nn.functional, lib.nn

    class VectorQuantizerEMA(nn.Module):
        def __init__(self, n, dim, decay=0.9, epsilon=1e-5):
            super().__init__()
            self.n, self.dim, self.decay, self.eps = n, dim, decay, epsilon
            self.embedding = nn.Embedding(n, dim)
            self.register_buffer("cluster", lib.zeros(n))
            self._w = nn.Parameter(lib.Tensor(n, dim))

        def forward(self, inputs):
            inputs = inputs.permute(0, 2, 3, 1).contiguous()
            flat = inputs.view(-1, self.dim)
            distances = lib.sum(flat**2, dim=1, keepdim=True) + lib.sum(self.embedding.weight**2, dim=1) - 2 * lib.matmul(flat, self.embedding.weight.t())
            indices = lib.argmin(distances, dim=1).unsqueeze(1)
            hot = lib.zeros(indices.shape[0], self.n, device=inputs.device)
            hot.scatter_(1, indices, 1)
            quantized = lib.matmul(hot, self.embedding.weight).view(inputs.shape)
            if self.training:
                self.cluster = self.cluster * self.decay + (1 - self.decay) * lib.sum(hot, 0)
                total = lib.sum(self.cluster.data)
                self.cluster = (self.cluster + self.eps) / (total + self.n * self.eps) * total
                self._w = nn.Parameter(self._w * self.decay + (1 - self.decay) * lib.matmul(hot.t(), flat))
                self.embedding.weight = nn.Parameter(self._w / self.cluster.unsqueeze(1))
            loss = 0.25 * F.mse_loss(quantized.detach(), inputs)
            quantized = inputs + (quantized - inputs).detach()
            avg = lib.mean(hot, dim=0)
            return loss, quantized.permute(0, 3, 1, 2).contiguous(), lib.exp(-lib.sum(avg * lib.log(avg + 1e-10))), indices

    vq = filled(lib, VectorQuantizerEMA(5, 3), scale=1.0)
    x = data(lib, 2, 3, 4, 4, requires_grad=True)
    loss, q, perplexity, indices = vq(x)
    (loss + (q * 2).sum()).backward()

    class Coupling(nn.Module):
        def __init__(self, flip):
            super().__init__()
            self.flip, self.net = flip, nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 4))

        def forward(self, x, reverse=False):
            a, b = x.chunk(2, dim=1) if not self.flip else x.chunk(2, 1)[::-1]
            s, t = self.net(a).tensor_split(2, dim=1)
            s = lib.tanh(s)
            b = (b - t) * lib.exp(-s) if reverse else b * lib.exp(s) + t
            return lib.cat([a, b] if not self.flip else [b, a], dim=1), s.sum(1)

    flows = [filled(lib, Coupling(i % 2), seed=i) for i in range(3)]
    z, logdet = data(lib, 5, 4), 0
    start = z
    for f in flows:
        z, ld = f(z)
        logdet = logdet + ld
    back = z
    for f in reversed(flows):
        back, _ = f(back, reverse=True)
    D = lib.distributions
    prior = D.MultivariateNormal(lib.zeros(4), lib.eye(4))
    nll = -(prior.log_prob(z) + logdet).mean()
    nll.backward()
    w, u, b = data(lib, 4), data(lib, 4, seed=5), 0.3
    u_hat = u + (-1 + F.softplus(w @ u) - w @ u) * w / w.norm() ** 2
    planar = start + u_hat * lib.tanh(start @ w + b).unsqueeze(-1)
    det = lib.log(lib.abs(1 + (1 - lib.tanh(start @ w + b) ** 2) * (w @ u_hat)) + 1e-6)
    masks = [lib.tensor([0, 1, 2, 3])[:, None] >= (lib.arange(6) % 3)[None], (lib.arange(6) % 3)[:, None] >= lib.arange(4)[None]]
    made = F.linear(F.relu(F.linear(start, masks[1].float())), masks[0].float() * 0.1)
    base = D.TransformedDistribution(D.Normal(lib.zeros(2), lib.ones(2)), [D.SigmoidTransform().inv, D.AffineTransform(loc=1.0, scale=lib.tensor([2.0, 0.5]))])
    mu, logvar = start[:, :2], start[:, 2:]
    elbo = -0.5 * lib.sum(1 + logvar - mu.pow(2) - logvar.exp())
    plu = lib.linalg.lu(lib.eye(4) + 0.1 * data(lib, 4, 4))
    return [loss, q, perplexity, indices, x.grad, vq.cluster, vq.embedding.weight, lib.bincount(indices.flatten(), minlength=5), z, logdet, back - start, nll, flows[0].net[0].weight.grad, planar, det, made,
            base.log_prob(lib.tensor([0.5, 2.0])), elbo, plu.L @ plu.U]  # fmt: skip


def recognised_speech(lib):
    """Sequences of several lengths: packed, summed up, aligned by CTC, and decoded."""
    nn, rnn = lib.nn, part(lib, "nn.utils.rnn")
    seqs = [data(lib, n, 4, seed=n) for n in (3, 6, 5)]
    lengths = lib.tensor([len(s) for s in seqs])
    padded = rnn.pad_sequence(seqs, batch_first=True, padding_value=-1.0)
    packed = rnn.pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
    lstm = filled(lib, nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True))
    out, (h, c) = lstm(packed)
    y, n = rnn.pad_packed_sequence(out, batch_first=True, total_length=7, padding_value=9.0)
    last = lib.cat((h[-2], h[-1]), dim=1)
    mask = lib.arange(7).expand(3, 7) < n.unsqueeze(1)
    mean = (y * mask.unsqueeze(-1)).sum(1) / n.unsqueeze(1)
    head = filled(lib, nn.Linear(10, 6))
    logp = head(y).log_softmax(2).transpose(0, 1)
    targets, target_lengths = lib.tensor([1, 2, 3, 3, 4, 5, 1]), lib.tensor([2, 3, 2])
    losses = [nn.CTCLoss(blank=0, reduction=r, zero_infinity=True)(logp, targets, n, target_lengths) for r in ("none", "mean", "sum")]
    losses[1].backward()
    best = logp.argmax(-1).t()
    decoded = [[int(t) for t, before in zip(row, [0, *row[:-1].tolist()]) if t != 0 and t != before] for row in best[:, :]]
    collapsed = [lib.unique_consecutive(row)[lib.unique_consecutive(row) != 0] for row in best]
    cell, hx, states = filled(lib, nn.GRUCell(4, 5)), lib.zeros(3, 5), []
    for t in range(padded.size(1)):
        new = cell(padded[:, t], hx)
        hx = lib.where((t < lengths).unsqueeze(1), new, hx)
        states.append(hx)
    attention = filled(lib, nn.Linear(5, 1))
    energy = attention(lib.stack(states, 1)).squeeze(-1).masked_fill(lib.arange(6)[None] >= lengths[:, None], float("-inf"))
    context = lib.bmm(energy.softmax(1).unsqueeze(1), lib.stack(states, dim=1)).squeeze(1)
    char = nn.EmbeddingBag(8, 3, mode="mean", padding_idx=0)
    filled(lib, char)
    bags = char(lib.tensor([1, 2, 0, 4, 5]), lib.tensor([0, 3]))
    sorted_len, order = lengths.sort(descending=True)
    _, undo = order.sort()
    return [padded, packed.batch_sizes, packed.sorted_indices, packed.data, y, n, h, c, last, mean, losses, lstm.weight_ih_l0.grad, decoded, collapsed, hx, context, bags, sorted_len, undo, rnn.unpad_sequence(padded, lengths, batch_first=True), rnn.unpack_sequence(packed)]


def convolutions_of_papers(lib):
    """Depthwise blocks, squeeze and excitation, dense blocks, dilated causal stacks, deformed by an index, dynamic and transposed ones."""
    nn, F = lib.nn, lib.nn.functional

    class SE(nn.Module):
        def __init__(self, c, r=2):
            super().__init__()
            self.avg_pool = nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Sequential(nn.Linear(c, c // r, bias=False), nn.ReLU(inplace=True), nn.Linear(c // r, c, bias=False), nn.Sigmoid())

        def forward(self, x):
            b, c, _, _ = x.size()
            return x * self.fc(self.avg_pool(x).view(b, c)).view(b, c, 1, 1).expand_as(x)

    class Inverted(nn.Module):
        def __init__(self, c, k):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(c, c * k, 1, bias=False), nn.BatchNorm2d(c * k), nn.Hardswish(inplace=True), nn.Conv2d(c * k, c * k, 3, 1, 1, groups=c * k, bias=False), nn.BatchNorm2d(c * k),
                                      SE(c * k), nn.ReLU6(inplace=True), nn.Conv2d(c * k, c, 1, bias=False), nn.GroupNorm(2, c))  # fmt: skip

        def forward(self, x):
            return x + self.body(x)

    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.filter, self.gate = nn.Conv1d(2, 2, 2, dilation=4), nn.Conv1d(2, 2, 2, dilation=4)

        def forward(self, x):
            y = F.pad(x, (4, 0))
            return lib.tanh(self.filter(y)) * lib.sigmoid(self.gate(y)) + x

    x = data(lib, 2, 4, 6, 6, requires_grad=True)
    block = filled(lib, Inverted(4, 2))
    y = block(x)
    y.mean().backward()
    up = filled(lib, nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1))
    unet = lib.cat([up(y), F.interpolate(x, scale_factor=2)], dim=1)
    w = data(lib, 2, 3, 4, 3, 3)
    dynamic = F.conv2d(x.reshape(1, 8, 6, 6), w.view(6, 4, 3, 3), padding="same", groups=2).view(2, 3, 6, 6)
    norm = F.instance_norm(x, use_input_stats=True, eps=1e-5)
    adain = norm * data(lib, 2, 4, 1, 1) + data(lib, 2, 4, 1, 1, seed=1)
    std = w.flatten(2).std(dim=(1, 2), unbiased=False, keepdim=True)
    demod = w * lib.rsqrt(w.pow(2).sum([2, 3, 4], keepdim=True) + 1e-8)
    pooled = [F.adaptive_avg_pool2d(x, (s, s)) for s in (1, 2, 3)]
    spp = lib.cat([p.flatten(1) for p in pooled], 1)
    values, where = F.max_pool2d(x, 2, return_indices=True)
    unpooled = F.max_unpool2d(values, where, 2)
    stochastic = x * (lib.tensor([1.0, 0.0]).view(-1, 1, 1, 1) / 0.5)
    blurpool = F.conv2d(F.pad(x, [1, 1, 1, 1], mode="circular"), lib.tensor([1.0, 2, 1]).outer(lib.tensor([1.0, 2, 1])).div(16).repeat(4, 1, 1, 1), stride=2, groups=4)
    fused = part(lib, "nn.utils").fuse_conv_bn_eval(nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval()) if hasattr(lib.nn.utils, "fuse_conv_bn_eval") else None
    mixer = lib.einsum("bchw,cd->bdhw", x, data(lib, 4, 3))
    init = nn.init.eye_(lib.empty(2, 3)), nn.init.dirac_(lib.empty(2, 2, 3)), nn.init.calculate_gain("leaky_relu", 0.2), nn.init._calculate_fan_in_and_fan_out(w.flatten(0, 1))
    return [y, x.grad, block.body[0].weight.grad, block.body[1].running_var, unet, filled(lib, Causal())(data(lib, 1, 2, 9)), dynamic, adain, std, demod, spp, where, unpooled, stochastic, blurpool,
            type(fused).__name__, mixer, init, filled(lib, nn.Bilinear(3, 3, 2))(data(lib, 4, 3), data(lib, 4, 3)), F.normalize(x, p=1, dim=(2, 3)), F.local_response_norm(x, 3), repr(block.body[3])]  # fmt: skip


def replaced_parts_of_layers(lib):
    """Protected methods that programs replace and call, by PyTorch's names."""
    nn, d = lib.nn, part(lib, "distributions")
    maps = []

    class Seen(nn.TransformerEncoderLayer):
        def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
            y, map = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=True)
            maps.append(map)
            return self.dropout1(y)

    class Halved(nn.TransformerDecoderLayer):
        def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
            return super()._mha_block(x, mem, attn_mask, key_padding_mask, is_causal) / 2

        def _ff_block(self, x):
            return super()._ff_block(x) / 2

    class InRow(nn.TransformerEncoderLayer):
        def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
            return src + self._ff_block(self._sa_block(src, src_mask, src_key_padding_mask))

    x, mask = data(lib, 5, 2, 4), nn.Transformer.generate_square_subsequent_mask(5)
    encoders = [filled(lib, kind(4, 2, 8, dropout=0.0, norm_first=first)) for kind in (Seen, InRow) for first in (True, False)]
    decoder = filled(lib, Halved(4, 2, 8, dropout=0.0))
    results = [nn.TransformerEncoder(e, 2, enable_nested_tensor=False)(x, mask) for e in encoders] + [decoder(x, data(lib, 3, 2, 4), mask)]
    whole = nn.Transformer(4, 2, 1, 1, 8)
    with lib.no_grad():
        whole.encoder.layers[0].linear1.weight.fill_(7)
    whole._reset_parameters()
    layers = nn.ModuleList([nn.ReLU(), nn.GELU()])
    fallen = d.TransformedDistribution(d.Uniform(lib.zeros(2), lib.ones(2)), [d.AffineTransform(0, -2)])
    coins = d.Bernoulli(lib.tensor([0.2, 0.7]))
    return [*results, *maps, whole.encoder.layers[0].linear1.weight.max() < 2, layers._get_abs_string_index(-1), nn.ParameterDict()._key_to_attr("a"),
            fallen._monotonize_cdf(lib.tensor([0.2, 0.6])), coins._param, coins._new((3,)).shape]


# Attention's results are rows here.
ANY_STRIDES = (attention_masks,)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", programs_in(globals()), ids=lambda f: f.__name__)
def test_both_models_are_the_same(program):
    same(program(fl), program(torch), program.__name__, rtol=2e-4, atol=2e-5, strides=program not in ANY_STRIDES)


