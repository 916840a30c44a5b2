"""Printing beside PyTorch: the same text for the same tensor, but for the library's name."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pytest
from beside import torch

import flambeau as fl

FLOATS = ["float32", "float64", "float16", "bfloat16"]
DTYPES = [*FLOATS, "int8", "uint8", "int16", "int32", "int64", "bool"]


@contextlib.contextmanager
def options(**given):
    try:
        for lib in (fl, torch):
            lib.set_printoptions(**given)
        yield
    finally:
        for lib in (fl, torch):
            lib.set_printoptions(profile="default")


@pytest.fixture(autouse=True)
def one_name(monkeypatch):
    """Which suffix fits on a line depends on the library's name, so PyTorch's texts are made with ours."""
    plain = torch._tensor_str._add_suffixes

    def renamed(body, suffixes, *rest, **kwargs):
        return plain(body, [s.replace("torch.", "flambeau.") for s in suffixes], *rest, **kwargs)

    monkeypatch.setattr(torch._tensor_str, "_add_suffixes", renamed)


def text(x):
    return repr(x).replace("torch.return_types", "flambeau.return_types")


def numbers(rng, dtype, count):
    if dtype == "bool":
        return [rng.random() < 0.5 for _ in range(count)]
    if dtype not in FLOATS:
        low, high = rng.choice([(0, 9), (0, 100), (-5, 5), (-128, 127), (0, 127), (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)])
        info = np.iinfo(dtype)
        return [rng.randint(max(low, info.min), min(high, info.max)) for _ in range(count)]
    kinds = {
        "normal": lambda: rng.gauss(0, 1),
        "whole": lambda: float(rng.randint(-20, 20)),
        "large whole": lambda: float(rng.randint(-(10**9), 10**9)),
        "tiny": lambda: rng.gauss(0, 1) * 10.0 ** rng.randint(-30, -3),
        "huge": lambda: rng.gauss(0, 1) * 10.0 ** rng.randint(3, 30),
        "tenths": lambda: rng.randint(-50, 50) / 10,
        "zero": lambda: rng.choice([0.0, -0.0]),
        "odd": lambda: rng.choice([float("nan"), float("inf"), float("-inf")]),
    }
    chosen = [kinds[k] for k in rng.sample(list(kinds), rng.choice([1, 1, 1, 2, 3]))]
    return [rng.choice(chosen)() for _ in range(count)]


def case(seed):
    """Options, and a tensor as (dtype, shape, elements, requires_grad, what is done to it)."""
    rng = random.Random(seed)
    dtype = rng.choice(DTYPES)
    axes = rng.choice([0, 1, 1, 1, 2, 2, 3, 4])
    shape = tuple(rng.choice([0, 1, 1, 2, 2, 3, 4, 5, 7, 9, 12] if axes > 1 else [0, 1, 2, 3, 5, 8, 13, 21, 34]) for _ in range(axes))
    if axes > 1 and 0 in shape and rng.random() < 0.8:
        shape = tuple(max(1, n) for n in shape)
    given = {}
    if rng.random() < 0.5:
        given = rng.choice(
            [
                dict(precision=rng.randint(0, 8)),
                dict(linewidth=rng.randint(10, 140)),
                dict(sci_mode=rng.choice([True, False])),
                dict(threshold=rng.choice([0, 3, 10, 40]), edgeitems=rng.choice([0, 1, 2, 3, 5])),
                dict(threshold=rng.choice([0, 10]), linewidth=rng.randint(20, 60), precision=rng.randint(1, 5), sci_mode=rng.choice([None, True])),
                dict(profile=rng.choice(["default", "short", "full"])),
                dict(profile="short", precision=3, sci_mode=rng.choice([None, True])),
            ]
        )
    count = int(np.prod(shape))
    grad = dtype in FLOATS and rng.random() < 0.3
    then = rng.choice([lambda x: x, lambda x: x, lambda x: x * 1, lambda x: x + 0, lambda x: x[None], lambda x: x.abs()]) if grad else lambda x: x
    return given, dtype, shape, numbers(rng, dtype, count), grad, then


def made(lib, dtype, shape, elements, grad, then):
    kind = getattr(lib, dtype)
    if dtype in FLOATS:
        x = lib.tensor(elements, dtype=lib.float64).reshape(shape).to(kind)
    else:
        x = lib.tensor(elements, dtype=kind).reshape(shape)
    return then(x.requires_grad_()) if grad else x


@pytest.mark.parametrize("block", range(12))
def test_random_tensors(block):
    for seed in range(1000 * block, 1000 * (block + 1)):
        given, *what = case(seed)
        with options(**given):
            ours, theirs = text(made(fl, *what)), text(made(torch, *what))
        assert ours == theirs, f"case({seed}): {given}, {what[:2]}"


@pytest.mark.parametrize("shape", [(1001,), (40, 40), (6, 7, 30), (2, 3, 4, 50), (1001, 1), (1, 1001), (7, 0, 300), ()], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_summaries(dtype, shape):
    count = int(np.prod(shape))
    ours, theirs = (made(lib, dtype, shape, [i % 100 for i in range(count)], False, None) for lib in (fl, torch))
    assert text(ours) == text(theirs)


@pytest.mark.parametrize("after", [dict(profile="default"), dict(precision=2), dict(profile="full"), dict()], ids=str)
@pytest.mark.parametrize("before", [dict(linewidth=30), dict(sci_mode=True), dict(profile="short", threshold=5), dict(threshold=float("inf"))], ids=str)
def test_options_follow_each_other(before, after):
    with options(**before), contextlib.ExitStack():
        for lib in (fl, torch):
            lib.set_printoptions(**after)
        for make in (lambda lib: lib.arange(50) / 7, lambda lib: lib.arange(1100.0), lambda lib: lib.tensor([1.0, 2.0])):
            assert text(make(fl)) == text(make(torch))


@pytest.mark.parametrize(
    "make",
    [
        lambda lib, x: x.max(0),
        lambda lib, x: x.min(1, keepdim=True),
        lambda lib, x: x.sort(),
        lambda lib, x: x.topk(2),
        lambda lib, x: x.median(0),
        lambda lib, x: x.kthvalue(1),
        lambda lib, x: x.cummax(0),
        lambda lib, x: x.mode(0),
    ],
    ids=["max", "min", "sort", "topk", "median", "kthvalue", "cummax", "mode"],
)
def test_named_results(make):
    assert text(make(fl, fl.arange(6.0).reshape(2, 3))) == text(make(torch, torch.arange(6.0).reshape(2, 3)))


# What made it: the last op that is a node of its own in both libraries.
NODES = [
    "x * 2", "x * x", "x + 1", "x - 1", "1 - x", "x / 2", "x / x", "-x", "x ** 2",
    "x.sum()", "x.sum(0)", "x.mean()", "x.mean(1)", "x.prod()", "x.prod(0)", "x.max()",
    "x.min()", "x.max(0)[0]", "x.min(0)[0]", "x.std()", "x.var(0)", "x.exp()", "x.log()",
    "x.sqrt()", "x.tanh()", "x.sigmoid()", "x.relu()", "x.abs()", "x.clone()", "x.t()",
    "x.view(16)", "x.unsqueeze(0)", "x.expand(2, 4, 4)", "x.permute(1, 0)", "x.transpose(0, 1)",
    "x.select(0, 0)", "x.clamp(0, 1)", "x.clamp(lib.zeros(4), lib.ones(4))", "lib.cat([x, x])", "lib.where(x > 0, x, x)",
    "x.softmax(0)", "lib.nn.functional.gelu(x)", "lib.nn.functional.layer_norm(x, (4,))", "x.cumsum(0)",
    "x.sort()[0]", "x.gather(0, lib.zeros(1, 4, dtype=lib.int64))", "x.to(lib.float64)", "x.maximum(x)",
    "x.squeeze()", "x.squeeze(0)", "x.amax()", "x.logsumexp(0)", "x.lerp(x, 0.5)", "x.atan2(x)",
    "lib.nn.functional.conv2d(x[None, None], x[None, None])", "lib.mm(x, x)", "x.masked_fill(x > 0, 1.0)",
    "x.index_select(0, lib.tensor([0]))", "x", "x.remainder(2)", "x.diagonal()", "x.mul(2).add_(1)",
]  # fmt: skip


@pytest.mark.parametrize("what", NODES)
def test_names_of_nodes(what):
    ours, theirs = (
        eval(what, {"lib": lib, "x": lib.arange(1.0, 17.0).reshape(4, 4).requires_grad_()}).grad_fn  # noqa: S307
        for lib in (fl, torch)
    )
    assert (ours and ours.name()) == (theirs and theirs.name())
    if ours is not None:
        # Whether what has no gradient is listed differs.
        before = [[node.name().split("::")[-1] for node, _ in fn.next_functions if node] for fn in (ours, theirs)]
        assert before[0] == before[1]
