"""Programs whose bits are compared: forward, backward and optimizer steps. `python programs.py NAME ...` prints
hashes of their results as JSON. Sizes are such that every kernel has work for several threads."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F


def digest(x: fl.Tensor) -> str:
    """Of a tensor's bits."""
    x = x.detach().contiguous()
    return hashlib.sha256(np.asarray((x.float() if x.dtype is fl.bfloat16 else x).numpy()).tobytes()).hexdigest()[:16]


def train(model: nn.Module, loss_of: Callable[[], Any], optimizer: Any, steps: int = 3) -> dict[str, Any]:
    """Loss, gradients of the first step, and what the parameters and buffers are in the end."""
    out: dict[str, Any] = {}
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        if step == 0:
            out["loss"] = loss
            out |= {f"grad {n}": p.grad.clone() for n, p in model.named_parameters()}
        optimizer.step()
    return out | {f"after {n}": v.clone() for n, v in model.state_dict().items()}


def elementwise() -> dict[str, Any]:
    x = fl.randn(300, 1111, requires_grad=True)
    far = fl.randn(300, 1111) * 10
    far[7, 5] = 1e30
    y = (x.exp() * x.sigmoid() + F.gelu(x) + F.silu(x) * F.mish(x)).tanh() + far.sin() + far.t().contiguous().t().cos()
    return {"y": y, "grad": fl.autograd.grad(y.sum(), x)[0], "broadcast": (x + x[:1] * x[:, :1]), "half": (x.bfloat16() * 3).float()}


def reductions() -> dict[str, Any]:
    x = fl.randn(513, 2049)
    flat = fl.randn(3_000_001)
    out = {"all": flat.sum(), "mean": flat.mean(), "var": flat.var(), "norm": flat.norm(), "prod": (flat * 1e-3 + 1).prod(), "mx": flat.max(), "am": flat.argmax()}
    for d in (0, 1):
        out |= {f"{n}{d}": getattr(x, n)(d) for n in ("sum", "mean", "var", "logsumexp", "prod", "argmin", "softmax", "log_softmax", "norm")}
    out["strided"] = x[:, ::3].sum(0)
    out["half"] = x.bfloat16().sum(0).float()
    out["half_all"] = flat.bfloat16().sum().float()
    out["double"] = flat.double().sum()
    out["count"] = fl.count_nonzero(x > 0, 1)
    return out


def scans_and_sorts() -> dict[str, Any]:
    x = fl.randn(257, 4099, requires_grad=True)
    out = {f"{n}{d}": getattr(x, n)(d) for n in ("cumsum", "logcumsumexp") for d in (0, 1)}
    out |= {"cumprod": (x * 0.01 + 1).cumprod(1), "cummax": x.cummax(1)[0], "long": fl.randn(1_000_003).cumsum(0)}
    ties = (x.detach() * 4).round()
    for d in (0, 1):
        values, places = ties.sort(d, stable=True)
        out |= {f"sorted{d}": values, f"places{d}": places, f"topk{d}": x.topk(17, d)[0], f"kth{d}": x.kthvalue(5, d)[0], f"median{d}": x.median(d)[0]}
    out["unique"] = ties.unique()
    out["grad"] = fl.autograd.grad(out["cumsum0"].sum() + out["logcumsumexp1"].sum() + out["topk0"].sum(), x)[0]
    return out


def random_numbers() -> dict[str, Any]:
    return {
        "rand": fl.rand(1_000_003), "randn": fl.randn(1_000_003), "randint": fl.randint(0, 1000, (1_000_003,)), "randperm": fl.randperm(100_003),
        "bernoulli": fl.bernoulli(fl.rand(300_001)), "multinomial": fl.multinomial(fl.rand(50, 1000), 100), "dropout": F.dropout(fl.ones(1_000_003), 0.3),
        "exponential": fl.empty(300_001).exponential_(), "normal": fl.empty(300_001).normal_(1, 2),
    }  # fmt: skip


