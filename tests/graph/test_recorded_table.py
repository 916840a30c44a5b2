"""Every entry of the op table, by its samples: eager, under lazy, and as a graph that is recorded, saved, loaded and run."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from support.compare import bits
from support.table import arrays, call, cases, map_arrays, tensors

import flambeau as fl
from flambeau import _C
from flambeau.graph import Graph, GraphError, record

REGISTERED = frozenset(_C.graph.op_names())


def _apply(op, args, inplace):
    """The results, and what became of the arguments."""
    given = tensors(op, args)
    results = _results(op, given, inplace)
    return [*results, *_flat(given)]


def _results(op, given, inplace):
    return [getattr(_C.ops, op.name + "_")(**given)] if inplace else call(op, given)


def _flat(given):
    for value in given.values():
        for x in value if isinstance(value, list) else [value]:
            if isinstance(x, fl.Tensor):
                yield x


def _same(found, expected):
    assert len(found) == len(expected)
    for x, y in zip(found, expected):
        if not isinstance(y, fl.Tensor):
            assert x == y
        elif y.device.type == "meta":
            assert x.shape == y.shape
        else:
            assert (x.dtype, x.shape, x.stride()) == (y.dtype, y.shape, y.stride())
            assert bits(x) == bits(y)


def _filled(given, tensors):
    """The arguments of a call with other tensors."""
    xs = iter(tensors)

    def swap(value):
        return next(xs) if isinstance(value, fl.Tensor) else [swap(v) for v in value] if isinstance(value, list) else value

    return {name: swap(value) for name, value in given.items()}


def _check(op, args, inplace, path):
    fl.manual_seed(3)
    try:
        expected = _apply(op, args, inplace)
    except (fl.ShapeError, fl.DTypeError) as refused:  # an in-place form whose result does not fit
        with fl.lazy(), pytest.raises(type(refused)) as found:
            _apply(op, args, inplace)
        assert str(found.value) == str(refused)
        return
    fl.manual_seed(3)
    with fl.lazy():
        found = _apply(op, args, inplace)
    _same(found, expected)

    given = tensors(op, args)
    try:
        graph = record(lambda *xs: _results(op, _filled(given, xs), inplace), *_flat(given))
    except (GraphError, TypeError):
        # What looks at numbers to know its result's shape says so, or, as what gives no tensor, is a composition in C++.
        assert op.get("composite") == "native" or op.get("shape") == "by_value"
        return
    if op.ident in REGISTERED and not inplace:
        assert graph.nodes  # the op itself, or one that its wrapper prefers (pow, square)
    graph.save(path)
    for g in (graph, Graph.load(path)):
        inputs = list(_flat(tensors(op, args)))
        fl.manual_seed(3)
        _same([*g.run(*inputs), *inputs], expected)


@pytest.mark.parametrize("op, index", cases())
def test_entry(op, index, tmp_path):
    _check(op, arrays(op, index), False, tmp_path / "graph")


@pytest.mark.parametrize("op, index", cases(lambda op: op.get("inplace")))
def test_inplace(op, index, tmp_path):
    args = arrays(op, index)
    if not isinstance(args[op.first_tensor], np.ndarray):
        pytest.skip("the first argument is a number")
    _check(op, args, True, tmp_path / "graph")


@pytest.mark.parametrize("op, index", cases(lambda op: op.get("grad") or "composite" in op.keys))
def test_gradient(op, index):
    args = map_arrays(arrays(op, index), lambda a: a.astype(np.float64) if a.dtype.kind == "f" else a)
    formulas = {name.strip() for names in op.formulas for name in names.split(",")}

    def gradients(region):
        fl.manual_seed(3)
        given = tensors(op, args)
        with region:
            wanted = given if "composite" in op.keys else {name: x for name, x in given.items() if name in formulas}
            inputs = [x.requires_grad_() for x in _flat(wanted) if x.is_floating_point()]
            # A leaf must not be written; what is written is a tensor of its own.
            results = call(op, _filled(given, [x * 1 if x.requires_grad else x for x in _flat(given)]))
            results = [y for y in results if isinstance(y, fl.Tensor) and y.requires_grad]
            if not results:
                return []
            seeds = [fl.randn(y.shape, dtype=y.dtype) for y in results]
            return [*results, *(g for g in fl.autograd.grad(results, inputs, seeds, allow_unused=True) if g is not None)]

    expected = gradients(contextlib.nullcontext())
    if not expected:
        pytest.skip("no gradient in this sample")
    _same(gradients(fl.lazy()), expected)
