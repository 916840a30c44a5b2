"""The ops that programs spend their time in, at three sizes, and strided at the middle one.

A size is that of the op's main operand: n = 32, 256 or 1024 for matrices [n, n], and what comes near it for
images, sequences and tables. Strided operands are transposed matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suites.case import Case

SIZES = {"small": 32, "middle": 256, "large": 1024}

# Statements over matrices x, y [n, n], a mask m, a row r [n], indices i [n], x01 in 0.1..0.9.
MATRICES = {
    "add": "x + y", "add number": "x + 1.5", "add row": "x + r", "sub": "x - y", "mul": "x * y", "div": "x / y", "pow": "x ** 2",
    "neg": "-x", "abs": "x.abs()", "exp": "x.exp()", "log": "x01.log()", "sqrt": "x01.sqrt()", "rsqrt": "x01.rsqrt()",
    "sin": "x.sin()", "tanh": "x.tanh()", "sigmoid": "x.sigmoid()", "erf": "x.erf()", "relu": "F.relu(x)", "gelu": "F.gelu(x)",
    "silu": "F.silu(x)", "leaky_relu": "F.leaky_relu(x)", "softplus": "F.softplus(x)", "clamp": "x.clamp(-1.0, 1.0)",
    "maximum": "tl.maximum(x, y)", "where": "tl.where(m, x, y)", "masked_fill": "x.masked_fill(m, 0.0)", "compare": "x > y",
    "add_": "z.add_(y)", "mul_ number": "z.mul_(1.0)", "copy_": "z.copy_(x)", "clone": "x.clone()", "cast": "x.double()",
    "sum": "x.sum()", "sum rows": "x.sum(1)", "sum columns": "x.sum(0)", "mean rows": "x.mean(1)", "var rows": "x.var(1)",
    "max": "x.max()", "argmax rows": "x.argmax(1)", "amax columns": "x.amax(0)", "norm": "x.norm()", "cumsum": "x.cumsum(1)",
    "softmax": "F.softmax(x, 1)", "log_softmax": "F.log_softmax(x, 1)", "layer_norm": "F.layer_norm(x, (n,))",
    "matmul": "x @ y", "matmul transposed": "x @ y.t()", "matrix vector": "x @ r",
}  # fmt: skip
# Statements that are the same for a strided operand, or have none.
OTHERS = {
    "transpose copy": "x.t().contiguous()", "cat": "tl.cat([x, y], 1)", "stack": "tl.stack([x, y])", "index_select": "x.index_select(0, i)",
    "gather": "x.gather(1, g)", "scatter_add": "x.scatter_add(1, g, y)", "index rows": "x[i]", "embedding": "F.embedding(i, x)",
    "sort": "x.sort(1)", "topk": "x.topk(5, 1)", "cross_entropy": "F.cross_entropy(x, i)", "mse_loss": "F.mse_loss(x, y)",
    "dropout": "F.dropout(x, 0.1)", "rand": "tl.rand(n, n)", "bmm": "tl.bmm(b, b)",
    "conv2d 3x3": "F.conv2d(image, w3, padding=1)", "conv2d 1x1": "F.conv2d(image, w1)",
    "depthwise conv2d": "F.conv2d(image, wd, padding=1, groups=c)",
    "max_pool2d": "F.max_pool2d(image, 2)", "avg_pool2d": "F.avg_pool2d(image, 2)",
    "batch_norm": "F.batch_norm(image, None, None, training=True)", "attention": "F.scaled_dot_product_attention(q, q, q)",
}  # fmt: skip


def operands(n: int, strided: bool) -> Callable[[Any], dict[str, Any]]:
    """Setup for operands of size n."""

    def setup(tl: Any) -> dict[str, Any]:
        tl.manual_seed(0)

        def matrix() -> Any:
            m = tl.randn(n, n)
            return m.t() if strided else m

        c, side = max(8, n // 16), {32: 4, 256: 16, 1024: 32}[n]
        x = matrix()
        return {
            "tl": tl, "F": tl.nn.functional, "n": n, "x": x, "y": matrix(), "z": matrix(), "r": tl.randn(n), "m": matrix() > 0,
            "x01": x.sigmoid() * 0.8 + 0.1, "i": tl.randint(0, n, (n,)), "g": tl.randint(0, n, (n, n)), "b": tl.randn(8, n // 4, n // 4),
            "c": c, "image": tl.randn(8, c, side, side), "w3": tl.randn(c, c, 3, 3), "w1": tl.randn(c, c, 1, 1), "wd": tl.randn(c, 1, 3, 3),
            "q": tl.randn(4, 4, max(8, n // 8), 32),
        }  # fmt: skip

    return setup


def _cases() -> list[Case]:
    cases = []
    for name, statement in {**MATRICES, **OTHERS}.items():
        layouts = [(size, n, False) for size, n in SIZES.items()]
        if name in MATRICES:
            layouts.append(("middle, strided", SIZES["middle"], True))
        for size, n, strided in layouts:
            cases.append(Case(f"{name}, {size}", "us", operands(n, strided), statement, max_ratio=1.15, headline=False))
    return cases


CASES = _cases()
