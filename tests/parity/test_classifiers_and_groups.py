"""Layers and losses in one, products by groups, and integrals along every axis, beside PyTorch's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from parity.programs import Refused, array, data, refusal, same  # noqa: E402

import flambeau as fl  # noqa: E402

OPTIONS = [None, {}, {"batch_chunk_size": 3}, {"chunking_method": "aspect_ratio:2"}, {"chunking_method": None}, {"batch_chunk_size": 100, "chunking_method": None, "acc_policy": "accurate"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_losses_of_linear_layers(options, reduction, dtype):
    def run(lib):
        F, found = lib.nn.functional, []
        x, w, b = (data(lib, *s).to(getattr(lib, dtype)).requires_grad_() for s in ((8, 4), (10, 4), (10,)))
        target = lib.tensor([1, 2, 9, 2, 0, 5, 5, 7])
        made = None if options is None else lib.nn.LinearCrossEntropyOptions(**options, allow_retain_graph=True)
        for weight in (None, lib.linspace(0.5, 2, 10, dtype=x.dtype)):
            for bias in (None, b):
                for ignored in (None, 2):
                    loss = F.linear_cross_entropy(x, w, target, linear_bias=bias, weight=weight, reduction=reduction, ignore_index=ignored, options=made)
                    leaves = [x, w] + ([] if bias is None else [b])
                    found += [loss, *lib.autograd.grad((loss * lib.arange(1.0, 1 + loss.numel(), dtype=x.dtype).view(loss.shape)).sum(), leaves)]
        return [*found, F.linear_cross_entropy(x[0], w, target[0], reduction=reduction, options=made)]

    same(run(fl), run(torch), reduction, rtol=2e-5, atol=2e-6)


def test_losses_of_several_kinds_of_classes():
    def run(lib):
        F, nn = lib.nn.functional, lib.nn
        x, w = data(lib, 3, 4, requires_grad=True), data(lib, 10, 4)
        classes = lib.tensor([[0, 1], [4, 2], [3, 3]])
        layer = nn.LinearCrossEntropyLoss(4, 5, out_features=(2,), bias=True, weight=lib.linspace(0.5, 1, 5), label_smoothing=0.1)
        layer.load_state_dict({"linear.weight": w, "linear.bias": data(lib, 10), "weight": lib.linspace(0.5, 1, 5)})
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            smoothed = F.linear_cross_entropy(x, w, lib.tensor([1, 2, 3]), label_smoothing=0.2, options=nn.LinearCrossEntropyOptions())
        wrong = [
            lambda: F.linear_cross_entropy(x, w, data(lib, 3, 10).softmax(1), ignore_index=1), lambda: F.linear_cross_entropy(x[0], w.view(5, 2, 4), classes[0]),
            lambda: F.linear_cross_entropy(x, w[:, :3], classes[:, 0]), lambda: F.linear_cross_entropy(x, w, classes[:, 0], linear_bias=lib.ones(3)),
            lambda: nn.LinearCrossEntropyOptions(batch_chunk_size=0), lambda: nn.LinearCrossEntropyOptions(chunking_method="halves"), lambda: nn.LinearCrossEntropyOptions(acc_policy="fast"),
            lambda: nn.LinearCrossEntropyLoss(4, 5, weight=lib.ones(3)), lambda: nn.LinearCrossEntropyLoss(4, 5, label_smoothing=2.0),
            lambda: F.linear_cross_entropy(x, w, classes[:, 0], options=nn.LinearCrossEntropyOptions(batch_chunk_size=2, chunking_method="aspect_ratio")),
        ]  # fmt: skip
        loss = F.linear_cross_entropy(x, w.view(5, 2, 4), classes)
        return [loss, lib.autograd.grad(loss, x)[0], layer(x, classes), smoothed, len(seen), F.linear_cross_entropy(x, w, data(lib, 3, 10).softmax(1)), sorted(layer.state_dict()),
                nn.LinearCrossEntropyOptions(batch_chunk_size=3) == nn.LinearCrossEntropyOptions(3 > 4, 3), *(Refused(refusal(call)) for call in wrong)]  # fmt: skip

    same(run(fl), run(torch), "several")


def test_chunks_of_half_numbers_add_up_in_float32():
    x, w, target = data(fl, 64, 8).bfloat16(), data(fl, 50, 8).bfloat16(), fl.arange(64) % 50
    chunked = fl.nn.functional.linear_cross_entropy(x, w, target, options=fl.nn.LinearCrossEntropyOptions(batch_chunk_size=8))
    exact = fl.nn.functional.cross_entropy(x.double() @ w.double().T, target)
    assert chunked.dtype == fl.bfloat16 and abs(chunked.item() - exact.item()) <= exact.item() * 2**-8


def test_logits_of_one_chunk_exist_at_a_time():
    x, w = fl.ones(64, 4, requires_grad=True), fl.ones(1000, 4)
    kept = []
    with fl.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        fl.nn.functional.linear_cross_entropy(x, w, fl.arange(64), options=fl.nn.LinearCrossEntropyOptions(batch_chunk_size=8))
    assert max(kept) <= 8 * 1000  # of 64 x 1000


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_products_by_groups(dtype):
    def run(lib):
        mm, kind, found = lib.nn.functional.grouped_mm, getattr(lib, dtype), []
        a, b, c, d = (data(lib, *s).to(kind).requires_grad_() for s in ((8, 16), (3, 16, 8), (3, 8, 16), (16, 8)))
        rows, inner = lib.tensor([2, 2, 8], dtype=lib.int32), lib.tensor([5, 16], dtype=lib.int32)
        for y, leaves in ((mm(a, b, offs=rows), (a, b)), (mm(c, b), (c, b)), (mm(c, d, offs=rows), (c, d)), (mm(a, d, offs=inner), (a, d)), (mm(a, b, offs=rows, out_dtype=kind), (a, b))):
            found += [y, *lib.autograd.grad((y * data(lib, *y.shape).to(kind)).sum(), leaves)]
        wrong = [lambda: mm(a, b), lambda: mm(c, b, offs=rows), lambda: mm(a, b, offs=rows.long()), lambda: mm(a, b, offs=rows[:2]), lambda: mm(a, b[:, :8], offs=rows), lambda: mm(a[0], b),
                 lambda: mm(a.double(), b.double(), offs=rows), lambda: mm(a, b, offs=rows, bias=lib.ones(8)), lambda: mm(a, b, offs=rows, out_dtype=lib.float64)]  # fmt: skip
        return [*found, *(Refused(refusal(call)) for call in wrong)]

    loose = 1e-5 if dtype == "float32" else 3e-2
    same(run(fl), run(torch), dtype, rtol=loose, atol=loose, strides=False)


def test_what_belongs_to_no_group_is_zero():
    y = fl.nn.functional.grouped_mm(fl.ones(4, 2), fl.ones(1, 2, 3), offs=fl.tensor([3], dtype=fl.int32))
    assert y.tolist() == [[2.0] * 3] * 3 + [[0.0] * 3]
    for offs in ([5], [3, 2]):
        with pytest.raises(ValueError, match=r"offs = \[.*expected numbers of 0 to 4, none smaller"):
            fl.nn.functional.grouped_mm(fl.ones(4, 2), fl.ones(len(offs), 2, 3), offs=fl.tensor(offs, dtype=fl.int32))


SHAPES = [(5,), (3, 4), (3, 4, 5), (2, 3, 4, 5)]


@pytest.mark.parametrize(("shape", "dim"), [(s, d) for s in SHAPES for d in range(-len(s), len(s))], ids=str)
def test_integrals_and_slopes_along_every_axis(shape, dim):
    def run(lib):
        y, found = lib.tensor(array(*shape).astype(np.float64)), []
        one = tuple(n if i == dim % len(shape) else 1 for i, n in enumerate(shape))
        for x in (None, (shape[dim],), shape, one):
            places = [] if x is None else [lib.tensor(array(*x, seed=3).astype(np.float64))]
            found += [lib.trapezoid(y, *places, dim=dim), lib.cumulative_trapezoid(y, *places, dim=dim)]
        if min(shape) > 2:
            at = lib.tensor(np.cumsum(np.arange(1.0, shape[dim] + 1)))
            found += [lib.gradient(y, spacing=s, dim=dim, edge_order=order) for s in (1, 0.5, [at]) for order in (1, 2)]
        return found

    same(run(fl), run(torch), str(shape), rtol=1e-9, atol=1e-12)


def test_older_names():
    with pytest.warns(FutureWarning, match=r"nn\.Container: deprecated"):
        made = fl.nn.Container(a=fl.nn.ReLU(), b=fl.nn.Linear(1, 1))
    assert list(dict(made.named_children())) == ["a", "b"] and repr(made).startswith("Container(")
    assert fl.legacy_contiguous_format is fl.contiguous_format and torch.legacy_contiguous_format == torch.contiguous_format
