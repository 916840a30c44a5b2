"""Making tensors: factories, tensor(), from other objects, and back; sizes that can not be."""

from __future__ import annotations

import array
import copy
import gc
import multiprocessing
import pickle

import numpy as np
import pytest
from support.compare import NUMPY_TYPES

import flambeau as fl

TYPES = [fl.bool, fl.uint8, fl.int8, fl.int16, fl.int32, fl.int64, fl.float16, fl.bfloat16, fl.float32, fl.float64]
each_type = pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.name)


# ---------------------------------------------------------------- factories


@each_type
def test_zeros_ones_full_empty(dtype):
    assert fl.zeros(2, 3, dtype=dtype).tolist() == [[0] * 3] * 2
    assert fl.ones((2, 3), dtype=dtype).tolist() == [[1] * 3] * 2
    assert fl.full((2,), 1, dtype=dtype).tolist() == [1, 1]
    e = fl.empty([4, 1], dtype=dtype)
    assert (e.shape, e.dtype) == ((4, 1), dtype)


def test_default_type():
    assert fl.zeros(1).dtype is fl.float32
    fl.set_default_dtype(fl.float64)
    assert fl.zeros(1).dtype is fl.float64 and fl.tensor(1.5).dtype is fl.float64 and fl.rand(1).dtype is fl.float64
    with pytest.raises((TypeError, fl.DTypeError)):
        fl.set_default_dtype(fl.int64)


@pytest.mark.parametrize("value, dtype", [(True, fl.bool), (3, fl.int64), (2.5, fl.float32)], ids=str)
def test_full_takes_the_type_of_its_value(value, dtype):
    x = fl.full((2,), value)
    assert x.dtype is dtype and x.tolist() == [value, value]


def test_like_and_new():
    x = fl.ones(2, 3, dtype=fl.int32)
    for made, value in [(fl.zeros_like(x), 0), (fl.ones_like(x), 1), (fl.full_like(x, 7), 7), (x.new_zeros(2, 3), 0), (x.new_full((2, 3), 5), 5), (x.new_ones((2, 3)), 1)]:
        assert (made.dtype, made.shape) == (fl.int32, (2, 3)) and made.tolist() == [[value] * 3] * 2
    assert fl.empty_like(x, dtype=fl.float64).dtype is fl.float64
    assert x.new_empty((4,)).shape == (4,)
    assert x.new_tensor([1.5]).dtype is fl.int32


ARANGE = [(5,), (2, 7), (2, 7, 2), (7, 2, -2), (0,), (3, 3), (0.0, 1.0, 0.25), (1, 2.5, 0.5), (10, 0, -3), (0, 1, 0.1)]


@pytest.mark.parametrize("args", ARANGE, ids=str)
def test_arange(args):
    x = fl.arange(*args)
    assert x.dtype is (fl.float32 if any(isinstance(a, float) for a in args) else fl.int64)
    np.testing.assert_allclose(x.numpy(), np.arange(*args), rtol=1e-6, atol=1e-6)


def test_arange_refuses_steps_that_lead_nowhere():
    with pytest.raises(ValueError, match="arange: step"):
        fl.arange(0, 1, 0)
    with pytest.raises(ValueError, match="arange: start = 0, end = -3, step = 1"):
        fl.arange(-3)


def test_linspace_logspace_eye():
    np.testing.assert_allclose(fl.linspace(-1, 2, 7).numpy(), np.linspace(-1, 2, 7), rtol=1e-6, atol=1e-7)
    assert fl.linspace(3, 9, 1).tolist() == [3.0] and fl.linspace(0, 1, 0).shape == (0,)
    np.testing.assert_allclose(fl.logspace(0, 3, 4).numpy(), [1, 10, 100, 1000], rtol=1e-5)
    assert fl.eye(2, 3).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]] and fl.eye(0).shape == (0, 0)
    assert fl.linspace(0, 1, 5)[-1].item() == 1.0


def test_empty_strided():
    x = fl.empty_strided((2, 3), (1, 2))
    assert (x.shape, x.stride()) == ((2, 3), (1, 2))


def test_requires_grad_argument():
    assert fl.zeros(2, requires_grad=True).requires_grad
    assert fl.tensor([1.0], requires_grad=True).is_leaf


