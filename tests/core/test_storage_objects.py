"""Storages as objects, and tensors that are made views of them."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as fl

pytestmark = pytest.mark.eager("looks at memory")


def test_tensors_of_one_memory_have_equal_storages():
    x = fl.arange(6, dtype=fl.float64).view(2, 3)
    storage = x.untyped_storage()
    assert storage == x.t()[1:].untyped_storage()
    assert storage != x.clone().untyped_storage()
    assert (len(storage), storage.nbytes(), storage.data_ptr()) == (48, 48, x.data_ptr())
    assert x[1].storage_offset() == 3


@pytest.mark.parametrize("dtype", [fl.float32, fl.int64, fl.bool, fl.bfloat16, fl.complex64], ids=str)
def test_a_tensor_is_made_a_view(dtype):
    x = fl.arange(8).to(dtype)
    y = fl.empty(0, dtype=dtype).set_(x.untyped_storage(), 1, (2, 3), (3, 1))
    assert fl.equal(y, x[1:7].view(2, 3))
    y.zero_()
    assert x[1:7].abs().sum() == 0
    assert fl.equal(fl.empty(0, dtype=dtype).set_(x), x)
    assert fl.empty(3, dtype=dtype).set_().shape == (0,)


def test_elements_and_bytes():
    x = fl.tensor([1.0, 2.0, 3.0])
    storage = x.storage()
    assert (storage.tolist(), len(storage), storage[1], list(storage[1:])) == ([1.0, 2.0, 3.0], 3, 2.0, [2.0, 3.0])
    storage[0] = 5.0
    assert x[0] == 5
    raw = x.untyped_storage()
    raw.fill_(0)
    assert x.tolist() == [0, 0, 0]
    assert raw[:4].tolist() == [0, 0, 0, 0]
    assert raw.clone() != raw
    assert pickle.loads(pickle.dumps(raw)).tolist() == copy.deepcopy(raw).tolist() == raw.tolist()


def test_of_one_memory_there_is_one_object():
    x = fl.zeros(4)
    s = x.untyped_storage()
    others = (x, x[1:], x.detach(), x.view(2, 2), x.view(fl.uint8), fl.empty(0).set_(s, 0, (2,)))
    assert all(y.untyped_storage() is s for y in others) and x.storage().untyped() is s.cpu() is s and x.storage().cpu().untyped() is s
    assert x.clone().untyped_storage() is not s and s.clone() is not s and s[:16] is not s
    x.resize_(10)
    assert x.untyped_storage() is s and s.nbytes() == 40
    x.data = fl.ones(2)
    assert x.untyped_storage() is not s and others[1].untyped_storage() is s
    empty = fl.empty(0)
    s = empty.untyped_storage()
    assert empty.resize_(3).untyped_storage() is s and s.nbytes() == 12


def test_bytes_that_make_no_element_are_there():
    x = fl.arange(7, dtype=fl.uint8)
    assert x[:4].view(fl.int32).untyped_storage().tolist() == x.tolist()


def test_files_are_mapped(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(16)))
    storage = fl.UntypedStorage.from_file(path, False, 8)
    assert storage.tolist() == list(range(8))
    storage.fill_(9)
    assert path.read_bytes() == bytes(range(16))
    fl.UntypedStorage.from_file(path, True, 4).fill_(7)
    assert path.read_bytes()[:5] == bytes([7, 7, 7, 7, 4])
    with pytest.raises(ValueError, match="has 16 bytes; expected at least nbytes = 17"):
        fl.UntypedStorage.from_file(path, False, 17)


def test_bad_arguments():
    x = fl.ones(2)
    with pytest.raises(ValueError, match="size = -1"):
        fl.UntypedStorage(-1)
    with pytest.raises(TypeError, match="size is a str"):
        fl.UntypedStorage("a")
    with pytest.raises(TypeError, match="source is a list"):
        x.set_([1])
    with pytest.raises(fl.DTypeError, match="source is flambeau.int64"):
        x.set_(fl.arange(3))
    with pytest.raises((ValueError, RuntimeError)):
        x.set_(x.untyped_storage(), -1, (1,), (1,))
    with pytest.raises(RuntimeError, match="step 2"):
        x.untyped_storage()[::2]
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize("source", [lambda x: x, lambda x: x.untyped_storage(), lambda x: x._typed_storage()], ids=["tensor", "bytes", "typed"])
def test_a_storage_grows_where_a_view_reaches_beyond_it(source):
    x = fl.ones(4)
    y = fl.empty(0).set_(source(x), 2, (5, 2), (2, 1))
    assert y.shape == (5, 2) and y[0].tolist() == [1, 1] and x.tolist() == [1, 1, 1, 1] and x.untyped_storage().nbytes() == 12 * 4
    y.fill_(3)
    assert x.tolist() == [1, 1, 3, 3]
    z = fl.from_numpy(np.ones(4, np.float32))
    with pytest.raises(RuntimeError, match="the memory belongs to somebody else"):
        fl.empty(0).set_(source(z), 0, (5,), (1,))
    assert z.tolist() == [1, 1, 1, 1]


def test_shared_storages_into_which_batches_are_put():
    e = fl.ones(3, dtype=fl.float64)
    out = e.new(e._typed_storage()._new_shared(6)).resize_(2, 3)
    assert out.is_shared() and out.dtype is fl.float64 and fl.stack([e, e], out=out) is out and out.tolist() == [[1] * 3] * 2
    assert len(fl.UntypedStorage._new_shared(5)) == 5 and fl.UntypedStorage._new_shared(5).is_shared()
    typed = fl.IntStorage._new_shared(5, device="cpu")
    assert typed.is_shared() and typed.dtype is fl.int32 and len(typed) == 5
    typed = fl.FloatStorage([1.0])
    assert e.float().new(typed).data_ptr() == typed.data_ptr() and e.float().new(typed.untyped()).tolist() == [1]
    with pytest.raises(fl.DTypeError, match="new: got a storage of flambeau.float32; expected flambeau.float64"):
        e.new(typed)
    typed.resize_(3)
    assert len(typed) == 3 and typed[0] == 1


@pytest.mark.parametrize("function", [fl.as_tensor, fl.asarray], ids=["as_tensor", "asarray"])
@pytest.mark.parametrize("typed", [False, True], ids=["untyped", "typed"])
def test_a_storage_as_a_tensor_shares_its_memory(function, typed):
    x = fl.arange(6, dtype=fl.uint8)
    storage = x.storage() if typed else x.untyped_storage()
    y = function(storage, dtype=fl.uint8)
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() and y.tolist() == [0, 1, 2, 3, 4, 5]
    y[0] = 9
    assert x[0] == 9 and x._version == 1
    part = function(x.untyped_storage()[2:4], dtype=fl.uint8)
    assert part.tolist() == [2, 3] and part.data_ptr() == x.data_ptr() + 2
    assert fl.asarray(storage, dtype=fl.uint8, copy=True).data_ptr() != x.data_ptr()
    assert fl.asarray(storage, dtype=fl.uint8, copy=False).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("function", [fl.tensor, fl.as_tensor, fl.asarray], ids=["tensor", "as_tensor", "asarray"])
def test_bytes_are_read_as_elements_of_the_type_asked_for(function):
    x = fl.arange(6.0)
    y = function(x.untyped_storage(), dtype=fl.float32)
    assert y.tolist() == [0, 1, 2, 3, 4, 5] and y.data_ptr() == x.data_ptr()
    assert function(x.untyped_storage(), dtype=fl.int16).tolist() == x.view(fl.int16).tolist()
    assert fl.equal(function(x.untyped_storage()), x.view(fl.int64))
    assert function(fl.UntypedStorage(7), dtype=fl.float32).shape == (1,)


def test_a_storage_knows_the_file_that_it_is(tmp_path):
    path = str(tmp_path / "numbers")
    (tmp_path / "numbers").write_bytes(bytes(64))
    shared = fl.from_file(path, shared=True, size=8)
    assert shared.untyped_storage().filename == shared[2:].storage().filename == path
    assert fl.UntypedStorage.from_file(path, True, 16).filename == path
    for other in (fl.from_file(path, shared=False, size=8), shared.clone(), fl.ones(2), fl.ones(2).share_memory_()):
        assert other.untyped_storage().filename is None


def test_typed_storages_convert_and_have_classes():
    x = fl.ones(3)
    s = x.storage()
    assert s.fill_(2.5) is s and x.tolist() == [2.5] * 3
    assert s.float() is s
    assert (s.int().tolist(), s.int().dtype, s.double().type()) == ([2, 2, 2], fl.int32, "torch.DoubleStorage")
    assert (s.type(), s.type(fl.int64).tolist(), s.complex_float().tolist()) == ("torch.FloatStorage", [2, 2, 2], [2.5 + 0j] * 3)
    assert x.storage_type() is fl.FloatStorage and isinstance(s, fl.FloatStorage) and not isinstance(s, fl.IntStorage)
    assert (fl.LongStorage([1, 2]).tolist(), len(fl.HalfStorage(3)), fl.HalfStorage(3).nbytes()) == ([1, 2], 3, 6)
    with pytest.raises(KeyError, match="uint16 has no class of storages"):
        fl.ones(1, dtype=fl.uint16).storage_type()
    copied = s.clone().copy_(fl.zeros(3).storage())
    assert copied.tolist() == [0, 0, 0] and s.tolist() == [2.5] * 3


def test_a_leaf_that_requires_grad_is_not_set():
    w = fl.ones(2, requires_grad=True)
    with pytest.raises(fl.AutogradError, match="use no_grad"):
        w.set_(fl.zeros(2))
    with fl.no_grad():
        w.set_(fl.zeros(2))
    assert w.tolist() == [0, 0] and w.requires_grad


@pytest.mark.parametrize(("given", "words"), [((0, 2.0), "size = 2.0 is a float"), ((0, (2,), 1.0), "stride = 1.0 is a float")])
def test_sizes_of_a_view_that_are_none_are_named(given, words):
    x = fl.zeros(3)
    with pytest.raises(TypeError, match=rf"set_: {words}; expected a tuple of ints"):
        x.set_(fl.ones(4), *given)
    assert x.tolist() == [0, 0, 0] and x.set_(fl.ones(4), 1, 2, 1).tolist() == [1, 1]


@pytest.mark.parametrize("target", [lambda a: a * 1.5, lambda a: fl.zeros(3)], ids=["with a history", "without one"])
def test_set_has_no_derivative(target):
    a = fl.tensor([0.3, 0.6, 0.9], requires_grad=True)
    y = target(a)
    y.set_(a * 2)
    assert y.requires_grad and fl.equal(y.detach(), a.detach() * 2)
    with pytest.raises(fl.AutogradError, match="set_ has no derivative"):
        y.square().sum().backward()
    with pytest.raises(fl.AutogradError, match="set_ has no derivative"):
        fl.autograd.grad(y.square().sum(), a, allow_unused=True)
    with fl.no_grad():
        z = fl.zeros(3).set_(a * 2)
    assert not z.requires_grad


def test_set_to_itself_has_no_derivative():
    a = fl.ones(3, requires_grad=True)
    y = a * 2
    y.set_(y)
    assert len(y.grad_fn.next_functions) == 1
    with pytest.raises(fl.AutogradError, match="set_ has no derivative"):
        y.sum().backward()


def test_a_storage_grows_in_place():
    x = fl.arange(4.0)
    storage = x.untyped_storage()
    assert storage.resize_(32) is storage and storage.nbytes() == 32 and x.untyped_storage().nbytes() == 32
    assert x.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="expected at least as many"):
        storage.resize_(0)


def test_states_of_old_pickles():
    x = fl.arange(6.0)
    y = fl.empty(0)
    y.__setstate__((x.storage(), 1, (2, 2), (2, 1)))
    assert y.tolist() == [[1, 2], [3, 4]] and y.data_ptr() == x[1:].data_ptr()
    y.__setstate__((True, None, {0: lambda g: g * 2}))
    y.sum().backward()
    assert y.grad.tolist() == [[2, 2], [2, 2]]
    z = fl.empty(0)
    z.__setstate__((x, None, None, False, None))
    assert z.data_ptr() == x.data_ptr() and not z.requires_grad
    with pytest.raises(ValueError, match="a state of 2 parts; expected 3, 4 or 5"):
        z.__setstate__((1, 2))
    for state in (fl.int16, 1.0, (True, None, 3)):
        with pytest.raises(TypeError, match=r"__setstate__: the (state is a|hooks are a) "):
            z.__setstate__(state)
    with pytest.raises(RuntimeError, match="the tensor has a history"):
        (y * 2).__setstate__((True, None, {}))
    z.name_of_mine = 3
    assert pickle.loads(pickle.dumps(z)).name_of_mine == copy.copy(z).name_of_mine == 3


@pytest.mark.parametrize(
    "arguments, text", [((b"x", (2,)), "storage_offset = b'x'"), ((0, (2,), "x"), "stride = 'x'"), ((0, (None,)), "size = None"), ((1.5, 2), "storage_offset = 1.5")]
)
def test_places_of_set_are_ints(arguments, text):
    x = fl.ones(8)
    with pytest.raises(TypeError, match=rf"set_: {text}; expected an int"):
        x.set_(fl.ones(7), *arguments)
    assert x.shape == (8,)
