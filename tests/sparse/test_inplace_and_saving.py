"""Writes to sparse tensors, and sparse tensors in files."""

from __future__ import annotations

import io
import json

import pytest

import flambeau as fl
from flambeau.autograd import grad


def coo(grad=False):
    return fl.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), requires_grad=grad)


def other():
    return fl.sparse_coo_tensor([[0, 1], [0, 2]], [1.0, 2.0], (2, 3))


LAYOUTS = {
    "coo": lambda x: x, "csr": lambda x: x.to_sparse_csr(), "csc": lambda x: x.to_sparse_csc(), "bsr": lambda x: x.to_sparse_bsr((1, 3)),
    "bsc": lambda x: x.to_sparse_bsc((2, 1)),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("write", "want"),
    [
        (lambda x: x.mul_(2), [[0, 0, 6], [8, 0, 10]]),
        (lambda x: x.mul_(fl.tensor(2.0)), [[0, 0, 6], [8, 0, 10]]),
        (lambda x: x.div_(2), [[0, 0, 1.5], [2, 0, 2.5]]),
        (lambda x: x.neg_(), [[0, 0, -3], [-4, 0, -5]]),
        (lambda x: x.add_(other()), [[1, 0, 3], [4, 0, 7]]),
        (lambda x: x.add_(other(), alpha=10), [[10, 0, 3], [4, 0, 25]]),
        (lambda x: x.sub_(other()), [[-1, 0, 3], [4, 0, 3]]),
        (lambda x: x.div_(2, rounding_mode="trunc"), [[0, 0, 1], [2, 0, 2]]),
        (lambda x: x.floor_divide_(-2), [[0, 0, -2], [-2, 0, -3]]),
        (lambda x: x.mul_(fl.tensor([1.0, 2.0, 3.0])), [[0, 0, 9], [4, 0, 15]]),
        (lambda x: x.mul_(x), [[0, 0, 9], [16, 0, 25]]),
        (lambda x: x.zero_(), [[0, 0, 0], [0, 0, 0]]),
        (lambda x: x.copy_(other()), [[1, 0, 0], [0, 0, 2]]),
    ],
)
def test_writes(layout, write, want):
    x = LAYOUTS[layout](coo())
    kind = x.layout
    assert write(x) is x and x.layout is kind
    assert x.to_dense().tolist() == want


def test_operators_write_too():
    x = same = coo()
    x *= 2
    x += other()
    x -= other()
    x /= 2
    assert x is same and x.to_dense().tolist() == coo().to_dense().tolist()


def test_what_shares_values_sees_numbers_multiplied():
    x = coo()
    values = x._values()
    x.mul_(2)
    assert values.tolist() == [6.0, 8.0, 10.0]


def test_dense_tensors_take_sparse_ones():
    d = fl.ones(2, 3)
    d.add_(coo(), alpha=2)
    d += other()
    assert d.tolist() == [[2, 1, 7], [9, 1, 13]]
    assert d.copy_(coo()).tolist() == [[0, 0, 3], [4, 0, 5]]
    assert d.add_(1).mul_(coo()).tolist() == [[0, 0, 12], [20, 0, 30]]


def test_gradients_go_through_writes():
    x = coo(True)
    y = x * 2
    y.mul_(3)
    y.add_(x)
    (g,) = grad(y.to_dense().sum(), x)
    assert g._values().tolist() == [7.0, 7.0, 7.0]
    with pytest.raises(fl.AutogradError, match="mul_: a leaf Variable that requires grad is being used in an in-place operation"):
        x.mul_(2)
    with fl.no_grad():
        x.mul_(2)
    assert x._values().tolist() == [6.0, 8.0, 10.0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.add_(1), TypeError, "add_: a int is added to a sparse tensor in place"),
        (lambda x: x.add_(fl.ones(2, 3)), TypeError, "add_: a dense tensor is added"),
        (lambda x: x.mul_(fl.ones(3)[None, None]), fl.ShapeError, "mul: the sparse tensor has shape"),
        (lambda x: x.div_(fl.ones(2, 3)), TypeError, "div_: got a Tensor; expected a number"),
        (lambda x: x.mul_("2"), TypeError, "mul_: got a str; expected a number"),
        (lambda x: x.add_(fl.sparse_coo_tensor([[0], [0]], [1.0], (2, 2))), fl.ShapeError, "expected one shape"),
        (lambda x: x.add_(other().double()), fl.DTypeError, "result type flambeau.float64 can't be cast to the desired output type flambeau.float32"),
        (lambda x: x.copy_(fl.ones(2, 3)), fl.ShapeError, "expected a sparse src like it"),
        (lambda x: fl.ones(2, 2).add_(x), fl.ShapeError, "expected one shape"),
        (lambda x: x.div_(2, rounding_mode="up"), ValueError, "rounding_mode"),
    ],
)
def test_refusals_write_nothing(call, error, message):
    x = coo()
    with pytest.raises(error, match=message):
        call(x)
    assert x.to_dense().tolist() == coo().to_dense().tolist()


# ---------------------------------------------------------------- files


def through_a_file(obj):
    file = io.BytesIO()
    fl.save(obj, file)
    file.seek(0)
    return fl.load(file)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [fl.float32, fl.complex128, fl.bool, fl.uint32], ids=str)
