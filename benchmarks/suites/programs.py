"""Statements to which programs lost their time that nobody had timed: conformers, recommenders, boxes, experts, loops over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suites.case import Case

DEPTHWISE = [  # name, of the input, of the window, padding
    ("8 x 96 x 100 by 31", (8, 96, 100), (96, 1, 31), 15),
    ("8 x 64 x 1000 by 4", (8, 64, 1000), (64, 1, 4), 3),
    ("8 x 96 x 32 x 32 by 7 x 7", (8, 96, 32, 32), (96, 1, 7, 7), 3),
    ("8 x 96 x 32 x 32 by 3 x 3", (8, 96, 32, 32), (96, 1, 3, 3), 1),
    ("4 x 64 x 28 x 28 by 31 x 31", (4, 64, 28, 28), (64, 1, 31, 31), 15),
]
WHOLE = [
    ("4 x 512 x 7 x 7 by 4096", (4, 512, 7, 7), (4096, 512, 7, 7)),
    ("8 x 96 x 1 x 1 by 24", (8, 96, 1, 1), (24, 96, 1, 1)),
    ("64 x 512 x 4 x 4 by 1", (64, 512, 4, 4), (1, 512, 4, 4)),
]
STATEMENTS: list[tuple[str, dict[str, str], str]] = [
    ("bool: a & b", {"a": "tl.randn(512, 512) > 0", "b": "tl.randn(512, 512) > 0"}, "a & b"),
    ("bool: a == b", {"a": "tl.randn(512, 512) > 0", "b": "tl.randn(512, 512) > 0"}, "a == b"),
    ("int64: x // 3", {"x": "tl.randint(1, 100, (512, 512))"}, "x // 3"),
    ("int64: x // y", {"x": "tl.randint(1, 100, (512, 512))", "y": "tl.randint(1, 100, (512, 512))"}, "x // y"),
    ("complex rows: sum", {"x": "tl.randn(256, 256, dtype=tl.complex64)"}, "x.sum(1)"),
    ("complex rows: cumsum", {"x": "tl.randn(256, 256, dtype=tl.complex64)"}, "x.cumsum(1)"),
    ("every other column: sum of rows", {"x": "tl.randn(512, 1024)[:, ::2]"}, "x.sum(1)"),
    *((f"256 x 64 x 5 x 32: {f}(-2)", {"x": "tl.randn(256, 64, 5, 32)"}, f"x.{f}(-2)") for f in ("amax", "sum", "mean", "prod")),
    *(
        (
            f"256 x 64 x 5 x 32: {f}(-2) with gradient",
            {"x": "tl.randn(256, 64, 5, 32, requires_grad=True)"},
            f"tl.autograd.grad(x.{f}(-2).sum(), x)",
        )
        for f in ("prod", "cumprod", "amax")
    ),
    ("5 x 100000: prod(0)", {"x": "tl.randn(5, 100000)"}, "x.prod(0)"),
    (
        "planes between indices",
        {
            "x": "tl.randn(2, 32, 48, 48)",
            "b": "tl.randint(0, 2, (64, 1, 1))",
            "i": "tl.randint(0, 48, (64, 14, 1))",
            "j": "tl.randint(0, 48, (64, 1, 14))",
        },
        "x[b, :, i, j]",
    ),
    *(
        (
            f"embedding_bag of 512 bags{', sparse' if sparse else ''}",
            {"w": f"tl.randn(3000, 32, requires_grad={sparse})", "ix": "tl.randint(0, 3000, (1024,))", "of": "tl.arange(512) * 2"},
            f"F.embedding_bag(ix, w, of, mode='sum', sparse={sparse})",
        )
        for sparse in (False, True)
    ),
    *(
        (
            f"{n} experts with gradient",
            {"w": f"tl.randn({n}, 512, 128, requires_grad=True)", "x": f"tl.randn({512 // n}, 128)"},
            f"tl.autograd.grad(sum(F.linear(x, w[e]).sum() for e in range({n})), w)",
        )
        for n in (16, 64)
    ),
    (
        "a loop over time with gradient",
        {"x": "tl.randn(32, 100, 64, requires_grad=True)"},
        "tl.autograd.grad(sum(x[:, t].sum() for t in range(100)), x)",
    ),
    (
        "a loop of indices with gradient",
        {"x": "tl.randn(512, 256, requires_grad=True)", "i": "tl.randint(0, 512, (16, 64))"},
        "tl.autograd.grad(sum(x[k].sum() for k in i), x)",
    ),
    (
        "three chunks with gradient",
        {"x": "tl.randn(8, 128, 768, requires_grad=True)"},
        "q, k, v = x.chunk(3, -1); tl.autograd.grad((q * k * v).sum(), x)",
    ),
    (
        "conv_transpose2d of one position with gradients",
        {"x": "tl.randn(64, 100, 1, 1, requires_grad=True)", "w": "tl.randn(100, 512, 4, 4, requires_grad=True)"},
        "tl.autograd.grad(F.conv_transpose2d(x, w).sum(), (x, w))",
    ),
]


def _names(given: dict[str, str]) -> Callable[[Any], dict[str, Any]]:
    def setup(tl: Any) -> dict[str, Any]:
        tl.manual_seed(0)
        return {"tl": tl, "F": tl.nn.functional, **{name: eval(text, {"tl": tl}) for name, text in given.items()}}

    return setup


def _convolution(x: tuple[int, ...], w: tuple[int, ...]) -> Callable[[Any], dict[str, Any]]:
    def setup(tl: Any) -> dict[str, Any]:
        tl.manual_seed(0)
        conv = tl.nn.functional.conv1d if len(x) == 3 else tl.nn.functional.conv2d
        return {
            "tl": tl,
            "conv": conv,
            "x": tl.randn(*x),
            "w": tl.randn(*w),
            "gx": tl.randn(*x, requires_grad=True),
            "gw": tl.randn(*w, requires_grad=True),
        }

    return setup


CASES = [
    *(Case(name, "us", _names(given), statement, max_ratio=1.15, headline=False) for name, given, statement in STATEMENTS),
    *(
        Case(f"{kind} {name}, {what}", "us", _convolution(x, w), statement.format(more), max_ratio=1.15, headline=False)
        for kind, name, x, w, more in (
            *(("depthwise", name, x, w, f", None, 1, {padding}, groups={w[0]}") for name, x, w, padding in DEPTHWISE),
            *(("whole window", name, x, w, "") for name, x, w in WHOLE),
        )
        for what, statement in (
            ("forward", "conv(x, w{})"),
            ("the input's gradient", "tl.autograd.grad(conv(gx, w{}).sum(), gx)"),
            ("the weight's gradient", "tl.autograd.grad(conv(x, gw{}).sum(), gw)"),
        )
    ),
]