# ---------------------------------------------------------------- tensor()

DATA = [
    (3, fl.int64), (True, fl.bool), (1.5, fl.float32), ([], fl.float32), ([[]], fl.float32), ([1, 2.5], fl.float32),
    ([True, 2], fl.int64), ([[1, 2], [3, 4]], fl.int64), ((1, 2), fl.int64), ([[True], [False]], fl.bool), (2**40, fl.int64),
    ([float("nan"), float("inf")], fl.float32), (range(3), fl.int64), ([(1, 2), [3, 4]], fl.int64),
]  # fmt: skip


@pytest.mark.parametrize("data, dtype", DATA, ids=lambda v: str(v).replace(" ", ""))
def test_tensor(data, dtype):
    x = fl.tensor(data)
    assert x.dtype is dtype
    np.testing.assert_array_equal(x.numpy(), np.array(data, dtype=NUMPY_TYPES[dtype.name]))


@each_type
def test_tensor_with_a_type(dtype):
    assert fl.tensor([0, 1, 1], dtype=dtype).tolist() == [0, 1, 1]


def test_tensor_copies():
    a = np.zeros(3)
    x = fl.tensor(a)
    x[0] = 1
    assert a[0] == 0 and x.dtype is fl.float64
    y = fl.tensor(x)
    y[1] = 1
    assert x[1].item() == 0
    assert fl.tensor([fl.tensor(1), fl.tensor(2)]).tolist() == [1, 2]
    assert fl.tensor(np.float32(2.5)).dtype is fl.float32


@pytest.mark.parametrize(
    "data, text",
    [([[1, 2], [3]], "length"), (["a"], "str"), ([[1], 2], ""), (object(), "object"), ([None], "NoneType")],
    ids=["ragged", "text", "mixed_depth", "object", "none"],
)
def test_tensor_refuses(data, text):
    with pytest.raises((ValueError, TypeError), match=f"tensor: .*{text}"):
        fl.tensor(data)


def test_integers_that_do_not_fit():
    with pytest.raises((OverflowError, RuntimeError, ValueError)):
        fl.tensor(2**63)


# ---------------------------------------------------------------- back to Python


@each_type
def test_item_and_tolist(dtype):
    x = fl.tensor([[1, 0], [0, 1]], dtype=dtype)
    assert x.tolist() == [[1, 0], [0, 1]]
    kind = bool if dtype is fl.bool else float if dtype.is_floating_point else int
    assert type(x[0, 0].item()) is kind and type(x.tolist()[0][0]) is kind
    assert fl.tensor(1, dtype=dtype).tolist() == 1 and fl.zeros(0, 3, dtype=dtype).tolist() == []


def test_conversions():
    assert float(fl.tensor(2.5)) == 2.5 and int(fl.tensor([3])) == 3 and bool(fl.tensor([[True]])) and not bool(fl.tensor(0.0))
    assert [10, 20, 30][fl.tensor(1)] == 20
    assert f"{fl.tensor(1.23456):.2f}" == "1.23"
    with pytest.raises(TypeError):
        [1, 2][fl.tensor(1.0)]
    with pytest.raises(ValueError, match=r"item: a Tensor with 3 elements .* it has shape \[3\]"):
        fl.ones(3).item()
    with pytest.raises(ValueError, match=r"bool: .*\[2\].*any\(\).*all\(\)"):
        bool(fl.ones(2))
    assert len(fl.ones(3, 2)) == 3
    with pytest.raises(TypeError):
        len(fl.tensor(1))
    with pytest.raises(TypeError, match="0-d"):
        iter(fl.tensor(1))
    assert [r.tolist() for r in fl.eye(2)] == [[1.0, 0.0], [0.0, 1.0]]
    assert 2 in fl.arange(3) and 5 not in fl.arange(3)


# ---------------------------------------------------------------- NumPy


@pytest.mark.parametrize("name", list(NUMPY_TYPES))
def test_numpy_shares_memory_both_ways(name):
    a = np.arange(6).reshape(2, 3).astype(NUMPY_TYPES[name])
    x = fl.from_numpy(a)
    assert x.dtype is getattr(fl, name) and x.data_ptr() == a.ctypes.data
    x[0, 1] = 0
    assert a[0, 1] == 0
    b = x.numpy()
    assert b.ctypes.data == a.ctypes.data and b.dtype == a.dtype
    assert np.shares_memory(np.asarray(x), a)