def indexing() -> dict[str, Any]:
    x = fl.randn(2000, 301, requires_grad=True)
    at = fl.randint(0, 37, (50_000,))  # with many duplicates
    source = fl.randn(50_000, 301)
    out = {
        "index_add": x.detach().index_add(0, at, source), "scatter_add": x.detach().scatter_add(0, at[:, None].expand(-1, 301), source),
        "put": x.detach().index_put((at,), source, accumulate=True), "bincount": fl.bincount(at, source[:, 0]),
        "gather": x.detach().gather(0, at[:2000, None].expand(-1, 301)), "nonzero": (x.detach() > 1).nonzero(), "masked": x.detach()[x.detach() > 1],
    }  # fmt: skip
    for mode in ("sum", "amax", "mean"):
        out[mode] = x.detach().scatter_reduce(0, at[:, None].expand(-1, 301), source, mode)
    y = x[at] * source
    out["grad"] = fl.autograd.grad(y.sum(), x)[0]
    table = nn.Embedding(1000, 65)
    words = fl.randint(0, 1000, (64, 200)) % 30
    (table(words) * fl.randn(64, 200, 65)).sum().backward()
    out["embedding"] = table.weight.grad
    return out


def losses() -> dict[str, Any]:
    x = fl.randn(3001, 129, requires_grad=True)
    target, soft = fl.randint(0, 129, (3001,)), fl.rand(3001, 129).softmax(1)
    each = {
        "cross_entropy": F.cross_entropy(x, target, label_smoothing=0.1, weight=fl.rand(129)), "soft": F.cross_entropy(x, soft), "nll": F.nll_loss(x.log_softmax(1), target),
        "mse": F.mse_loss(x, soft), "l1": F.l1_loss(x, soft), "smooth": F.smooth_l1_loss(x, soft), "huber": F.huber_loss(x, soft),
        "bce": F.binary_cross_entropy_with_logits(x, soft), "kl": F.kl_div(x.log_softmax(1), soft, reduction="batchmean"),
    }  # fmt: skip
    return each | {f"grad {n}": fl.autograd.grad(v, x, retain_graph=True)[0] for n, v in each.items()}


def norms_and_pools() -> dict[str, Any]:
    x = fl.randn(16, 24, 33, 35, requires_grad=True)
    weight, bias = fl.rand(24), fl.rand(24)
    each = {
        "batch": F.batch_norm(x, None, None, weight, bias, training=True), "group": F.group_norm(x, 6, weight, bias), "layer": F.layer_norm(x, [33, 35]),
        "instance": F.instance_norm(x), "rms": F.rms_norm(x, [35]), "max": F.max_pool2d(x, 3, 2, 1), "avg": F.avg_pool2d(x, 3, 2, 1), "adaptive": F.adaptive_avg_pool2d(x, 7),
        "up": F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), "near": F.interpolate(x, scale_factor=2),
    }  # fmt: skip
    last = x.to(memory_format=fl.channels_last)
    each |= {"batch last": F.batch_norm(last, None, None, weight, bias, training=True), "max last": F.max_pool2d(last, 3, 2, 1)}
    return each | {f"grad {n}": fl.autograd.grad((v * v).sum(), x)[0] for n, v in each.items()}


def optimizers() -> dict[str, Any]:
    out = {}
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam"):
        w = fl.randn(300_001, generator=fl.Generator().manual_seed(1)).requires_grad_()
        optimizer = getattr(fl.optim, name)([w], lr=0.01)
        for _ in range(3):
            w.grad = w.detach() * 0.3 + 0.1
            optimizer.step()
        out[name] = w
    w.grad = fl.randn(300_001)
    out["clipped"] = nn.utils.clip_grad_norm_([w], 1.0)
    return out


def mlp() -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(301, 513), nn.ReLU(), nn.LayerNorm(513), nn.Linear(513, 257), nn.GELU(), nn.Linear(257, 10))
    x, target = fl.randn(259, 301), fl.randint(0, 10, (259,))
    return train(model, lambda: F.cross_entropy(model(x), target), fl.optim.AdamW(model.parameters(), lr=1e-3))


def convnet() -> dict[str, Any]:
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 48, 3, stride=2, padding=1), nn.BatchNorm2d(48),
        nn.ReLU(), nn.Conv2d(48, 48, 3, groups=48, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10),
    )  # fmt: skip
    x, target = fl.randn(16, 3, 40, 40), fl.randint(0, 10, (16,))
    return train(model, lambda: F.cross_entropy(model(x), target), fl.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))


def attention() -> dict[str, Any]:
    model = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
    x = fl.randn(4, 130, 64)
    return train(model, lambda: (model(x) ** 2).mean(), fl.optim.Adam(model.parameters(), lr=1e-3))


