"""Runs random convolutions, pools and products: `python guarded.py KIND SEED COUNT`. A case is printed before it runs.

Meant for `FLAMBEAU_ALLOCATOR=guard` (or `guard-front`), where an access beyond a buffer ends the process: the last line
says which case it was. Sizes are odd, small and sometimes those that published networks begin with.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F  # noqa: N812

CHANNELS = (1, 2, 3, 5, 8, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 80)
DTYPES = ("float32", "float32", "float32", "bfloat16", "float16")


def leaf(dtype: str, *sizes: int) -> fl.Tensor:
    return fl.randn(*sizes).to(getattr(fl, dtype)).requires_grad_()


def backward(y: fl.Tensor) -> None:
    (y * y).sum().backward()


def conv_case(r: random.Random) -> dict[str, Any]:
    rank = r.choice((1, 2, 2, 2, 2, 3))
    depthwise = r.random() < 0.2
    ci, co, groups = r.choice(CHANNELS), r.choice(CHANNELS), 1
    if depthwise:
        co = groups = ci
    elif r.random() < 0.25:
        groups = r.choice((2, 3, 4))
        ci, co = groups * r.choice((1, 3, 4, 8, 16)), groups * r.choice((1, 3, 4, 8, 16))
    kernel = r.choice((1, 1, 1, 2, 3, 3, 5, 7))
    extent = r.choice({1: (7, 33, 129, 400), 2: (5, 7, 14, 17, 28, 33, 56, 112), 3: (3, 5, 8)}[rank])
    batch = r.choice((1, 2, 3, 5))
    while batch * ci * co // groups * kernel**rank * extent**rank > 30_000_000 and extent > 7:
        extent //= 2
    return {
        "rank": rank, "ci": ci, "co": co, "groups": groups, "kernel": max(1, min(kernel, extent)), "extent": extent, "batch": batch,
        "stride": r.choice((1, 1, 2, 2, 3)), "dilation": r.choice((1, 1, 1, 2)), "padding": r.choice((0, 0, 1, 2)), "bias": r.random() < 0.5,
        "dtype": r.choice(DTYPES), "transposed": r.random() < 0.25, "before": r.random() < 0.3,
    }  # fmt: skip


def run_conv(c: dict[str, Any]) -> None:
    reach = (c["kernel"] - 1) * c["dilation"] + 1
    extent = max(c["extent"], reach)
    padding = min(c["padding"], c["kernel"] // 2)
    x = leaf(c["dtype"], c["batch"], c["ci"], *[extent] * c["rank"])
    if c["before"] and c["rank"] == 2:  # so that the operand itself lies channels last
        one = leaf(c["dtype"], c["ci"], c["ci"], 1, 1)
        source, x = x, F.conv2d(x, one).relu()
    else:
        source = x
    transposed = "_transpose" if c["transposed"] else ""
    shape = (c["ci"], c["co"] // c["groups"]) if transposed else (c["co"], c["ci"] // c["groups"])
    w = leaf(c["dtype"], *shape, *[c["kernel"]] * c["rank"])
    b = leaf(c["dtype"], c["co"]) if c["bias"] else None
    conv = getattr(F, f"conv{transposed}{c['rank']}d")
    for _ in range(2):  # the second use keeps prepared bytes
        y = conv(x, w, b, stride=c["stride"], padding=padding, dilation=c["dilation"], groups=c["groups"])
    backward(y)
    with fl.no_grad():
        for _ in range(2):
            conv(x, w, b, stride=c["stride"], padding=padding, dilation=c["dilation"], groups=c["groups"])
    assert source.grad is not None


def pool_case(r: random.Random) -> dict[str, Any]:
    return {
        "op": r.choice(("max", "avg", "adaptive_avg", "adaptive_max")), "channels": r.choice(CHANNELS), "extent": r.choice((3, 7, 14, 17, 33)),
        "batch": r.choice((1, 2, 3)), "kernel": r.choice((2, 3)), "stride": r.choice((1, 2, 3)), "padding": r.choice((0, 1)),
        "ceil": r.random() < 0.3, "dtype": r.choice(DTYPES), "before": r.random() < 0.6,
    }  # fmt: skip


def run_pool(c: dict[str, Any]) -> None:
    x = leaf(c["dtype"], c["batch"], 3, c["extent"], c["extent"] + 1)
    y = F.conv2d(x, leaf(c["dtype"], c["channels"], 3, 1, 1)) if c["before"] else x
    norm = nn.BatchNorm2d(y.shape[1]).to(y.dtype)
    y = norm(y).relu()
    if c["op"].startswith("adaptive"):
        backward(getattr(F, f"{c['op']}_pool2d")(y, c["kernel"]))
    else:
        pool = getattr(F, f"{c['op']}_pool2d")
        backward(pool(y, c["kernel"], c["stride"], c["padding"] if c["kernel"] > 1 else 0, ceil_mode=c["ceil"]))


def product_case(r: random.Random) -> dict[str, Any]:
    sizes = (1, 2, 3, 5, 7, 15, 16, 17, 31, 33, 48, 63, 65, 100, 129)
    return {
        "op": r.choice(("matmul", "linear", "bmm", "lstm", "attention", "strided", "mv")), "m": r.choice(sizes), "n": r.choice(sizes),
        "k": r.choice((*sizes, 300)), "batch": r.choice((1, 2, 5)), "dtype": r.choice((*DTYPES, "float64")), "ta": r.random() < 0.5,
        "tb": r.random() < 0.5, "bias": r.random() < 0.5,
    }  # fmt: skip


def run_product(c: dict[str, Any]) -> None:
    m, n, k, d = c["m"], c["n"], c["k"], c["dtype"]
    a = leaf(d, k, m).t() if c["ta"] else leaf(d, m, k)
    b = leaf(d, n, k).t() if c["tb"] else leaf(d, k, n)
    if c["op"] == "matmul":
        backward(a @ b)
    elif c["op"] == "mv":
        backward(a @ leaf(d, k))
    elif c["op"] == "strided":
        backward(leaf(d, m, 2 * k)[:, ::2] @ leaf(d, k + 1, n + 3)[1:, 3:])
    elif c["op"] == "bmm":
        backward(leaf(d, c["batch"], m, k) @ (leaf(d, c["batch"], n, k).transpose(1, 2) if c["tb"] else leaf(d, k, n)))
    elif c["op"] == "linear":
        layer = nn.Linear(k, n, bias=c["bias"]).to(getattr(fl, d))
        for _ in range(3):  # the weight is prepared from its second use on
            y = layer(a)
        backward(y)
        with fl.no_grad():
            for _ in range(3):
                layer(a)
    elif c["op"] == "attention":
        q, key, v = (leaf(d, c["batch"], 2, s, min(k, 65)) for s in (m, n, n))
        backward(F.scaled_dot_product_attention(q, key, v))
    else:
        lstm = nn.LSTM(min(k, 65), min(n, 65)).to(getattr(fl, d))
        backward(lstm(leaf(d, 3, c["batch"], min(k, 65)))[0])


# What networks begin with, and shapes that once went wrong.
FIRST: dict[str, list[dict[str, Any]]] = {
    "conv": [
        {"rank": 2, "ci": ci, "co": co, "groups": 1, "kernel": 1, "extent": extent, "batch": 1, "stride": 2, "dilation": 1, "padding": 0,
         "bias": False, "dtype": dtype, "transposed": False, "before": before}
        for ci, co, extent, before in ((2, 2, 8, True), (8, 8, 8, True), (3, 48, 224, False), (3, 64, 112, False), (3, 48, 57, True), (17, 48, 57, False), (64, 128, 57, True), (24, 80, 57, True), (40, 48, 57, True))
        for dtype in ("float32", "bfloat16")
    ] + [
        {"rank": 2, "ci": ci, "co": co, "groups": 1, "kernel": 3, "extent": extent, "batch": batch, "stride": 1, "dilation": 1, "padding": padding,
         "bias": True, "dtype": "float32", "transposed": transposed, "before": True}
        for ci, co, extent, batch in ((32, 32, 13, 2), (40, 72, 22, 1), (16, 24, 31, 2), (264, 32, 16, 1), (64, 40, 61, 3), (320, 288, 14, 2))
        for padding in (0, 1)
        for transposed in (False, True)
    ],
    "pool": [],
    "product": [],
}  # fmt: skip
MAKE = {"conv": conv_case, "pool": pool_case, "product": product_case}
RUN = {"conv": run_conv, "pool": run_pool, "product": run_product}


def main(kind: str, seed: int, count: int) -> None:
    r = random.Random(seed)
    for case in FIRST[kind] + [MAKE[kind](r) for _ in range(count)]:
        print(kind, case, flush=True)
        RUN[kind](case)
    print("whole", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
