"""Indices that a compiled function computes itself: they are checked when they have been computed, so nothing is read while it is recorded."""

import pytest

import flambeau as fl
from flambeau.nn import functional as F

FUNCTIONS = {
    "gather": lambda x: x.gather(0, x.argmax(0, keepdim=True)),
    "index_select": lambda x: x.index_select(0, x.argsort()[:2]),
    "index": lambda x: x[x.argsort()] * 2,
    "scatter": lambda x: x.scatter(0, x.argsort(), x),
    "index_add": lambda x: x.index_add(0, x.argsort(), x),
    "take_along_dim": lambda x: x.take_along_dim(x.argsort(), 0),
    "embedding": lambda x: F.embedding(x.argsort(), fl.arange(10.0).view(5, 2)),
    "one_hot": lambda x: F.one_hot(x.argsort(), 5),
    "cross_entropy": lambda x: F.cross_entropy(x[None], x.argmax(0, keepdim=True)),
}


def inputs():
    fl.manual_seed(0)
    return [fl.randn(5) for _ in range(12)]


@pytest.mark.parametrize("options", [{"fullgraph": True}, {"mode": "replay", "fullgraph": True}], ids=["recorded", "replayed"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_break_no_graph(name, options):
    function = FUNCTIONS[name]
    compiled = fl.compile(lambda x: function(x), **options)
    for x in inputs():
        assert fl.equal(compiled(x), function(x))
    if "mode" in options:
        assert "replayed; 1 program" in str(fl.compiler.explain(compiled))


@pytest.mark.parametrize("options", [{}, {"fullgraph": True}, {"mode": "replay"}], ids=["plain", "recorded", "replayed"])
def test_a_computed_index_out_of_range_is_refused_at_each_call(options):
    @fl.compile(**options)
    def f(x, i):
        return x.gather(0, i * 2)

    x = fl.arange(5.0)
    for k in range(9):
        assert f(x, fl.tensor([k % 3])).tolist() == [k % 3 * 2.0]
        with pytest.raises(IndexError, match="index 6 is out of bounds for dimension 0 with size 5"):
            f(x, fl.tensor([3]))
    assert f(x, fl.tensor([1])).tolist() == [2.0]


def test_what_is_caught_inside_is_caught_where_python_runs_the_call():
    @fl.compile
    def f(x, i):
        try:
            return x.gather(0, i + 1)
        except IndexError:
            return x[:1]

    x = fl.arange(3.0)
    assert [f(x, fl.tensor([i])).item() for i in (0, 1, 2, 0)] == [1.0, 2.0, 0.0, 1.0]
