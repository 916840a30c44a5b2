"""Views that are copies, and what stands beside them in flambeau._copies."""

from __future__ import annotations

import pytest

import flambeau as fl

X = fl.arange(6.0).reshape(2, 3)
VIEWS = {
    "alias": (lambda x: x, ()),
    "diagonal": (lambda x: x.diagonal(), ()),
    "expand": (lambda x: x.expand(4, 2, 3), ((4, 2, 3),)),
    "narrow": (lambda x: x.narrow(1, 0, 2), (1, 0, 2)),
    "permute": (lambda x: x.permute(1, 0), ((1, 0),)),
    "squeeze": (lambda x: x.squeeze(), ()),
    "t": (lambda x: x.t(), ()),
    "transpose": (lambda x: x.transpose(0, 1), (0, 1)),
    "unsqueeze": (lambda x: x.unsqueeze(0), (0,)),
    "unfold": (lambda x: x.unfold(1, 2, 1), (1, 2, 1)),
    "view": (lambda x: x.view(3, 2), ((3, 2),)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_copy_has_memory_of_its_own(name):
    view, args = VIEWS[name]
    x = X.clone()
    found = getattr(fl, f"{name}_copy")(x, *args)
    assert fl.equal(found, view(X))
    found.zero_()
    assert fl.equal(x, X)


@pytest.mark.parametrize("name, args", [("unbind_copy", (0,)), ("split_with_sizes_copy", ([1, 1],))])
def test_copies_of_several_views(name, args):
    parts = getattr(fl, name)(X, *args)
    assert [p.reshape(-1).tolist() for p in parts] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_renorm():
    x = fl.tensor([[3.0, 4.0], [0.3, 0.4]])
    assert fl.allclose(fl.renorm(x, 2, 0, 1.0), fl.tensor([[0.6, 0.8], [0.3, 0.4]]))
    with pytest.raises(fl.ArgumentError, match="renorm: p = 2, maxnorm = -1; expected p > 0 and maxnorm >= 0"):
        fl.renorm(x, 2, 0, -1)


def test_nonzero_static():
    assert fl.nonzero_static(fl.tensor([0, 1, 2]), size=3).tolist() == [[1], [2], [-1]]
    assert fl.nonzero_static(fl.tensor([0, 1, 2]), size=1).tolist() == [[1]]


def test_empty_permuted():
    assert fl.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)
    with pytest.raises(fl.ArgumentError, match=r"physical_layout = \[0, 0\]; expected an order of the 2 axes"):
        fl.empty_permuted((2, 3), (0, 0))


@pytest.mark.parametrize(
    "name, args, median",
    [("cauchy_", (2.0, 0.5), 2.0), ("log_normal_", (0.0, 0.25), 1.0), ("geometric_", (0.3,), 2.0)],
)
def test_draws_have_their_median(name, args, median):
    fl.manual_seed(0)
    x = fl.empty(20001)
    assert getattr(x, name)(*args) is x
    assert x.median().item() == pytest.approx(median, abs=0.05)


@pytest.mark.parametrize("name, args", [("cauchy_", (0.0, 0.0)), ("log_normal_", (0.0, 0.0)), ("geometric_", (1.0,))])
def test_draws_refuse_what_is_no_distribution(name, args):
    with pytest.raises(fl.ArgumentError, match=f"{name}: "):
        getattr(fl.empty(2), name)(*args)


@pytest.mark.parametrize("to", [0, 1, 2, 7])
@pytest.mark.parametrize("start", [0, 1, 2, 7])
@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.int16])
def test_parts_of_one_memory_are_copied_as_from_another(start, to, dtype):
    """Parts that meet, that are the same and that lie apart, also with elements of another width."""
    x = fl.arange(24).to(dtype)
    expected = x.numpy().copy()
    expected[to : to + 8] = expected[start : start + 8].copy()
    version = x._version
    x[to : to + 8].copy_(x[start : start + 8])
    assert x.tolist() == expected.tolist()
    assert x._version > version
    y = fl.arange(24).to(dtype)
    whole = y.tolist()
    y[to : to + 8].copy_(y.flip(0)[start : start + 8])
    assert y.tolist()[to : to + 8] == whole[::-1][start : start + 8]
    bytes_of = fl.arange(64).to(fl.uint8)
    before = bytes_of.clone()
    bytes_of.view(fl.float32)[to : to + 4].copy_(bytes_of[8 * start : 8 * start + 4])
    assert bytes_of.view(fl.float32)[to : to + 4].tolist() == before[8 * start : 8 * start + 4].float().tolist()


def test_rows_that_are_exchanged_in_one_memory():
    x = fl.arange(12.0).view(3, 4)
    x.copy_(x.flip(0))
    assert x[0].tolist() == [8.0, 9.0, 10.0, 11.0]
    y = fl.arange(9.0).view(3, 3)
    y.copy_(y.t())
    assert y[0].tolist() == [0.0, 3.0, 6.0]
