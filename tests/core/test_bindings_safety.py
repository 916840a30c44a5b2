"""Memory and references at the border to Python: exports, objects that change while read, arguments of methods."""

from __future__ import annotations

import collections
import gc
import sys
import threading

import numpy as np
import pytest

import flambeau as fl

# ---------------------------------------------------------------- memory that somebody else sees

EXPORTS = {
    "numpy": lambda x: x.numpy(),
    "dlpack": np.from_dlpack,
    "buffer": memoryview,
    "view": lambda x: x[1:].numpy(),
}
each_export = pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS.keys())


@each_export
def test_exported_memory_does_not_move(export):
    x = fl.zeros(4)
    held = export(x)
    with pytest.raises(ValueError, match="resize_: .* shares the memory, .* clone"):
        x.resize_(10_000_000)
    assert x.shape == (4,)
    assert x.resize_(2).shape == (2,)  # what fits does not move
    del held
    gc.collect()
    assert x.resize_(1000).shape == (1000,)


@each_export
def test_an_export_keeps_memory_that_its_tensor_gave_up(export):
    x = fl.full((3_000_000,), 1.0)
    held = export(x)
    x.data = fl.ones(2)
    others = [fl.full((3_000_000,), 5.0) for _ in range(3)]
    assert np.asarray(held)[:4].tolist() == [1.0] * 4
    assert others[0][0] == 5


def test_an_unused_capsule_gives_its_memory_back():
    x = fl.zeros(4)
    capsule = x.__dlpack__()
    with pytest.raises(ValueError, match="shares the memory"):
        x.resize_(10_000_000)
    del capsule
    assert x.resize_(1000).numel() == 1000


# ---------------------------------------------------------------- references


@pytest.mark.parametrize("make", [collections.deque, lambda items: [items], lambda items: range(3)])
def test_data_that_is_refused_is_not_kept(make):
    item = object()
    before = sys.getrefcount(item)
    for _ in range(10):
        try:
            fl.tensor([make([item] * 100), item])
        except (TypeError, ValueError):
            pass
        try:
            fl.tensor(make([item] * 100))
        except (TypeError, ValueError):
            pass
    assert sys.getrefcount(item) == before


@pytest.mark.parametrize("make", [collections.deque, list, tuple])
def test_sizes_that_are_refused_are_not_kept(make):
    item = object()
    before = sys.getrefcount(item)
    for _ in range(10):
        with pytest.raises(TypeError):
            fl.zeros(make([1, item]))
    assert sys.getrefcount(item) == before


class Index:
    """An integer that does something when it is looked at."""

    def __init__(self, act):
        self.act = act

    def __index__(self):
        self.act()
        return 1


def test_a_list_that_grows_while_it_is_read_is_refused():
    data = [1, 2, 3]
    data.append(Index(lambda: data.extend([7] * 10_000)))
    with pytest.raises(ValueError, match="changed while it was read"):
        fl.tensor(data)


def test_a_list_that_shrinks_while_it_is_read_is_refused():
    data = []
    data.extend([Index(data.clear)] * 1000)
    with pytest.raises(ValueError, match="changed while it was read"):
        fl.tensor(data)


def test_a_nested_list_that_changes_while_it_is_read_is_refused():
    inner = [1, 2]
    data = [[Index(lambda: inner.extend([3] * 1000)), 1], inner]
    with pytest.raises(ValueError, match=r"changed while it was read|equal lengths|length"):
        fl.tensor(data)


def test_sizes_that_change_while_they_are_read_are_refused():
    size = []
    size.extend([Index(size.clear)] * 100)
    with pytest.raises(ValueError, match="changed while it was read"):
        fl.zeros(size)


def test_a_number_beside_an_empty_list_is_refused():
    with pytest.raises(ValueError, match="a number at depth 1 beside lists"):
        fl.tensor([[], 1])


# ---------------------------------------------------------------- the GIL


