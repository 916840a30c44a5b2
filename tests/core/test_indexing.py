"""x[...] and x[...] = v against NumPy; views; shapes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import flambeau as fl

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def filled(shape):
    a = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
    return a, fl.tensor(a)


@st.composite
def basic(draw):
    """A shape and an index of ints, slices with positive steps, None and Ellipsis."""
    shape = draw(shapes)
    index, used, dots = [], 0, False
    for n in shape:
        kind = draw(st.integers(0, 6))
        if kind == 0 and not dots:
            index.append(Ellipsis)
            dots = True
            used = None
            break
        if kind == 1:
            index.append(None)
        if kind == 2 and n > 0:
            index.append(draw(st.integers(-n, n - 1)))
        elif kind == 6:
            break
        else:
            bound = st.one_of(st.none(), st.integers(-n - 2, n + 2))
            index.append(slice(draw(bound), draw(bound), draw(st.one_of(st.none(), st.integers(1, 3)))))
    del used
    return shape, tuple(index)


@st.composite
def advanced(draw):
    """A shape and an index with integer arrays, masks, slices and None mixed.

    No ints: NumPy counts them among the arrays, PyTorch selects first; see tests/parity.
    """
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    together = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    index, axis, seen_mask = [], 0, False
    while axis < len(shape):
        n = shape[axis]
        kind = draw(st.integers(0, 6))
        if kind <= 1:
            index.append(draw(hnp.arrays(np.int64, together, elements=st.integers(-n, n - 1))))
        elif kind == 2 and not seen_mask and together == (1,):
            width = draw(st.integers(1, min(2, len(shape) - axis)))
            mask = np.zeros(shape[axis : axis + width], bool)
            mask.reshape(-1)[draw(st.integers(0, mask.size - 1))] = True  # one element: broadcasts with [1]
            index.append(mask)
            seen_mask = True
            axis += width - 1
        elif kind == 4:
            index.append(None)
            continue
        elif kind == 5:
            break
        else:
            bound = st.one_of(st.none(), st.integers(-n - 1, n + 1))
            index.append(slice(draw(bound), draw(bound), draw(st.one_of(st.none(), st.integers(1, 2)))))
        axis += 1
    return shape, tuple(index)


def ours(index):
    return tuple(fl.tensor(i) if isinstance(i, np.ndarray) else i for i in index)


@pytest.mark.slow
@given(basic())
def test_basic_read(case):
    shape, index = case
    a, x = filled(shape)
    got = x[index]
    np.testing.assert_array_equal(got.numpy(), a[index])
    if got.numel():
        got.fill_(-1)  # a view
        assert (x == -1).sum().item() == got.numel()


@pytest.mark.slow
@given(basic())
def test_basic_write(case):
    shape, index = case
    a, x = filled(shape)
    value = -np.arange(1.0, 1 + a[index].size).reshape(a[index].shape)
    a[index] = value
    x[index] = fl.tensor(value)
    np.testing.assert_array_equal(x.numpy(), a)


@pytest.mark.slow
@given(advanced())
def test_advanced_read(case):
    shape, index = case
    a, x = filled(shape)
    np.testing.assert_array_equal(x[ours(index)].numpy(), a[index])
    np.testing.assert_array_equal(x.t().contiguous().t()[ours(index)].numpy() if x.ndim == 2 else x[ours(index)].numpy(), a[index])


@pytest.mark.slow
@given(advanced())
def test_advanced_write(case):
    shape, index = case
    a, x = filled(shape)
    a[index] = -5.0
    x[ours(index)] = -5.0
    np.testing.assert_array_equal(x.numpy(), a)


@pytest.mark.slow
@given(advanced())
def test_advanced_write_broadcasts(case):
    shape, index = case
    a, x = filled(shape)
    part = a[index]
    if part.ndim == 0:
        return
    value = -np.arange(1.0, 1 + part.shape[-1])
    flat = np.arange(a.size).reshape(shape)[index]
    if np.unique(flat).size != flat.size:
        return  # several values for one place: the order is open
    a[index] = value
    x[ours(index)] = fl.tensor(value)
    np.testing.assert_array_equal(x.numpy(), a)


@pytest.mark.slow
@given(hnp.array_shapes(max_dims=3, max_side=4), st.data())
def test_masks(shape, data):
    a, x = filled(shape)
    mask = data.draw(hnp.arrays(bool, shape))
    np.testing.assert_array_equal(x[fl.tensor(mask)].numpy(), a[mask])
    a[mask] = 9
    x[fl.tensor(mask)] = 9
    np.testing.assert_array_equal(x.numpy(), a)


FORMS = [
    ([0, 2], "list"), (([[0, 1], [1, 2]],), "nested"), ((slice(None), [0, 1]), "list_in_tuple"), (np.array([1, 0]), "array"),
    (range(2), "range"), ([True, False, True], "bools"), (fl.tensor(1), "0-d"), (fl.tensor([1, 2], dtype=fl.int8), "int8"),
    (fl.tensor([1, 2], dtype=fl.int32), "int32"), (True, "true"), (fl.zeros(0, dtype=fl.int64), "empty"), ([], "empty_list"),
]  # fmt: skip


@pytest.mark.parametrize("index", [f for f, _ in FORMS], ids=[n for _, n in FORMS])
def test_forms_of_an_index(index):
    a, x = filled((3, 4))
    if isinstance(index, fl.Tensor):
        plain = index.numpy()
    else:
        plain = np.array(index, dtype=np.int64) if isinstance(index, list) and not index else list(index) if isinstance(index, range) else index
    np.testing.assert_array_equal(x[index].numpy(), a[plain])


@pytest.mark.parametrize(
    "index",
    [
        [[0, 1], [1, 3]], [fl.tensor([0, 1]), fl.tensor([2, 3])], [np.array([0, 1]), np.array([2, 3])], [slice(0, 2), 1], [..., 1], [None, 0], [0, [1, 2]],
        [[True, False, True]], [fl.tensor([True, False, True])], [[0, 1]], [range(2), range(2)], [fl.tensor(1), fl.tensor(2)],
    ],
    ids=range(12),
)  # fmt: skip
def test_a_list_of_more_than_numbers_is_a_tuple(index):
    """As PyTorch reads it; as one index each of these would be something else."""
    a, x = filled((3, 4))
    plain = tuple(i.numpy() if isinstance(i, fl.Tensor) else list(i) if isinstance(i, range) else i for i in index)
    with pytest.warns(UserWarning, match="read as the tuple of its items"):
        got = x[index]
    np.testing.assert_array_equal(got.numpy(), a[plain])
    a[plain] = 9
    with pytest.warns(UserWarning, match="read as the tuple of its items"):
        x[index] = 9
    np.testing.assert_array_equal(x.numpy(), a)


def test_lists_that_are_one_index():
    _, x = filled((3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x[[0, 1]].shape == (2, 4)
        assert x[[[0]] * 33].shape == (33, 1, 4)  # too many for a tuple of axes
        assert x[[np.int64(1), np.int64(0)]].shape == (2, 4)
        assert x[range(2)].shape == (2, 4)


@pytest.mark.parametrize(
    "index, kind, text",
    [
        (3, IndexError, "3.*dimension 0.*3"),
        ((0, -5), IndexError, "-5.*dimension 1"),
        ((0, 0, 0), IndexError, "too many indices.*: 3"),
        (([0, 3],), IndexError, "3"),
        (([0, 1], [0, 1, 2]), fl.RangeError, "broadcast"),
        (slice(None, None, -1), ValueError, "step"),
        (slice(None, None, 0), ValueError, "step"),
        ((Ellipsis, Ellipsis), IndexError, "ellipsis|\\.\\.\\."),
        ("a", (TypeError, IndexError), "str"),
        (1.5, (TypeError, IndexError), "float"),
    ],
    ids=["int", "negative", "too_many", "in_list", "broadcast", "negative_step", "zero_step", "two_ellipses", "text", "float"],
)
def test_wrong_indices(index, kind, text):
    x = fl.arange(12.0).reshape(3, 4)
    with pytest.raises(kind, match=f"(?i){text}"):
        x[index]
    with pytest.raises(kind):
        x[index] = 0.0
    assert x.tolist() == np.arange(12.0).reshape(3, 4).tolist()


def test_wrong_masks():
    x = fl.zeros(3, 4)
    with pytest.raises(IndexError, match=r"\[2\]|\[4\]"):
        x[fl.tensor([True, False])]
    with pytest.raises((IndexError, TypeError, fl.DTypeError)):
        x[fl.tensor([0.5])]


def test_writes_that_do_not_fit_change_nothing():
    x = fl.zeros(3, 4)
    for index, value in [((0,), fl.ones(3)), ((slice(None),), fl.ones(2, 4)), ((fl.tensor([0, 1]),), fl.ones(3, 4))]:
        with pytest.raises((fl.ShapeError, ValueError)):
            x[index] = value
    assert x.sum().item() == 0 and x._version == 0


def test_writes_convert_to_the_type():
    x = fl.zeros(3, dtype=fl.int32)
    x[0] = 2.7
    x[1] = True
    x[2] = fl.tensor(5.9)
    assert x.tolist() == [2, 1, 5]


def test_write_from_an_overlapping_view():
    x = fl.arange(6)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x = fl.arange(6)
    x[:-1] = x[1:]
    assert x.tolist() == [1, 2, 3, 4, 5, 5]
    x = fl.arange(9).reshape(3, 3)
    x[:] = x.t()
    assert x.tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_inplace_ops_on_overlapping_operands():
    x = fl.arange(6)
    x[1:].add_(x[:-1])
    assert x.tolist() == [0, 1, 3, 5, 7, 9]
    x = fl.arange(4.0).reshape(2, 2)
    x.add_(x.t())
    assert x.tolist() == [[0.0, 3.0], [3.0, 6.0]]
    x = fl.arange(8.0)
    x.copy_(x.flip(0))
    assert x.tolist() == list(range(7, -1, -1))


def test_accumulating_writes():
    x = fl.zeros(3)
    x.index_put_((fl.tensor([0, 0, 2]),), fl.ones(3), accumulate=True)
    assert x.tolist() == [2.0, 0.0, 1.0]
    x[[0, 0]] += 1
    assert x.tolist() == [3.0, 0.0, 1.0]


POSITIONS = {
    "none_before": (None, [2, 0]), "none_alone": (None,), "none_behind": ([1, 0], None), "nothing": (), "int32": (np.array([1, 2], np.int32),),
    "mask": (np.arange(12).reshape(3, 4) % 3 == 0,), "mask_of_an_axis": (None, np.array([True, False, True, True])),
    "mask_beside_positions": (np.array([True, False, True]), [3, 1]), "empty_mask": (np.zeros((3, 4), bool),),
}  # fmt: skip


@pytest.mark.parametrize("at", POSITIONS.values(), ids=list(POSITIONS))
def test_writing_at_positions_masks_and_all(at):
    x = np.arange(12.0).reshape(3, 4)
    where = tuple(slice(None) if i is None else i for i in at)
    given = tuple(None if i is None else fl.tensor(i) for i in at)
    value = np.full(x[where].shape, 50.0)
    expected, added = x.copy(), x.copy()
    expected[where], added[where] = value, added[where] + value
    assert np.array_equal(fl.index_put(fl.from_numpy(x), given, fl.from_numpy(value)), expected)
    assert np.array_equal(fl.from_numpy(x).clone().index_put_(given, fl.tensor(50.0), accumulate=True), added)
    leaf = fl.from_numpy(x).requires_grad_()
    fl.index_put(leaf, given, fl.from_numpy(value)).sum().backward()
    assert np.array_equal(leaf.grad, np.where(expected == 50.0, 0.0, 1.0))


@pytest.mark.parametrize(
    "at, error",
    [
        ((None, None, [0]), "3 indices for x with shape"), (([[True, False]],), "shape of the mask"), ((None, [[True]]), "has more axes than are left"),
        (([0.5],), "tensors used as indices must be"), ((True,), "a mask without axes"), ((None, [4]), "index 4 is out of bounds for dimension 1"), (("a",), "a Tensor or None"),
    ],
    ids=str,
)  # fmt: skip
def test_positions_that_are_refused(at, error):
    x = fl.zeros(3, 4)
    with pytest.raises((IndexError, TypeError), match=error):
        x.index_put_(tuple(i if i is None or isinstance(i, str) else fl.tensor(i) for i in at), fl.tensor(1.0))
    assert x.sum().item() == 0


def test_augmented_assignment_through_an_index():
    x = fl.zeros(2, 3)
    x[0] += 1
    x[:, 1] *= 5
    x[x > 4] -= 1
    assert x.tolist() == [[1.0, 4.0, 1.0], [0.0, 0.0, 0.0]]


# ---------------------------------------------------------------- views

VIEWS = {
    "t": lambda x: x.t(), "transpose": lambda x: x.transpose(0, 1), "permute": lambda x: x.permute(1, 0), "view": lambda x: x.view(6, 2),
    "reshape": lambda x: x.reshape(2, 6), "flatten": lambda x: x.flatten(), "squeeze": lambda x: x[:, :1].squeeze(1), "T": lambda x: x.T,
    "unsqueeze": lambda x: x.unsqueeze(1), "select": lambda x: x.select(0, 1), "narrow": lambda x: x.narrow(1, 1, 2),
    "diagonal": lambda x: x.diagonal(), "unfold": lambda x: x.unfold(1, 2, 2), "expand": lambda x: x[:1].expand(1, 4), "detach": lambda x: x.detach(),
    "unbind": lambda x: x.unbind(0)[1], "split": lambda x: x.split(2, 1)[1], "chunk": lambda x: x.chunk(2)[0], "as_strided": lambda x: x.as_strided((2, 2), (1, 3), 1),
    "unflatten": lambda x: x.unflatten(1, (2, 2)), "movedim": lambda x: x.movedim(0, 1), "view_as": lambda x: x.view_as(fl.zeros(2, 6)),
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_views_share_memory(view):
    x = fl.zeros(3, 4)
    v = view(x)
    v.fill_(1)
    assert x.sum().item() == v.numel()
    assert v._version == x._version == 1
    assert v.detach()._base is None or v._base is x


@pytest.mark.parametrize("copy", [lambda x: x.clone(), lambda x: x + 0, lambda x: x[[0, 1]], lambda x: x.t().contiguous(), lambda x: x.t().reshape(12)])
def test_copies_do_not(copy):
    x = fl.zeros(3, 4)
    copy(x).fill_(1)
    assert x.sum().item() == 0


@st.composite
def shape_and_split(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=0, max_size=4))
    n = int(np.prod(sizes))
    target = []
    while n > 1:
        d = draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
        target.append(d)
        n = n // d if d > 1 else n
        if len(target) > 6:
            target.append(n)
            break
    return tuple(sizes), tuple(target) if int(np.prod(target)) == int(np.prod(sizes)) else (int(np.prod(sizes)),)


@pytest.mark.slow
@given(shape_and_split(), st.data())
def test_reshape(case, data):
    shape, target = case
    a, x = filled(shape)
    order = data.draw(st.permutations(range(len(shape))))
    want = a.transpose(order).reshape(target)
    y = x.permute(*order) if order else x
    np.testing.assert_array_equal(y.reshape(target).numpy(), want)
    if target:
        at = data.draw(st.integers(0, len(target) - 1))
        guess = (*target[:at], -1, *target[at + 1 :])
        np.testing.assert_array_equal(y.reshape(guess).numpy(), want)
    try:
        v = y.view(target)
    except fl.ShapeError:
        assert not y.is_contiguous()
    else:
        assert v.data_ptr() == y.data_ptr()
        np.testing.assert_array_equal(v.numpy(), want)


@pytest.mark.parametrize("shape, text", [((5,), "5"), ((-1, -1), "-1"), ((4, -1, 5), "5"), ((-2, 6), "-2")], ids=str)
def test_wrong_reshapes(shape, text):
    with pytest.raises(fl.ShapeError, match=text):
        fl.zeros(3, 4).reshape(shape)
    with pytest.raises(fl.ShapeError):
        fl.zeros(3, 4).view(shape)


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda x: x.transpose(0, 2), IndexError, r"transpose: Dimension out of range .*\[-2, 1\], but got dim1 = 2"),
        (lambda x: x.permute(0, 0), (ValueError, fl.ShapeError, IndexError), "permute"),
        (lambda x: x.expand(3, 5), fl.ShapeError, "expand"),
        (lambda x: x.narrow(0, 2, 5), (ValueError, IndexError, fl.ShapeError), "narrow"),
        (lambda x: x.unsqueeze(4), IndexError, "unsqueeze"),
        (lambda x: x.split(0), ValueError, "split"),
        (lambda x: x.split([1, 1]), (ValueError, fl.ShapeError), "split"),
        (lambda x: x.chunk(0), ValueError, "chunk"),
        (lambda x: x.as_strided((100,), (1,)), (ValueError, fl.ShapeError), "as_strided"),
        (lambda x: x.unflatten(1, (3, 2)), fl.ShapeError, "unflatten"),
        (lambda x: fl.stack([x, x[:1]]), fl.ShapeError, "stack"),
        (lambda x: fl.cat([x, x[:, :1]], 0), fl.ShapeError, "cat"),
        (lambda x: fl.cat([]), ValueError, "non-empty"),
        (lambda x: fl.zeros(2, 2, 2).t(), (fl.ShapeError, ValueError), "t:"),
    ],
    ids=["transpose", "permute", "expand", "narrow", "unsqueeze", "split", "split_sizes", "chunk", "as_strided", "unflatten", "stack", "cat", "cat_empty", "t"],
)
def test_wrong_views(call, kind, text):
    with pytest.raises(kind, match=text):
        call(fl.zeros(3, 4))


@pytest.mark.parametrize("index", [(slice(None), [0, 1]), ([0, 2], slice(1, 3)), (Ellipsis, [1, 1]), (None, [0, 1], slice(None), [2, 0])], ids=str)
def test_gradient_through_slices_beside_lists(index):
    x = fl.randn(4, 5, 3, requires_grad=True)
    w = fl.randn(x.detach()[index].shape)
    (x[index] * w).sum().backward()
    expected = np.zeros((4, 5, 3), dtype=np.float32)
    np.add.at(expected, index, w.numpy())
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)
    x.grad = None
    y = x * 1
    y[index] = 7.0
    y.sum().backward()
    kept = np.ones((4, 5, 3), dtype=np.float32)
    kept[index] = 0
    np.testing.assert_allclose(x.grad.numpy(), kept)


@pytest.mark.parametrize("index, shape, gradient", [((0,), (1,), [1.0]), ((slice(None),), (1, 1, 3), [[[1.0, 1.0, 1.0]]]), ((), (1, 3), [[1.0, 1.0, 1.0]])])
def test_leading_axes_of_one_of_what_is_written_count_for_nothing(index, shape, gradient):
    x, y = fl.zeros(3), fl.ones(*shape, requires_grad=True)
    x[index] = y
    x.sum().backward()
    assert y.grad.tolist() == gradient


def test_numpys_names_of_tensors():
    x = fl.tensor([1.0, -2.0])
    assert fl.sum(a=x).item() == -1.0 and fl.add(x1=x, x2=x).tolist() == [2.0, -4.0] and fl.abs(a=x).tolist() == [1.0, 2.0]
    assert [part.item() for part in fl.split(tensor=x, split_size_or_sections=1, dim=0)] == [1.0, -2.0]


@pytest.mark.parametrize("number", [1, 2.5, fl.tensor(3.0)], ids=str)
def test_numbers_are_put_into_tensors_without_memory(number):
    x = fl.empty(3, 4, device="meta")
    for index in (fl.arange(3, device="meta"), [0, 2], (slice(None), fl.tensor([1, 1], device="meta")), (fl.arange(2, device="meta"), 1)):
        x[index] = number
    assert x.is_meta and x.shape == (3, 4)
