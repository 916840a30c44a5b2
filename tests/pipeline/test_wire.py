"""Values as bytes for other processes: what goes over, and what is refused."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, namedtuple

import pytest

import flambeau as fl
from flambeau import _C
from flambeau.pipeline._stage import Packet
from flambeau.pipeline._wire import Packed, empty, unpack

Pair = namedtuple("Pair", ["a", "b"])


def over(value):
    """What arrives, in memory of its own."""
    packed = Packed(value)
    structure, specs = json.loads(json.dumps([packed.structure, packed.specs]))
    arrived = [empty(spec) for spec in specs]
    for new, sent in zip(arrived, packed.tensors):
        assert sent.is_contiguous() and sent.shape == new.shape and sent.dtype == new.dtype
        new.copy_(sent)
    return unpack(structure, arrived, specs)


DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_types_of_elements(dtype):
    x = fl.arange(6).reshape(2, 3).to(getattr(fl, dtype))
    y = over(x)
    assert y.dtype == x.dtype and bool((y == x).all())


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.t(),
        lambda x: x.reshape(2, 3, 2).permute(2, 0, 1),
        lambda x: x.reshape(1, 4, 1, 3).transpose(0, 3),
        lambda x: x.sum(),
        lambda x: x[:0],
    ],
    ids=["transposed", "permuted", "with axes of one", "0-d", "empty"],
)
def test_strides_arrive_as_they_were(make):
    x = make(fl.randn(4, 3))
    y = over(x)
    assert y.shape == x.shape and bool((y == x).all())
    assert [n for n, size in zip(y.stride(), y.shape) if size != 1] == [n for n, size in zip(x.stride(), x.shape) if size != 1]


@pytest.mark.parametrize("make", [lambda x: x[:, 1:], lambda x: x[:, :1].expand(4, 5), lambda x: x[::2]])
def test_others_arrive_contiguous(make):
    x = make(fl.randn(4, 3))
    y = over(x)
    assert y.is_contiguous() and bool((y == x).all())


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 2**70, 0.1, -0.0, math.inf, "text \u00e9\n", [], (), {}, [1, [2.5, (None,)]],
        {"a": 1, 2: (), None: [], (1, "b"): {}}, Pair(1, [2]), Packet((1, 2), (True, False)), fl.float16,
    ],
    ids=repr,
)  # fmt: skip
def test_structures(value):
    found = over(value)
    assert found == value and type(found) is type(value) and repr(found) == repr(value)


def test_nan():
    assert math.isnan(over(math.nan))


def test_a_dict_arrives_as_one():
    assert over(OrderedDict(a=1)) == {"a": 1}


def test_a_tensor_that_is_there_twice_is_sent_once():
    x = fl.ones(2)
    packed = Packed({"a": x, "b": [x, fl.ones(2)]})
    assert len(packed.tensors) == 2
    found = over({"a": x, "b": x})
    assert found["a"] is found["b"]


@pytest.mark.parametrize("value, kind", [({1}, "set"), ([object()], "object"), (b"", "bytes"), (1j, "complex"), (range(2), "range")])
def test_what_can_not_be_sent(value, kind):
    with pytest.raises(TypeError, match=f"a {kind} can not be sent to another process; expected tensors, numbers, str"):
        Packed(value)


def test_a_tensor_without_bytes_is_refused():
    with pytest.raises(TypeError, match="a tensor on meta can not be sent to another process"):
        Packed(fl.empty(2, device="meta"))


@pytest.mark.parametrize("module, name", [("nowhere", "Pair"), (__name__, "Nothing"), ("os", "system"), ("builtins", "tuple")])
def test_only_named_tuples_are_made(module, name):
    with pytest.raises(TypeError, match="which this process does not have"):
        unpack({"n": [module, name, [1]]}, [], [])


@pytest.mark.parametrize("sizes", [(2, 5, 4, 3), (3, 4, 7), (2, 3, 2, 4, 5), (1, 2, 1, 3)], ids=str)
def test_channels_that_lie_last_do_so_there(sizes):
    """A kernel may add in another order where bytes lie in another one."""
    conv = {3: fl.nn.Conv1d, 4: fl.nn.Conv2d, 5: fl.nn.Conv3d}[len(sizes)](sizes[1], sizes[1], 1)
    with fl.no_grad():
        x = conv(fl.randn(*sizes))
        before = _C.channel_rows(x)
        y = over(x)
        after = _C.channel_rows(y)
    assert (before is None) == (after is None) and fl.equal(x, y) and (before is None or fl.equal(before, after))
    if before is not None:
        _C.set_deferred_layout(False)
        try:
            assert fl.equal(over(x), x)  # to a process that has all tensors row-major
        finally:
            _C.set_deferred_layout(True)


def test_rows_of_channels_have_to_fit():
    for rows, sizes in ((fl.ones(6, 2), (2, 3, 3)), (fl.ones(6, 2), (12,)), (fl.ones(2, 6).t(), (3, 2, 2))):
        with pytest.raises(ValueError, match="which are no channels of a tensor of shape"):
            _C.from_channel_rows(rows, sizes)
