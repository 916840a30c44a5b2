"""default_collate and default_convert."""

from collections import deque, namedtuple

import numpy as np
import pytest

import flambeau as fl
from flambeau.utils.data import default_collate, default_convert

Point = namedtuple("Point", "x y")


def test_leaves():
    assert default_collate([1, 2]).dtype == fl.int64
    assert default_collate([1.0, 2.0]).dtype == fl.float64
    assert default_collate([True, False]).dtype == fl.bool
    assert default_collate([np.float32(1), np.float32(2)]).dtype == fl.float32
    assert default_collate([np.zeros(3), np.ones(3)]).shape == (2, 3)
    assert default_collate([fl.zeros(3), fl.ones(3)]).shape == (2, 3)
    assert default_collate(["a", "b"]) == ["a", "b"]


def test_containers():
    out = default_collate(
        [{"a": (1, [2.0]), "p": Point(1, 2)}, {"a": (3, [4.0]), "p": Point(5, 6)}]
    )
    assert out["a"][0].tolist() == [1, 3] and out["a"][1][0].tolist() == [2.0, 4.0]
    assert isinstance(out["p"], Point) and out["p"].y.tolist() == [2, 6]


@pytest.mark.parametrize(
    "batch, error, text",
    [
        ([fl.zeros(2), fl.zeros(3)], ValueError, r"got \[2\] at entry 0 and \[3\] at entry 1 of the batch, sample;"),
        ([{"a": fl.zeros(2)}, {"a": fl.zeros(3)}], ValueError, r"equal size, .* sample\['a'\];"),
        ([(1, 2), (1,)], ValueError, "1 entries in sample 1"),
        ([{"a": 1}, {"b": 1}], ValueError, "sample has no key a in sample 1"),
        ([(1, object())] * 2, TypeError, r"found .*object.* as sample\[1\]"),
    ],
)
def test_errors_name_the_place(batch, error, text):
    with pytest.raises(error, match=text):
        default_collate(batch)


def test_convert():
    out = default_convert({"a": np.arange(3), "b": ["x", 1]})
    assert isinstance(out["a"], fl.Tensor) and out["b"] == ["x", 1]


class Named(dict):
    title = None


def test_mappings_keep_their_type():
    from collections import OrderedDict, UserDict, defaultdict
    from types import MappingProxyType

    for make in (OrderedDict, UserDict, Named, dict, MappingProxyType):
        for got in (default_collate([make({"a": 1}), make({"a": 2})]), default_convert(make({"a": np.ones(2)}))):
            assert type(got) is make and isinstance(got["a"], fl.Tensor)
    samples = [defaultdict(list, a=1), defaultdict(list, a=2)]
    got = default_collate(samples)
    assert got["a"].tolist() == [1, 2] and got["new"] == [] and samples[0]["a"] == 1


@pytest.fixture
def table():
    from flambeau.utils.data.collate import default_collate_fn_map

    before = dict(default_collate_fn_map)
    yield default_collate_fn_map
    default_collate_fn_map.clear()
    default_collate_fn_map.update(before)


@pytest.mark.parametrize(
    "kind, add, batch, want",
    [
        (fl.Tensor, lambda x: x + 1, [fl.ones(1)] * 2, [[2.0], [2.0]]),
        (fl.Tensor, lambda x: x + 1, [np.ones(1)] * 2, [[2.0], [2.0]]),
        (float, lambda x: x * 2, [1.0, 2.0], [2.0, 4.0]),
        (int, lambda x: x * 2, [1, 2], [2, 4]),
        (str, lambda x: x + "!", ["a", "b"], ["a!", "b!"]),
        (bytes, lambda x: x + b"!", [b"a", b"b"], [b"a!", b"b!"]),
    ],
    ids=["tensor", "array", "float", "int", "str", "bytes"],
)
def test_what_replaces_a_function_of_the_table_can_call_it(table, kind, add, batch, want):
    before = table[kind]
    table[kind] = lambda leaves, *, collate_fn_map=None: before([add(x) for x in leaves], collate_fn_map=collate_fn_map)
    got, nested = default_collate(batch), default_collate([{"a": (x, 1)} for x in batch])["a"][0]
    for found in (got, nested):
        assert (found.tolist() if isinstance(found, fl.Tensor) else found) == want


def test_functions_of_the_table_alone(table):
    assert table[fl.Tensor]((fl.ones(1), fl.zeros(1))).tolist() == [[1.0], [0.0]]
    assert table[int]([True, False]).dtype == fl.bool and table[float]([1, 2]).dtype == fl.float64
    with pytest.raises(ValueError, match="stack expects each tensor to be equal size"):
        table[fl.Tensor]([fl.ones(1), fl.ones(2)])


def test_a_class_of_the_table_may_be_a_container(table):
    from flambeau.utils.data.collate import collate

    table[Named] = lambda batch, *, collate_fn_map=None: len(batch)
    assert default_collate([Named(a=1), Named(a=2)]) == 2
    assert collate([Named(a=1), Named(a=2)], collate_fn_map={int: table[int]})["a"].tolist() == [1, 2]


def test_texts_of_one_place_in_a_sample_are_a_tuple():
    assert default_collate([(1, "a"), (2, "b")])[1] == ("a", "b")
    assert default_collate([{"t": "a"}, {"t": "b"}]) == {"t": ["a", "b"]}


def test_converted_tuples_are_lists():
    Pair = namedtuple("Pair", "x y")
    assert default_convert((1, (2, "a"))) == [1, [2, "a"]]
    assert default_convert(Pair(1, "a")) == Pair(1, "a") and type(default_convert(Pair(1, "a"))) is Pair


class Marked(list):
    tag = 3


def test_sequences_keep_their_class():
    made = default_collate([Marked([1, 2]), Marked([3, 4])])
    assert type(made) is Marked and [x.tolist() for x in made] == [[1, 3], [2, 4]]
    assert type(default_collate([deque([1]), deque([2])])) is deque and type(default_convert(Marked([np.ones(1)]))) is Marked
    assert type(default_collate([range(2), range(2)])) is list, "a range can not hold tensors"


@pytest.mark.parametrize("value", [np.datetime64(1, "s"), np.array(1, dtype="m8[s]")])
def test_times_are_no_numbers(value):
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found a"):
        default_collate([value])


def test_further_keys_of_a_sample_are_left_out_and_missing_ones_are_key_errors():
    assert default_collate([{"a": 1}, {"a": 2, "b": 3}])["a"].tolist() == [1, 2]
    with pytest.raises(KeyError) as error:
        default_collate([{"x": {"a": 1, "b": 2}}, {"x": {"b": 2}}])
    assert str(error.value).startswith("default_collate: sample['x'] has no key a in sample 1 of the batch, but ['b']")


def test_arrays_that_can_not_be_shared_are_batched_as_others():
    plain = np.arange(6, dtype=np.float32).reshape(2, 3)
    fixed = plain.copy()
    fixed.flags.writeable = False
    for array in (plain, fixed, plain[::-1][::-1], np.asfortranarray(plain), plain[:, ::-1][:, ::-1]):
        batch = default_collate([array, array])
        assert batch.tolist() == [plain.tolist()] * 2
        batch.zero_()
        assert array.tolist() == plain.tolist()
    turned = default_collate([plain[::-1], plain])
    assert turned[0].tolist() == plain[::-1].tolist()
