"""Elements of another type are not read as if they were of this one."""

import pytest

import flambeau as fl


@pytest.mark.parametrize("x, source", [("int64", "bool"), ("float32", "int32"), ("float64", "float16")])
def test_what_is_put_has_the_type_of_what_it_is_put_into(x, source):
    x, source = fl.ones(64, dtype=getattr(fl, x)), fl.ones(64, dtype=getattr(fl, source))
    index, mask = fl.arange(64), fl.ones(64, dtype=fl.bool)
    calls = (
        lambda: x.put(index, source), lambda: x.put_(index, source), lambda: x.put(index, source, accumulate=True),
        lambda: x.masked_scatter(mask, source), lambda: x.masked_scatter_(mask, source),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(TypeError, match=f"source is {str(source.dtype).split('.')[-1]}; expected"):
            call()
    assert x.tolist() == [1] * 64


def test_limits_of_types_are_not_written():
    """They are of everybody: there is one object for each type."""
    for limits in (fl.finfo(fl.float32), fl.finfo(), fl.iinfo(fl.int8)):
        most = limits.max
        with pytest.raises(AttributeError, match=r"max can not be written: it is what flambeau\.\w+ can hold"):
            limits.max = 0
        assert limits.max == most