def attention_of(*shapes: tuple[int, ...]) -> dict[str, Any]:
    out = {}
    for shape in shapes:
        q, k, v = (fl.randn(*shape, requires_grad=True) for _ in range(3))
        for causal in (False, True):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            out[f"y {shape} {causal}"] = y
            out |= {f"d{n} {shape} {causal}": g for n, g in zip("qkv", fl.autograd.grad((y * y).sum(), [q, k, v]))}
    return out


def attention_alone() -> dict[str, Any]:
    return attention_of((4, 4, 130, 32))


def attention_of_few_heads() -> dict[str, Any]:
    return attention_of((1, 1, 300, 32), (1, 3, 200, 40))


def products_with_factors() -> dict[str, Any]:
    a, b, c = fl.randn(200, 130), fl.randn(130, 170), fl.randn(200, 170)
    return {f"{alpha}, {beta}": fl.addmm(c, a, b, alpha=alpha, beta=beta) for alpha in (0.3, 3.0, 2.0) for beta in (0, 1, 0.7)}


def lstm() -> dict[str, Any]:
    model = nn.LSTM(65, 96, num_layers=2, batch_first=True)
    head = nn.Linear(96, 5)
    both = nn.ModuleList([model, head])
    x, target = fl.randn(33, 20, 65), fl.randint(0, 5, (33,))
    return train(both, lambda: F.cross_entropy(head(model(x)[0][:, -1]), target), fl.optim.RMSprop(both.parameters(), lr=1e-3))


def products() -> dict[str, Any]:
    a, b = fl.randn(301, 513), fl.randn(513, 257)
    return {
        "mm": a @ b, "transposed": a.t() @ a, "batched": fl.randn(9, 65, 129) @ fl.randn(9, 129, 33), "mv": a @ b[:, 0], "dot": a.reshape(-1) @ a.reshape(-1),
        "half": (a.bfloat16() @ b.bfloat16()).float(),
    }  # fmt: skip


def deep_products() -> dict[str, Any]:
    x = fl.randn(3, 100_003)
    return {"mm": x @ fl.randn(100_003, 5), "rows": x @ x.t(), "mv": x @ x[0]}


def double_products() -> dict[str, Any]:
    a, b = fl.randn(301, 513).double(), fl.randn(513, 257).double()
    return {"mm": a @ b, "transposed": a.t() @ a, "batched": fl.randn(9, 65, 129).double() @ fl.randn(9, 129, 33).double(), "mv": a @ b[:, 0]}


def products_with_few_columns_left() -> dict[str, Any]:
    """Of long rows by columns that lie as they are read; a part of the last columns alone is no other product than the whole."""
    fl.manual_seed(13)
    out = {}
    for m, n, k in ((11, 52, 513), (16, 34, 600), (24, 40, 600), (3, 70, 900), (70, 3, 900)):
        a, b = fl.randn(m, k, dtype=fl.float64), fl.randn(n, k, dtype=fl.float64)
        out |= {f"{m} x {n} x {k}": a @ b.T, f"{m} x {n} x {k}, again": fl.stack([a @ b.T for _ in range(50)])}
    return out


PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {
    f.__name__: f
    for f in (
        elementwise, reductions, scans_and_sorts, random_numbers, indexing, losses, norms_and_pools, optimizers, double_products, products_with_few_columns_left,
        mlp, convnet, attention, attention_alone, attention_of_few_heads, products_with_factors, lstm, products, deep_products,
    )
}  # fmt: skip
# What oneDNN's kernels make, or what is made of it.
ONEDNN = {"mlp", "convnet", "attention", "attention_of_few_heads", "products_with_factors", "lstm", "products", "deep_products"}


def main(names: list[str]) -> dict[str, Any]:
    """Hashes by program and part, how many threads there are, and whether the build has oneDNN."""
    before = len(os.listdir("/proc/self/task"))  # NumPy may have threads of its own
    found: dict[str, Any] = {"onednn": fl.backends.mkldnn.is_available()}
    for name in names:
        fl.manual_seed(0)
        found[name] = {part: digest(value) for part, value in PROGRAMS[name]().items()}
    found["threads"] = [fl.get_num_threads(), 1 + len(os.listdir("/proc/self/task")) - before]
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:] or list(PROGRAMS))))