@pytest.mark.parametrize(
    "make",
    [
        lambda: fl.zeros(30_000_000),
        lambda: fl.full((30_000_000,), 2.0),
        lambda: fl.rand(10_000_000),
        lambda: fl.randn((2, 5_000_000)),
        lambda: fl.randperm(2_000_000),
        lambda: fl.zeros(1).new_ones(30_000_000),
    ],
    ids=["zeros", "full", "rand", "randn", "randperm", "new_ones"],
)
@pytest.mark.eager("when numbers are drawn")
def test_large_results_are_made_without_the_gil(make):
    lock, ran = threading.Lock(), []
    interval = sys.getswitchinterval()
    lock.acquire()

    def wait():
        with lock:
            ran.append(True)

    other = threading.Thread(target=wait)
    other.start()
    sys.setswitchinterval(1000.0)  # the other thread runs only when the lock is given up
    try:
        lock.release()
        for _ in range(50):  # a busy system may wake the other thread late
            make()
            if ran:
                break
        assert ran
    finally:
        sys.setswitchinterval(interval)
        other.join()


# ---------------------------------------------------------------- arguments of methods that are no ops


def test_methods_take_their_argument_by_name():
    x = fl.zeros(6)
    assert x.resize_(size=(2, 2)).shape == (2, 2)
    assert x.size(dim=1) == 2
    assert x.stride(dim=0) == 2
    assert x.is_contiguous(memory_format=None)
    assert x.contiguous(memory_format=None) is x
    assert x.requires_grad_(requires_grad=False).requires_grad is False
    assert x.requires_grad_(requires_grad=True).requires_grad is True


@pytest.mark.parametrize("name", ["resize_", "requires_grad_", "size", "stride", "is_contiguous", "contiguous"])
def test_methods_refuse_other_names(name):
    with pytest.raises(TypeError, match=rf"{name}: got an unexpected keyword argument 'other'; expected {name}\("):
        getattr(fl.zeros(2, 2), name)(other=1)


@pytest.mark.parametrize("name", ["requires_grad_", "size", "stride", "is_contiguous", "contiguous"])
def test_methods_refuse_more_than_one_argument(name):
    with pytest.raises(TypeError, match="got 2 arguments"):
        getattr(fl.zeros(2, 2), name)(0, 1)


def test_resize_wants_a_size():
    with pytest.raises(TypeError, match="'size' is missing"):
        fl.zeros(2).resize_()


@pytest.mark.parametrize("flag", [5, None, 1.0, "yes", fl.zeros(2), np.float64(1)])
def test_whether_a_tensor_requires_grad_is_a_bool(flag):
    x = fl.zeros(2)
    with pytest.raises(TypeError, match="requires_grad_: got .*; expected a bool"):
        x.requires_grad_(flag)
    with pytest.raises(TypeError, match="requires_grad: got .*; expected a bool"):
        x.requires_grad = flag
    with pytest.raises(TypeError, match="got nothing"):
        del x.requires_grad
    assert not x.requires_grad
    x.requires_grad = np.bool_(True)
    assert x.requires_grad


def test_other_looks_at_an_inference_tensor_are_inference_tensors():
    with fl.inference_mode():
        x = fl.zeros(2)
    assert x.view(fl.int32).is_inference()
    assert x.data.is_inference()
    assert not fl.zeros(2).data.is_inference()


def test_assigned_values_may_have_leading_ones():
    x = fl.zeros(3, 4)
    x[[0, 2]] = fl.ones(1, 1, 2, 4)
    assert x.sum(1).tolist() == [4, 0, 4]
    v = fl.ones(1, 2, 4, requires_grad=True)
    y = fl.zeros(3, 4)
    y[[0, 2]] = v
    y.sum().backward()
    assert v.grad.shape == (1, 2, 4)
    with pytest.raises(fl.ShapeError):
        x[[0, 2]] = fl.ones(2, 2, 4)


# ---------------------------------------------------------------- hooks


