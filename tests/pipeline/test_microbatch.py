"""A batch as micro-batches, and back."""

from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest

import flambeau as fl
from flambeau.pipeline._microbatch import check, gather, plan, scatter

Pair = namedtuple("Pair", ["x", "y"])


def lengths(pieces):
    return [len(piece) for piece in pieces]


@pytest.mark.parametrize(
    "samples, chunks, chunk, even",
    [
        (8, 4, [2, 2, 2, 2], [2, 2, 2, 2]),
        (7, 4, [2, 2, 2, 1], [2, 2, 2, 1]),
        (5, 4, [2, 2, 1], [2, 1, 1, 1]),
        (9, 4, [3, 3, 3], [3, 2, 2, 2]),
        (2, 4, [1, 1], [1, 1]),
        (1, 4, [1], [1]),
        (0, 4, [0, 0, 0, 0], [0]),
        (5, 1, [5], [5]),
    ],
)
def test_plan(samples, chunks, chunk, even):
    assert plan(samples, chunks, "chunk") == chunk
    assert plan(samples, chunks, "even") == even
    x = fl.arange(samples * 2).reshape(samples, 2)
    assert lengths(scatter(x, chunks, "chunk")) == chunk
    assert lengths(scatter(x, chunks)) == even
    for rule in ("chunk", "even"):
        np.testing.assert_array_equal(gather(scatter(x, chunks, rule)).numpy(), x.numpy())


@pytest.mark.parametrize("samples", range(1, 12))
@pytest.mark.parametrize("chunks", range(1, 7))
def test_even_is_tensor_split(samples, chunks):
    if samples >= chunks:
        assert plan(samples, chunks) == lengths(fl.arange(samples).tensor_split(chunks))
    assert plan(samples, chunks, "chunk") == lengths(fl.arange(samples).chunk(chunks))
    assert min(plan(samples, chunks)) > 0


@pytest.mark.parametrize("batch", [7, 2, 1])
def test_indivisible_batches_do_not_warn(batch, recwarn):
    scatter(fl.rand(batch, 1), 4)
    scatter(fl.rand(batch, 1), 4, "chunk")
    assert not recwarn.list


@pytest.mark.parametrize("chunks", [0, -1])
def test_chunks_must_be_positive(chunks):
    with pytest.raises(ValueError, match=f"number of chunks must be positive integer, got {chunks}"):
        scatter(fl.rand(4), chunks)


def test_an_unknown_rule_is_named():
    with pytest.raises(ValueError, match="rule = 'odd'; expected one of 'chunk', 'even'"):
        scatter(fl.rand(4), 2, "odd")


def test_nests_keep_their_types_and_leaves():
    marker = object()
    given = OrderedDict(
        a=(fl.arange(5),), b=[fl.arange(10).reshape(5, 2), None], c=Pair(fl.ones(5), {"k": 3}), d=marker, e=[], f="text"
    )
    first, second = scatter(given, 2)
    assert type(first) is OrderedDict and list(first) == list(given)
    assert type(first["a"]) is tuple and len(first["a"]) == 1
    assert type(first["c"]) is Pair and first["c"].y == {"k": 3}
    assert first["d"] is marker and second["d"] is marker
    assert first["b"][1] is None and first["e"] == [] and first["f"] == "text"
    assert second["a"][0].tolist() == [3, 4] and second["b"][0].shape == (2, 2)
    back = gather([first, second])
    assert type(back) is OrderedDict and type(back["c"]) is Pair and back["d"] is marker
    assert back["b"][0].tolist() == given["b"][0].tolist()
    assert given["b"][0].shape == (5, 2)  # as it was


def test_a_dict_with_a_default_keeps_it():
    given = defaultdict(list, x=fl.arange(4))
    piece = scatter(given, 2)[0]
    assert type(piece) is defaultdict and piece["other"] == [] and "other" not in given


def test_all_tensors_are_split_by_one_plan():
    pieces = scatter((fl.arange(4), fl.arange(4)), 4)
    assert [[len(x) for x in piece] for piece in pieces] == [[1, 1]] * 4


@pytest.mark.parametrize("rule", ["chunk", "even"])
def test_different_numbers_of_samples(rule):
    """Split apart, 4 and 3 samples gave four and three pieces, and the fourth was lost."""
    with pytest.raises(ValueError, match=r"different sizes of dim 0 \(input\[0\]: 4, input\[1\]\['m'\]: 3\)"):
        scatter((fl.ones(4), {"m": fl.ones(3, 2)}), 4, rule)


