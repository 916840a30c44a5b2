"""What pickle keeps of the order in which a tensor's axes lie in memory, and arrays that no tensor can be made of."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import flambeau as fl


def x():
    return fl.arange(24.0).view(2, 3, 4)


EXCHANGED = {
    "as it is": x,
    "matrix": lambda: x()[0].t(),
    "permuted": lambda: x().permute(2, 0, 1),
    "other way": lambda: x().permute(1, 2, 0),
    "16 bits": lambda: x().transpose(0, 2).bfloat16(),
    "bool": lambda: (x() > 3).transpose(0, 1),
    "meta": lambda: fl.empty(2, 3, device="meta").t(),
    "parameter": lambda: fl.nn.Parameter(x()[0].t()),
}


@pytest.mark.parametrize("name", EXCHANGED)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_exchanged_axes_come_back_exchanged(name, protocol):
    given = EXCHANGED[name]()
    found = pickle.loads(pickle.dumps(given, protocol))
    assert (type(found), found.shape, found.dtype, found.requires_grad) == (type(given), given.shape, given.dtype, given.requires_grad)
    assert found.stride() == given.stride()
    assert given.is_meta or bool((found == given).all())


@pytest.mark.parametrize(
    "given", [lambda: x()[:, ::2], lambda: x()[:1].expand(3, 3, 4), lambda: fl.zeros(2, 0, 3).permute(2, 0, 1)], ids=["step", "expand", "none"]
)
def test_others_come_back_contiguous(given):
    found = pickle.loads(pickle.dumps(given()))
    assert found.is_contiguous()
    assert found.tolist() == given().tolist()


@pytest.mark.parametrize("make", [fl.tensor, fl.as_tensor, fl.asarray, fl.from_numpy])
@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array(["a", "b"]), r"format '1w' have no"),
        (np.array([None, 1]), r"format 'O' have no"),
        (np.zeros(2, dtype=[("a", "f4")]), r"format 'T\{f:a:\}' have no"),
        (np.zeros(2, dtype="M8[D]"), r"elements are datetime64\[D\], which no tensor has; array.astype\('int64'\)"),
        (np.zeros(2, dtype="m8[s]"), r"elements are timedelta64\[s\], which no tensor has"),
    ],
    ids=["text", "objects", "records", "dates", "times"],
)
def test_arrays_without_a_type_here_say_which(make, array, said):
    with pytest.raises(TypeError, match=said):
        make(array)


@pytest.mark.parametrize("date", [np.datetime64("2020-01-01"), np.timedelta64(3, "D")], ids=str)
@pytest.mark.parametrize(
    "use", [fl.tensor, fl.as_tensor, fl.asarray, lambda d: fl.ones(2) + d, lambda d: fl.ones(2) == d, lambda d: fl.ones(2)[d], lambda d: fl.tensor([d])]
)
def test_a_date_is_no_number(date, use):
    """NumPy's scalars of dates lend memory without saying how it lies, which was read through a null pointer."""
    with pytest.raises((TypeError, ValueError)):
        use(date)