def test_saved_and_loaded(layout, dtype):
    x = LAYOUTS[layout](coo()).to(dtype) if dtype != fl.uint32 else fl.sparse_coo_tensor([[1]], fl.tensor([7], dtype=dtype), (3,))
    y = through_a_file(x)
    assert type(y) is type(x) and y.dtype == dtype and y.shape == x.shape and y.is_coalesced() == x.is_coalesced()
    assert fl.equal(y._values(), x._values()) and fl.equal(y.to_dense(), x.to_dense())


def test_order_gradients_and_identity_are_kept():
    unordered = fl.sparse_coo_tensor([[1, 0, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), requires_grad=True)
    x = unordered.detach().coalesce()
    y = through_a_file({"a": unordered, "b": [unordered, x, x._values()], "empty": fl.sparse_coo_tensor(fl.zeros(2, 0), [], (2, 3)), "d": fl.ones(2)})
    assert y["a"] is y["b"][0] and y["a"].requires_grad and not y["a"].is_coalesced() and y["b"][1].is_coalesced()
    assert y["b"][2].data_ptr() == y["b"][1]._values().data_ptr()
    assert y["empty"]._nnz() == 0 and y["empty"].to_dense().tolist() == [[0, 0, 0], [0, 0, 0]] and y["d"].tolist() == [1, 1]


def damaged(change):
    """A file whose structure was changed."""
    file = io.BytesIO()
    fl.save({"x": coo().coalesce(), "n": 1}, file)
    raw = file.getvalue()
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + n])
    key = next(k for k in header["__metadata__"] if "structure" in k)
    structure = json.loads(header["__metadata__"][key])
    node = structure["d"][0][1]["P"]
    change(node)
    header["__metadata__"][key] = json.dumps(structure)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return io.BytesIO(len(text).to_bytes(8, "little") + text + raw[8 + n :])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda node: node.__setitem__(1, [2, 2]), r"a sparse tensor that is none: sparse_coo_tensor: indices\[1\] go from 0 to 2"),
        (lambda node: node.__setitem__(1, [2, -3]), "unknown node"),
        (lambda node: node.__setitem__(1, [2, 3, 4]), "a sparse tensor that is none"),
        (lambda node: node.__setitem__(0, "bsr"), "unknown node"),
        (lambda node: node.__setitem__(0, "csr"), "unknown node"),
        (lambda node: node[2].reverse(), "a sparse tensor that is none"),
        (lambda node: node[2].pop(), "unknown node"),
        (lambda node: node[2].__setitem__(0, 5), "unknown node"),
        (lambda node: node.__setitem__(3, 1), "unknown node"),
        (lambda node: node[2].__setitem__(0, {**node[2][0], "at": [0, [2, 3], [1, 2]]}), "indices are not in order, as the file says"),
    ],
)
def test_files_that_lie(change, message):
    with pytest.raises(ValueError, match=message):
        fl.load(damaged(change))


# ---------------------------------------------------------------- sizes


def test_a_larger_size_keeps_places():
    x = same = coo()
    values = x._values()
    assert x.sparse_resize_((4, 5), 2, 0) is same and x.shape == (4, 5) and x._values() is values
    assert x.to_dense()[:2, :3].tolist() == coo().to_dense().tolist() and x.to_dense().sum().item() == 12
    assert x.resize_as_(fl.eye(6).to_sparse()).shape == (6, 6) and fl.resize_as_(x, fl.eye(7).to_sparse()).shape == (7, 7)
    assert (x @ fl.ones(7))[:2].tolist() == [3, 9] and (x + x).shape == (7, 7)
    wide = fl.sparse_coo_tensor([[1]], [[2.0, 3.0]], (2, 2)).sparse_resize_((3, 3), 1, 1)
    assert wide.to_dense().tolist() == [[0, 0, 0], [2, 3, 0], [0, 0, 0]]


def test_any_size_without_places():
    x = coo().sparse_resize_and_clear_((4, 5, 2), 2, 1)
    assert x._nnz() == 0 and x.is_coalesced() and x.dense_dim() == 1 and x.to_dense().tolist() == fl.zeros(4, 5, 2).tolist()
    assert x.sparse_resize_((1,), 1, 0).shape == (1,)


@pytest.mark.parametrize("size", [((1, 1), 2, 0), ((2, 3), 1, 1), ((2, 3, 1), 3, 0), ((2, 3), 2, 1), ((2, -3), 2, 0)])
def test_a_size_without_room_is_refused(size):
    x = coo()
    with pytest.raises(fl.ShapeError, match="sparse_resize_: size"):
        x.sparse_resize_(*size)
    assert x.to_dense().tolist() == coo().to_dense().tolist()
    with pytest.raises(TypeError, match="resize_as_: other is a Tensor"):
        x.resize_as_(fl.eye(3))
    with pytest.raises(fl.AutogradError, match="a leaf Variable that requires grad"):
        coo(True).sparse_resize_((4, 5), 2, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_data_of_another_one(layout):
    x, y = (LAYOUTS[layout](fl.sparse_coo_tensor([[0, 1], [0, 2]], [1.0, 2.0], size)) for size in ((2, 3), (4, 6)))
    x.requires_grad_()
    x.data = y
    assert x.shape == (4, 6) and x.requires_grad and x.is_leaf and not y.requires_grad and fl.equal(x.detach().to_dense(), y.to_dense())
    with pytest.raises(TypeError, match="data = Tensor"):
        x.data = fl.ones(4, 6)