def test_a_0d_tensor_says_what_to_do():
    with pytest.raises(ValueError, match=r"input\[1\] is a 0-d tensor; chunk expects at least a 1-dimensional tensor.*x\.item\(\)"):
        scatter((fl.ones(4), fl.tensor(1.0)), 2)
    with pytest.raises(ValueError, match="input is a 0-d tensor"):
        scatter(fl.tensor(1.0), 1)


@pytest.mark.parametrize("inputs", [(), [], {}, 42, None, "text", ((), [None])], ids=repr)
def test_no_tensor_at_all(inputs):
    with pytest.raises(TypeError, match="expected Tensor, but got"):
        scatter(inputs, 2)


@pytest.mark.parametrize("dtype", [fl.float32, fl.int64, fl.bool, fl.bfloat16], ids=str)
def test_every_type_of_element(dtype):
    x = fl.arange(5).to(dtype)
    y = gather(scatter(x, 3))
    assert y.dtype is dtype and y.tolist() == x.tolist()


def test_gradients_pass():
    x = fl.arange(5.0).requires_grad_()
    (gather([piece * (i + 1) for i, piece in enumerate(scatter(x, 2))])).sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 2, 2]


def test_a_tensor_that_stands_twice():
    x = fl.arange(3)
    for a, b in scatter((x, x), 3):
        assert a.tolist() == b.tolist()


# ---- gather


def test_gather_follows_the_first():
    assert gather([[fl.ones(1)], (fl.zeros(1),)])[0].tolist() == [1, 0]
    assert type(gather([[fl.ones(1)], (fl.zeros(1),)])) is list
    assert gather([(fl.arange(2), fl.arange(1)), (fl.arange(2), fl.arange(1))])[1].tolist() == [0, 0]


def test_gather_one():
    x = fl.ones(2)
    assert gather([x]) is x


def test_gather_nothing():
    with pytest.raises(ValueError, match="outputs is empty"):
        gather([])


@pytest.mark.parametrize("count", [1, 2])
def test_gather_0d(count):
    with pytest.raises(ValueError, match=r"output\['loss'\] of micro-batch 0 is a 0-d tensor.*unsqueeze\(0\)"):
        gather([{"loss": fl.tensor(1.0)}] * count)


@pytest.mark.parametrize(
    "outputs, text",
    [
        ([fl.ones(1), None], "output of micro-batch 1 is NoneType, that of micro-batch 0 is Tensor"),
        ([None, fl.ones(1)], "output of micro-batch 1 is Tensor, that of micro-batch 0 is NoneType"),
        ([(fl.ones(1),), (fl.ones(1), fl.ones(1))], "tuple of 2, that of micro-batch 0 is tuple of 1"),
        ([{"a": fl.ones(1)}, {"b": fl.ones(1)}], r"dict with keys \['b'\], that of micro-batch 0 is dict with keys \['a'\]"),
        ([(1, fl.ones(1)), (1, [fl.ones(1)])], r"output\[1\] of micro-batch 1 is list of 1"),
    ],
)
def test_gather_different_structures(outputs, text):
    with pytest.raises(TypeError, match=text.replace("Tensor", r"\S*Tensor")):
        gather(outputs)


def test_gather_different_leaves():
    with pytest.raises(ValueError, match=r"output\[1\] is 0.5 of micro-batch 0, but 0.25 of micro-batch 1"):
        gather([(fl.ones(1), 0.5), (fl.ones(1), 0.25)])
    with pytest.raises(ValueError, match="must be the same of all"):  # an array compares with no single answer
        gather([np.arange(2), np.arange(2)])


# ---- check


@pytest.mark.parametrize("value", [fl.ones(1), fl.tensor(1), (fl.ones(1),), (fl.ones(1), fl.arange(3))])
def test_check_accepts(value):
    check(value, "input")


@pytest.mark.parametrize(
    "value, kind",
    [
        ([fl.ones(1)], "list"),
        ({"x": fl.ones(1)}, "dict"),
        (42, "int"),
        (None, "NoneType"),
        ((), "an empty tuple"),
        ((fl.ones(1), None), "NoneType as element 1 of a tuple"),
        (((fl.ones(1),),), "tuple as element 0 of a tuple"),
    ],
    ids=repr,
)
def test_check_names_the_boundary(value, kind):
    with pytest.raises(TypeError, match=rf"expected Tensor, but got {kind} \(output of partition 1, layer 'relu'\)"):
        check(value, "output of partition 1, layer 'relu'")