def resident_bytes():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["leaf", "result", "accumulated", "node"])
def test_removed_hooks_take_no_memory(kind):
    x = fl.ones(1, requires_grad=True)
    y = x * 2
    register = {
        "leaf": x.register_hook,
        "result": y.register_hook,
        "accumulated": x.register_post_accumulate_grad_hook,
        "node": y.grad_fn.register_hook,
    }[kind]

    def turn(n):
        for _ in range(n):
            register(print).remove()

    turn(1000)
    before = resident_bytes()
    turn(300_000)
    assert resident_bytes() - before < 4 << 20


def test_removed_hooks_leave_the_others_in_order():
    x = fl.ones(1, requires_grad=True)
    seen = []
    handles = [x.register_hook(lambda g, k=k: seen.append(k)) for k in range(4)]
    handles[1].remove()
    x.register_hook(lambda g: seen.append(4))
    handles[0].remove()
    (x * 2).backward()
    assert seen == [2, 3, 4]


class Once:
    """A hook that removes itself, and with itself the last reference to it, before it is done."""

    def __init__(self, seen):
        self.seen = seen

    def __call__(self, *grads):
        self.handle.remove()
        del self.handle
        gc.collect()
        self.seen.append(type(self).__name__)


@pytest.mark.parametrize("kind", ["tensor", "node", "prehook"])
def test_a_hook_may_remove_itself(kind):
    x = fl.ones(1, requires_grad=True)
    y = x * 2
    seen = []
    hook = Once(seen)
    register = {"tensor": y.register_hook, "node": y.grad_fn.register_hook, "prehook": y.grad_fn.register_prehook}[kind]
    hook.handle = register(hook)
    del hook
    y.backward(retain_graph=True)
    y.backward()
    assert seen == ["Once"]


LONE = "\ud800"  # no UTF-8 can say it; names of files that are no UTF-8 become such


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: fl.ones(1).sum(**{LONE: 1}), TypeError),
        (lambda: fl.ones(1).to(**{LONE: 1}), TypeError),
        (lambda: fl.ones(1).squeeze(**{LONE: 1}), TypeError),
        (lambda: fl.ones(1).requires_grad_(**{LONE: True}), TypeError),
        (lambda: fl.max(fl.ones(2), 0, **{LONE: 1}), TypeError),
        (lambda: fl.device(LONE), ValueError),
        (lambda: fl.ones(1, device=LONE), ValueError),
        (lambda: fl.ones(1).to(LONE), ValueError),
    ],
)
def test_texts_that_are_no_utf8(call, error):
    with pytest.raises(error, match=r"\\ud800"):
        call()


def test_lines_of_files_whose_names_are_no_utf8():
    """The name stands in the error, with backslashes."""
    code = compile("y = x.exp()\nx.grad = None\ny.add_(1)\ny.sum().backward()", "/tmp/caf\udce9.py", "exec")
    with pytest.raises(fl.AutogradError, match=r"caf\\udce9\.py:3"):
        exec(code, {"x": fl.ones(2, requires_grad=True)})


@pytest.mark.parametrize(
    "call",
    [
        lambda: fl.ones(3).to(fl.int32, copy=fl.ones(2).bool()),
        lambda: fl.Tensor._make_subclass(fl.nn.Parameter, fl.ones(2), fl.ones(2)),
    ],
)
def test_what_has_no_truth_is_refused(call):
    with pytest.raises(ValueError, match=r"more than one value is ambiguous: it has shape \[2\]"):
        call()


class NoIndex:
    def __index__(self):
        raise ZeroDivisionError("no index")


def test_sizes_of_other_things_than_integers():
    with pytest.raises(ZeroDivisionError, match="no index"):
        fl.Size([NoIndex(), NoIndex(), 2])
    for other in (["a"], [1.5], [None], (1, [2])):
        with pytest.raises(TypeError, match="Size: item . is a .*; expected an int"):
            fl.Size(other)
    sizes = fl.Size((True, np.int64(2)))
    assert list(map(type, sizes)) == [int, int] and sizes == (1, 2) and fl.Size() == ()