def test_numpy_keeps_strides_both_ways():
    a = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)[::2]
    x = fl.from_numpy(a)
    assert x.stride() == tuple(s // 8 for s in a.strides) and np.array_equal(x.numpy(), a) and x.numpy().strides == a.strides


def test_array_lives_as_long_as_the_tensor():
    x = fl.from_numpy(np.arange(1000.0))
    assert x.sum().item() == 499500.0
    a = fl.arange(1000, dtype=fl.float64).numpy()
    assert a.sum() == 499500.0


def test_read_only_arrays_give_tensors_that_refuse_writes():
    a = np.zeros(3)
    a.flags.writeable = False
    x = fl.from_numpy(a)
    assert (x + 1).tolist() == [1.0] * 3
    with pytest.raises((ValueError, RuntimeError), match="read-only"):
        x.add_(1)
    with pytest.raises((ValueError, RuntimeError), match="read-only"):
        x[0] = 1
    assert not x.numpy().flags.writeable


@pytest.mark.parametrize(
    "make, kind, text",
    [
        (lambda: np.arange(3)[::-1], ValueError, "negative stride"),
        (lambda: np.zeros(3, [("a", "i1"), ("b", "f8")])["b"], ValueError, "multiple"),
        (lambda: np.zeros(9, np.uint8)[1:].view(np.int32), ValueError, r"no multiple of the size of int32 \(4 bytes\); copy it first"),
        (lambda: np.array(["a"]), TypeError, ""),
        (lambda: np.zeros(2, np.clongdouble), TypeError, "complex128"),
        (lambda: np.zeros(2, ">f4"), (TypeError, ValueError), ""),
        (lambda: [1, 2], TypeError, "list"),
    ],
    ids=["negative", "odd_stride", "misaligned", "text", "complex", "big_endian", "list"],
)
def test_from_numpy_refuses(make, kind, text):
    with pytest.raises(kind, match=text):
        fl.from_numpy(make())


@pytest.mark.parametrize("array", [
    np.arange(12.0)[::-1],
    np.arange(12.0).reshape(3, 4)[:, ::-2],
    np.array([(1, 2.5), (3, 4.5)], [("a", "i1"), ("b", "f8")])["b"],
    np.frombuffer(bytes(range(41)), np.uint8)[1:].view(np.int32),
    np.frombuffer(bytes(range(41)), np.uint8)[1:].view(np.int16).reshape(4, 5).T,
    np.zeros((0, 3))[::-1],
], ids=["reversed", "steps back", "a field", "misaligned", "misaligned and turned", "empty"])  # fmt: skip
def test_copies_take_arrays_as_they_lie(array):
    """What no tensor can be a view of is copied where a copy is made anyway, and where it is an operand."""
    assert fl.tensor(array).tolist() == array.tolist()
    assert fl.tensor(array, dtype=fl.float64).tolist() == array.tolist()
    assert (fl.zeros(array.shape, dtype=fl.float64) + array).tolist() == array.tolist()


@pytest.mark.parametrize("make", [
    lambda b: fl.frombuffer(b, dtype=fl.int16, count=3, offset=1), lambda b: fl.frombuffer(b, dtype=fl.float64, count=1, offset=4),
    lambda b: fl.from_dlpack(np.frombuffer(b, np.uint8)[1:9].view(np.float32)), lambda b: fl.as_tensor(np.frombuffer(b, np.uint8)[2:10].view(np.int64)),
], ids=["frombuffer", "frombuffer of doubles", "dlpack", "as_tensor"])  # fmt: skip
def test_memory_that_is_shared_is_aligned(make):
    with pytest.raises(ValueError, match="no multiple of the size"):
        make(bytearray(16))


def test_numpy_refuses():
    with pytest.raises(fl.AutogradError, match="detach"):
        fl.ones(2, requires_grad=True).numpy()
    with pytest.raises(fl.DTypeError, match="bfloat16.*float"):
        fl.ones(2, dtype=fl.bfloat16).numpy()
    with pytest.raises(fl.DeviceError, match="meta"):
        fl.ones(2, device="meta").numpy()
    x = fl.ones(2, requires_grad=True)
    assert x.numpy(force=True).tolist() == [1.0, 1.0]
    with fl.no_grad():  # where nothing is recorded that the array would miss
        array = x.numpy()
        assert np.shares_memory(array, x.numpy()) and np.asarray(x).tolist() == [1.0, 1.0]
    with fl.inference_mode():
        assert x.numpy().tolist() == [1.0, 1.0]


def test_array_protocol():
    x = fl.tensor([1.5, 2.5])
    assert np.array(x).dtype == np.float32 and np.asarray(x, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.sum(x) == 4.0 or np.sum(x).item() == 4.0
    assert np.asarray(fl.tensor(3)).shape == ()
    assert np.asarray(fl.zeros(0, 2)).shape == (0, 2)


def test_as_tensor_and_frombuffer():
    a = np.zeros(2)
    fl.as_tensor(a)[0] = 1
    assert a[0] == 1
    x = fl.zeros(2)
    assert fl.as_tensor(x) is x and fl.as_tensor(x, dtype=fl.float64) is not x
    data = bytearray(b"\x01\x00\x02\x00\x03\x00")
    y = fl.frombuffer(data, dtype=fl.int16, offset=2)
    assert y.tolist() == [2, 3]
    y[0] = 7
    assert data[2] == 7
    with pytest.raises(ValueError):
        fl.frombuffer(data, dtype=fl.int32)


# ---------------------------------------------------------------- DLPack


def test_dlpack_to_and_from_numpy():
    x = fl.arange(6, dtype=fl.float32).reshape(2, 3)
    a = np.from_dlpack(x)
    assert a.ctypes.data == x.data_ptr() and a.tolist() == x.tolist()
    b = np.arange(6.0).reshape(2, 3).T
    y = fl.from_dlpack(b)
    assert y.data_ptr() == b.ctypes.data and y.tolist() == b.tolist()
    assert x.__dlpack_device__() == (1, 0)


def test_dlpack_versions():
    x = fl.zeros(2)
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(x.__dlpack__())
    assert fl.from_dlpack(x.__dlpack__(max_version=(1, 0))).data_ptr() == x.data_ptr()


def test_dlpack_keeps_read_only():
    a = np.zeros(3)
    a.flags.writeable = False
    y = fl.from_dlpack(a)
    with pytest.raises((ValueError, RuntimeError), match="read-only"):
        y.add_(1)


def test_dlpack_capsule_is_used_once():
    capsule = fl.zeros(2).__dlpack__()
    fl.from_dlpack(capsule)
    with pytest.raises((ValueError, RuntimeError, TypeError)):
        fl.from_dlpack(capsule)


def test_what_dlpack_can_not_hand_over():
    x = fl.ones(2, requires_grad=True)
    for export in (x.__dlpack__, lambda: np.from_dlpack(x), lambda: fl.from_dlpack(x)):
        with pytest.raises(BufferError, match="a tensor that requires grad can not be exported") as caught:
            export()
        assert isinstance(caught.value, fl.AutogradError)
    with pytest.raises(BufferError, match="a meta tensor has no data"):
        fl.ones(2, device="meta").__dlpack__()
    assert fl.from_dlpack(fl.to_dlpack(x)).data_ptr() == x.data_ptr()
    assert fl.from_dlpack(fl.to_dlpack(x * 2)).tolist() == [2, 2]


def test_dlpack_memory_is_returned():
    before = fl.memory_stats()["allocated_bytes"]
    for _ in range(3):
        fl.from_dlpack(fl.zeros(1000))
        fl.zeros(1000).__dlpack__()
        np.from_dlpack(fl.zeros(1000))
    assert fl.memory_stats()["allocated_bytes"] == before


# ---------------------------------------------------------------- copies


@each_type
def test_pickle_and_deepcopy(dtype):
    x = fl.tensor([[1, 0], [1, 1]], dtype=dtype).t()
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert y.dtype is dtype and y.tolist() == x.tolist()
    y = copy.deepcopy(x)
    assert y.data_ptr() != x.data_ptr()


def test_what_is_pickled_with_a_history_comes_back_as_a_leaf():
    x = fl.ones(2, requires_grad=True) * 3
    y = pickle.loads(pickle.dumps(x))
    assert y.tolist() == [3.0, 3.0] and y.requires_grad and y.is_leaf and x.grad_fn is not None


def test_pickle_of_a_meta_tensor():
    x = fl.empty(2, 3, device="meta", dtype=fl.float64, requires_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert y.is_meta and y.shape == (2, 3) and y.dtype is fl.float64 and y.requires_grad


def test_deepcopy_keeps_what_belongs_to_a_leaf():
    x = fl.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    x.note = [1]
    y, z = copy.deepcopy([x, x])
    assert y is z and y.requires_grad and y.grad.tolist() == [2.0, 2.0] and y.grad is not x.grad and y.note == [1]
    with pytest.raises(fl.AutogradError, match="graph leaves"):
        copy.deepcopy(x * 2)


def test_pickle_of_types_devices_and_sizes():
    for thing in (fl.float32, fl.bfloat16, fl.device("cpu"), fl.ones(2, 3).shape):
        assert pickle.loads(pickle.dumps(thing)) == thing
    assert copy.deepcopy(fl.float32) is fl.float32
    assert pickle.loads(pickle.dumps(fl.float16)) is fl.float16


def _echo(inbox, outbox):
    x = inbox.get()
    outbox.put((x * 2, x.dtype.name))


@pytest.mark.slow
def test_queue_between_processes():
    context = multiprocessing.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    child = context.Process(target=_echo, args=(inbox, outbox), daemon=True)
    child.start()
    inbox.put(fl.arange(4, dtype=fl.int32).reshape(2, 2))
    y, name = outbox.get(timeout=60)
    child.join(60)
    assert name == "int32" and y.tolist() == [[0, 2], [4, 6]]


# ---------------------------------------------------------------- devices


def test_meta_device():
    x = fl.ones(2**20, 2**20, device="meta")
    y = (x @ x).sum(0).softmax(0)
    assert y.is_meta and y.shape == (2**20,) and y.device.type == "meta"
    with pytest.raises(fl.DeviceError, match="meta"):
        y.tolist()
    with pytest.raises(fl.ShapeError):
        fl.mm(fl.ones(2, 3, device="meta"), fl.ones(2, 3, device="meta"))
    with pytest.raises(fl.DeviceError):
        fl.ones(2) + fl.ones(2, device="meta")
    w = fl.ones(2, 2, device="meta", requires_grad=True)
    (w * 2).sum().backward()
    assert w.grad.is_meta and w.grad.shape == (2, 2)


def test_what_goes_to_meta_requires_grad_as_before():
    w = fl.ones(2, requires_grad=True)
    assert (moved := w.to("meta", fl.float64)).requires_grad and not moved.is_leaf and moved.dtype is fl.float64
    with pytest.raises(fl.AutogradError, match=r"a gradient of shape \[2\] on meta for a tensor of shape \[2\] on cpu"):
        moved.sum().backward()
    with fl.no_grad():
        assert not w.to("meta").requires_grad
    assert not fl.ones(2).to("meta").requires_grad


@pytest.mark.parametrize(
    "call",
    [lambda: fl.ones(2, device="cuda"), lambda: fl.ones(2).to("cuda"), lambda: fl.ones(2).cuda(), lambda: fl.tensor([1], device="cuda:0")],
    ids=["factory", "to", "cuda", "tensor"],
)
def test_cuda_is_refused_with_a_way_out(call):
    with pytest.raises(fl.DeviceError, match="CUDA"):
        call()


def test_device_objects():
    assert fl.device("cpu") == fl.ones(1).device and str(fl.device("cpu")) == "cpu"
    assert len({fl.device("cpu"), fl.device("cpu")}) == 1
    with pytest.raises((RuntimeError, ValueError)):
        fl.device("tpu9")


def test_a_device_keeps_the_index_it_was_named_with_and_tensors_have_none():
    device = fl.device("cpu:0")
    assert str(device) == "cpu:0" and device.index == 0 and device != fl.device("cpu") and fl.device("cpu", 0) == device
    assert pickle.loads(pickle.dumps(device)) == device
    assert fl.zeros(1, device=device).device == fl.zeros(1).to(device).device == fl.device("cpu")
    with device:
        assert fl.zeros(1).device == fl.device("cpu")



# ---------------------------------------------------------------- sizes that can not be


@pytest.mark.parametrize("shape", [(2**62, 4), (2**32, 2**32), (2**63 - 1, 2**63 - 1), (2**61,)], ids=str)
@pytest.mark.parametrize("make", [fl.empty, fl.zeros, fl.ones, fl.rand], ids=lambda f: f.__name__)
def test_products_that_overflow(make, shape):
    with pytest.raises((fl.ShapeError, MemoryError)):
        make(*shape)


def test_empty_with_a_huge_axis():
    assert fl.empty(0, 2**40).shape == (0, 2**40)


def test_negative_sizes():
    with pytest.raises(fl.ShapeError, match=r"\[2, -1\]"):
        fl.zeros(2, -1)


@pytest.mark.eager("when memory is allocated")
def test_failed_allocation_leaves_the_library_working():
    kept = fl.arange(1000)
    with pytest.raises(MemoryError, match="bytes"):
        fl.empty(2**45)  # lets go of what is kept for speed alone: packed weights of other tests
    gc.collect()
    before = fl.memory_stats()["allocated_bytes"]
    with pytest.raises(MemoryError, match="bytes"):
        fl.empty(2**45)
    with pytest.raises(MemoryError):
        fl.ones(1).expand(2**45).clone()
    assert fl.memory_stats()["allocated_bytes"] == before
    assert (kept + 1).sum().item() == 500500


def test_expand_costs_nothing_and_refuses_writes():
    x = fl.ones(1).expand(2**40)
    assert x.stride() == (0,)
    with pytest.raises(ValueError, match="single memory location"):
        x.add_(1)


# ------------------------------------------------------------------------------------------ deepcopy


@pytest.mark.parametrize(
    "views",
    [
        lambda x: [x, x.view(2, 3)],
        lambda x: [x.view(2, 3).t(), x[1:3]],
        lambda x: [x[::2], x[1:], x.view(1, 6).expand(2, 6)],
        lambda x: [x, x],
    ],
    ids=["whole and view", "transposed and slice", "overlapping", "same"],
)
def test_deep_copies_share_as_the_originals_do(views):
    x = fl.arange(6.0)
    old = views(x)
    new = copy.deepcopy(old)
    assert all(fl.equal(a, b) and a.stride() == b.stride() for a, b in zip(old, new))
    for values in (old, new):
        values[0][..., -1] = -7
    assert all(fl.equal(a, b) for a, b in zip(old, new))
    assert x.data_ptr() not in {t.data_ptr() for t in new}


def test_copies_made_apart_do_not_share():
    x = fl.arange(6.0)
    a, b = copy.deepcopy(x), copy.deepcopy(x[2:4])
    a.fill_(0)
    assert b.tolist() == [2, 3] and x.tolist() == [0, 1, 2, 3, 4, 5]


def test_from_dlpack_to_a_device_and_with_a_copy():
    a = np.zeros(2)
    shared, own = fl.from_dlpack(ext_tensor=a, copy=False), fl.from_dlpack(a, copy=True, device="cpu")
    a[0] = 1
    assert shared.tolist() == [1, 0] and own.tolist() == [0, 0]
    assert fl.from_dlpack(a, device="meta").device.type == "meta"
    with pytest.raises(ValueError, match="device = meta with copy = False"):
        fl.from_dlpack(a, device="meta", copy=False)
    for options in ({"copy": True}, {"device": "cpu"}):
        with pytest.raises(ValueError, match="from_dlpack: .* with a PyCapsule; expected None"):
            fl.from_dlpack(fl.to_dlpack(shared), **options)


def test_from_dlpack_of_a_producer_that_knows_no_copies():
    class Older:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

    a = np.zeros(2)
    shared, own = fl.from_dlpack(Older(a)), fl.from_dlpack(Older(a), copy=True)
    a[0] = 1
    assert shared.tolist() == [1, 0] and own.tolist() == [0, 0]


@pytest.mark.parametrize(("size", "options"), [(0, {}), (4, {"count": 0}), (4, {"offset": 4}), (4, {"offset": -1}), (4, {"count": 2})])
def test_a_buffer_without_elements_is_refused(size, options):
    with pytest.raises(ValueError, match="frombuffer"):
        fl.frombuffer(bytearray(size), dtype=fl.float32, **options)


@pytest.mark.parametrize("dtype", [fl.float16, fl.bfloat16, fl.float32, fl.complex64], ids=str)
def test_a_tensor_on_a_buffer_may_require_grad(dtype):
    assert fl.frombuffer(bytearray(8), dtype=dtype, requires_grad=True).requires_grad


def test_lists_of_arrays():
    """Also of small ones, and inside of lists: an array is no number, whatever its class converts itself to."""
    ones = np.ones(2)
    assert fl.tensor([ones, ones]).tolist() == [[1.0, 1.0], [1.0, 1.0]] and fl.tensor([ones]).dtype == fl.float64
    assert fl.tensor([[ones], [ones]]).shape == (2, 1, 2) and fl.tensor((np.ones(1, np.int8),)).dtype == fl.int8
    assert fl.tensor([np.array(1.0), np.array(2.0)]).tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="infer dtype of numpy.ndarray at .1."):
        fl.tensor([1.0, ones])


@pytest.mark.parametrize("make", [fl.tensor, fl.as_tensor, fl.ones(1, dtype=fl.int64).new_tensor, fl.LongTensor, fl.Tensor])
def test_arrays_without_axes_stand_beside_numbers(make):
    x = make([[1, np.array(2)], (fl.tensor(3), 4)])
    assert x.dtype is (fl.float32 if make is fl.Tensor else fl.int64) and x.tolist() == [[1, 2], [3, 4]]


def test_types_of_arrays_without_axes():
    assert fl.tensor([1, np.array(2.5)]).dtype is fl.float64 and fl.tensor([1, np.array(2j)]).tolist() == [1, 2j]
    with pytest.raises(TypeError, match="from_numpy: elements of format"):
        fl.tensor([1, np.array("a")])


# ------------------------------------------------------------------------------------- memory of other objects


class _Lends:
    """Knows DLPack, and is neither a sequence nor an array."""

    def __init__(self):
        self.memory = fl.zeros(2)

    def __dlpack__(self, **options):
        return self.memory.__dlpack__()

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()


@pytest.mark.parametrize(
    "make, shared",
    [
        (fl.as_tensor, True), (fl.asarray, True), (lambda x: fl.asarray(x, copy=False), True),
        (lambda x: fl.asarray(x, copy=True), False), (fl.tensor, False),
        (lambda x: fl.asarray(x.__dlpack__(), copy=False), True), (lambda x: fl.as_tensor(x, dtype=fl.float64), False),
    ],
)  # fmt: skip
def test_objects_with_dlpack(make, shared):
    lender = _Lends()
    x = make(lender)
    x[0] = 3.0
    assert x.tolist() == [3.0, 0.0] and lender.memory.tolist() == [3.0 if shared else 0.0, 0.0]


@pytest.mark.parametrize("copy, want", [(None, [5.0, 2.0]), (False, [5.0, 2.0]), (True, [1.0, 2.0])])
def test_asarray_of_a_buffer(copy, want):
    numbers = array.array("d", [1.0, 2.0])
    x = fl.asarray(numbers, dtype=fl.float64, copy=copy)
    numbers[0] = 5.0
    assert x.tolist() == want


def test_asarray_reads_a_buffer_as_bytes_of_the_type_asked_for():
    assert fl.asarray(bytearray(b"abc"), dtype=fl.uint8).tolist() == [97, 98, 99]
    assert fl.asarray(array.array("f", [1.0])).tolist() == [1.0]
    with pytest.raises(ValueError, match=r"buffer length \(3 bytes\) after offset"):
        fl.asarray(bytearray(b"abc"))


# ------------------------------------------------------------------------------------- Python's types as element types


@pytest.mark.parametrize("make", [
    lambda d: fl.frombuffer(bytearray(8), dtype=d).dtype, lambda d: fl.range(0, 2, dtype=d).dtype,
], ids=["frombuffer", "range"])  # fmt: skip
@pytest.mark.parametrize("python, want", [(float, fl.float64), (int, fl.int64)])
@pytest.mark.filterwarnings("ignore:range:UserWarning")
def test_types_of_python_name_element_types(make, python, want):
    assert make(python) is want


@pytest.mark.parametrize("make", [
    lambda d: fl.hann_window(3, dtype=d), lambda d: fl.kaiser_window(1, dtype=d), lambda d: fl.fft.fftfreq(3, dtype=d),
    lambda d: fl.fft.rfftfreq(3, dtype=d),
], ids=["hann", "kaiser", "fftfreq", "rfftfreq"])  # fmt: skip
def test_float_means_float64_where_results_are_floats(make):
    assert make(float).dtype is fl.float64


def test_limits_of_types_of_python():
    assert fl.finfo(float).eps == fl.finfo(complex).eps == 2.0**-52 and fl.iinfo(int).max == 2**63 - 1
    assert fl.can_cast(int, float) and not fl.can_cast(complex, fl.float32) and fl.can_cast(bool, int)
    with pytest.raises(TypeError, match=r"iinfo\(\) requires an integer input type"):
        fl.iinfo(float)


def test_classes_of_numbers_are_element_types():
    x = fl.ones(2, 2)
    made = [fl.zeros(2, dtype=float), fl.arange(3, dtype=float), x.to(float), x.sum(0, dtype=float), fl.nn.Linear(1, 1).to(float).weight, fl.nn.Linear(1, 1, dtype=float).weight]
    assert {y.dtype for y in made} == {fl.float64}
    assert fl.randint(0, 3, (2,), dtype=int).dtype is fl.int64 and x.to(bool).dtype is fl.bool and fl.tensor([1], dtype=complex).dtype is fl.complex128
    with pytest.raises(TypeError, match="set_default_dtype"):
        fl.set_default_dtype(float)


def test_tensors_of_one_element_are_numbers_in_a_list():
    """As in PyTorch, whatever their axes: the losses of a list of batches are a vector."""
    one, deep = fl.tensor([1.0]), fl.tensor([[2]])
    assert fl.tensor([one, deep, 3]).tolist() == [1.0, 2.0, 3.0]
    assert fl.as_tensor([[one, one], [deep, deep]]).shape == (2, 2)
    assert fl.tensor([one, one.double()]).dtype is fl.float64
    assert fl.tensor([[1.0], one]).shape == (2, 1)
    assert fl.tensor([fl.ones(2), fl.zeros(2)]).shape == (2, 2)
    with pytest.raises(ValueError, match="a list at depth 1 beside numbers"):
        fl.tensor([1, [2]])
    with pytest.raises(ValueError, match="2 elements"):
        fl.tensor([one, fl.ones(2)])


def test_a_size_stays_one_whatever_it_is_added_to():
    size = fl.Size([2, 3])
    for made in (size + (4,), (4,) + size, size + size):
        assert type(made) is fl.Size
    assert (4,) + size == (4, 2, 3)
    with pytest.raises(TypeError):
        [4] + size


def test_a_complex_number_without_imaginary_part_is_a_real_one():
    assert float(fl.tensor(2 + 0j)) == 2.0 and int(fl.tensor(3 + 0j)) == 3
    with pytest.raises(TypeError, match="expected a real number"):
        float(fl.tensor(2 + 1j))
    assert fl.float16.to_complex() is fl.complex32
    assert fl.promote_types(type1=fl.float16, type2=fl.int8) is fl.float16
    assert fl.result_type(tensor=fl.ones(1), other=1j) is fl.complex64


def test_new_tensor_lies_where_the_other_does():
    x = fl.ones(2, device="meta")
    assert x.new_tensor([1.0]).is_meta and x.new_tensor(fl.ones(3)).shape == (3,) and x.new_tensor(fl.ones(3)).is_meta
    assert not x.new_tensor([1.0], device="cpu").is_meta and not fl.ones(2).new_tensor([1.0]).is_meta


def test_ramps_of_float32_have_ends_and_a_step_of_float32():
    """As PyTorch's: to the bit."""
    rng = np.random.default_rng(0)
    for n in (2, 5, 10, 101, 1000):
        a, b = (np.float32(v) for v in rng.normal(size=2) * 10)
        step, i = np.float64((b - a) / np.float32(n - 1)), np.arange(n)
        want = np.where(i < n // 2, np.float64(a) + step * i, np.float64(b) - step * (n - 1 - i)).astype(np.float32)
        assert fl.linspace(float(a), float(b), n).numpy().tolist() == want.tolist()
