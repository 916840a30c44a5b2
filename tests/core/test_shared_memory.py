"""Tensors in memory that several processes see: `share_memory_`, and how they travel."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import flambeau as fl
import flambeau.multiprocessing as mp
from flambeau import nn
from flambeau.multiprocessing import _channel, _sharing

METHODS = [m for m in ("fork", "spawn", "forkserver") if m in mp.get_all_start_methods()]


# ---- what children do; at the top, so that spawned ones find it


def write(x, value):
    x.fill_(value)


def answer(inbox, outbox):
    for x in iter(inbox.get, None):
        x.mul_(2)
        outbox.put((x.is_shared(), x.requires_grad, tuple(x.shape), x.stride()))
        outbox.put(x)
        inbox.task_done()


def fill_all(inbox, value):
    for x in iter(inbox.get, None):
        with fl.no_grad():
            x.fill_(value)


def tripled(x):
    x.mul_(3)
    return x.detach() + 1


def put_and_end(outbox, n):
    outbox.put(fl.ones(n))


def descend(model, target, steps):
    fl.set_num_threads(1)
    optimizer = fl.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(fl.eye(3)) - target).square().sum().backward()
        optimizer.step()


def run_child(method, target, *args):
    child = mp.get_context(method).Process(target=target, args=args)
    child.start()
    child.join(60)
    assert child.exitcode == 0


# ---- in this process


def test_it_moves_with_all_views():
    x = fl.arange(12.0).view(3, 4)
    row, before = x[1], x.data_ptr()
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared() and row.is_shared() and x.untyped_storage().is_shared() and x.data_ptr() != before
    row.fill_(7)
    assert x[1].tolist() == [7] * 4 and x[2].tolist() == [8, 9, 10, 11]
    at = x.data_ptr()
    assert x.share_memory_().data_ptr() == at, "once is enough"
    assert not x.clone().is_shared() and not (x + 1).is_shared()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "uint16", "float16", "bfloat16", "float32", "float64", "complex64"])
def test_every_type(dtype):
    x = fl.tensor([1, 0, 1, 1]).to(getattr(fl, dtype))
    expected = x.tolist()
    assert x.share_memory_().tolist() == expected and x.is_shared()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)], ids=str)
def test_one_and_no_elements(shape):
    x = fl.zeros(shape).share_memory_()
    assert x.is_shared() and x.shape == shape and x.sum().item() == 0


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "complex128"])
def test_what_has_no_elements_can_be_sent(shape, dtype):
    x = fl.zeros(shape, dtype=getattr(fl, dtype)).share_memory_()
    for pack, unpack in ((_sharing.ForkingPickler.dumps, pickle.loads), (_channel.pack, _unpacked)):
        y = unpack(pack(x))
        assert y.shape == shape and y.dtype is x.dtype and y.is_shared()


def _unpacked(packed):
    fds = [os.dup(segment.fd) for segment in packed.memory]
    return _channel.Parcel(packed.data.getbuffer()[_channel._HEAD.size :], fds).open()


def test_autograd_goes_on():
    w = fl.ones(3, requires_grad=True)
    y = (w * w).sum()  # saved before it moves
    w.share_memory_()
    y.backward()
    assert w.grad.tolist() == [2, 2, 2] and w.requires_grad and w.is_leaf and not w.grad.is_shared()
    (w.exp()).sum().backward()
    with fl.no_grad():
        w.sub_(w.grad)
    assert w.is_shared()


def test_layouts_and_recordings_are_settled_first():
    x = nn.Conv2d(3, 16, 3)(fl.randn(1, 3, 9, 9)).detach()  # lies with channels last where that is quicker
    expected = x.clone()
    assert fl.equal(x.share_memory_(), expected)
    with fl.lazy():
        y = fl.ones(3) * 2
        y.share_memory_()
        z = y + 1
    assert y.tolist() == [2, 2, 2] and z.tolist() == [3, 3, 3] and y.is_shared()


def test_replayed_programs_see_that_it_moved():
    w = fl.ones(3)
    f = fl.compile(lambda x: x * w, mode="replay")
    x = fl.tensor([1.0, 2.0, 3.0])
    for _ in range(5):
        assert f(x).tolist() == [1, 2, 3]
    w.share_memory_()
    w.fill_(2)
    for _ in range(5):
        assert f(x).tolist() == [2, 4, 6]


def test_what_others_look_at_stays():
    x = fl.zeros(3)
    array = x.numpy()
    with pytest.raises(RuntimeError, match="delete the export or clone"):
        x.share_memory_()
    assert not x.is_shared() and x.data_ptr() == array.ctypes.data
    del array
    assert x.share_memory_().is_shared()
    x.numpy()[1] = 5  # afterwards it is as any memory
    assert x.tolist() == [0, 5, 0]


def test_a_tensor_of_numpys_memory_leaves_it():
    array = np.zeros(3, np.float32)
    x = fl.from_numpy(array).share_memory_()
    x.fill_(1)
    assert array.tolist() == [0, 0, 0] and x.is_shared()


def test_meta_tensors_are_refused():
    for n in (3, 2**31):  # of which no file is made before
        with pytest.raises(RuntimeError, match=rf"\[{n}\] is on meta"):
            fl.empty(n, device="meta").share_memory_()


def test_no_more_is_asked_for_than_there_is(monkeypatch):
    """The kernel would end other processes to fill a file that nothing limits."""
    x = fl.zeros(1000)
    monkeypatch.setattr(fl._C, "available_memory", lambda: 3999)
    with pytest.raises(OSError, match="4000 bytes of shared memory; 3999 bytes are available"):
        x.share_memory_()
    assert not x.is_shared() and x.sum() == 0


def test_memory_and_descriptors_go_with_the_last_tensor():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    gc.collect()
    before = descriptors()
    kept = [fl.zeros(1000).share_memory_() for _ in range(20)]
    assert descriptors() == before + len(kept)
    del kept
    assert descriptors() == before
    assert not _sharing._known


def test_a_module_is_shared_with_its_buffers_and_stays_trainable():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    parameters = list(model.parameters())
    assert model.share_memory() is model
    assert all(t.is_shared() for t in (*model.parameters(), *model.buffers()))
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    before = model[0].weight.detach().clone()
    optimizer = fl.optim.Adam(model.parameters(), lr=0.1)
    model(fl.randn(5, 3)).square().sum().backward()
    optimizer.step()
    assert model[0].weight.is_shared() and not fl.equal(model[0].weight, before)


def test_what_has_a_history_is_not_sent():
    with pytest.raises(fl.AutogradError, match=r"a tensor \[2\] with a history can not be sent .* send .detach\(\)"):
        _sharing.ForkingPickler.dumps(fl.ones(2, requires_grad=True) * 3)


def test_a_way_of_sharing_that_is_not_there_is_refused():
    with pytest.raises(AssertionError, match="set_sharing_strategy: 'none'; expected 'file_descriptor' or 'file_system'") as caught:
        mp.set_sharing_strategy("none")
    assert isinstance(caught.value, ValueError)


def test_files_and_pickles_hold_values():
    x = fl.arange(3.0).share_memory_()
    again = pickle.loads(pickle.dumps(x))
    assert again.tolist() == [0, 1, 2] and not again.is_shared()


# ---- between processes


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_what_a_child_writes_is_seen(method):
    x = fl.zeros(2, 3).share_memory_()
    run_child(method, write, x, 3.0)
    assert x.tolist() == [[3, 3, 3], [3, 3, 3]]
    run_child(method, write, x[1], 4.0)  # a view is sent with its place
    assert x.tolist() == [[3, 3, 3], [4, 4, 4]]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_what_is_sent_is_shared_and_what_a_fork_has_is_not(method):
    x = fl.zeros(3)
    run_child(method, write, x, 3.0)
    assert x.tolist() == ([0, 0, 0] if method == "fork" else [3, 3, 3])
    assert x.is_shared() == (method != "fork")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_through_queues_and_back(method):
    context = mp.get_context(method)
    inbox, outbox = context.JoinableQueue(), context.Queue()
    child = context.Process(target=answer, args=(inbox, outbox), daemon=True)
    child.start()
    shared, own = fl.arange(6.0).view(2, 3).t().share_memory_(), fl.ones(2)
    for x in (shared, nn.Parameter(fl.ones(3)).share_memory_(), own):
        requires = x.requires_grad
        inbox.put(x.detach() if requires else x)
        assert outbox.get(timeout=60) == (True, False, tuple(x.shape), x.stride())
        assert outbox.get(timeout=60).data_ptr() == x.data_ptr(), "what comes back is the same memory at the same place"
        inbox.join()
    assert shared.tolist() == [[0, 6], [2, 8], [4, 10]] and own.tolist() == [2, 2] and own.is_shared()
    inbox.put(None)
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue", "SimpleQueue"])
@pytest.mark.parametrize("method", METHODS)
def test_what_is_put_is_moved_and_what_its_receiver_writes_is_seen(method, kind):
    context = mp.get_context(method)
    inbox = getattr(context, kind)()
    child = context.Process(target=fill_all, args=(inbox, 7), daemon=True)
    child.start()
    base, array, leaf, lent, parameter = fl.zeros(4), np.zeros(2), fl.zeros(2, requires_grad=True), fl.zeros(2), nn.Parameter(fl.zeros(2))
    looks = lent.numpy()
    for x in (base[1:3], fl.zeros(0), leaf, lent, parameter):
        inbox.put(x)
    inbox.put([ours := fl.from_numpy(array)][0])
    assert base.is_shared() and leaf.is_shared() and parameter.is_shared() and ours.is_shared() and not lent.is_shared()
    inbox.put(None)
    child.join(60)
    assert child.exitcode == 0
    assert base.tolist() == [0, 7, 7, 0] and leaf.tolist() == [7, 7] == parameter.tolist() == ours.tolist()
    assert looks.tolist() == lent.tolist() == [0, 0] == array.tolist(), "NumPy's memory stays where it is"


def test_what_is_put_is_moved_by_who_puts_it():
    inbox = mp.get_context("fork").Queue()
    sparse = fl.sparse_coo_tensor([[0]], [1.0], (2,))
    inbox.put({"a": [x := fl.zeros(2)], "b": (y := fl.zeros(3),), "model": (model := nn.Linear(2, 2)), "sparse": sparse})
    assert x.is_shared() and y.is_shared() and model.weight.is_shared(), "not later, beside ops on the same memory"
    assert sparse._values().is_shared()
    with pytest.raises(fl.AutogradError, match=r"a tensor \[2\] with a history can not be sent"):
        inbox.put(fl.ones(2, requires_grad=True) * 3)
    got = inbox.get(timeout=60)
    assert got["a"][0].data_ptr() == x.data_ptr() and inbox.empty()


def test_pipes_share():
    here, there = mp.Pipe()
    here.send([x := fl.zeros(4).view(2, 2), x[1]])
    whole, row = there.recv()
    whole.fill_(4)
    row.fill_(5)
    assert x.tolist() == [[4, 4], [5, 5]] and x.is_shared()


@pytest.mark.slow
@pytest.mark.parametrize("call", ["map", "apply", "starmap", "map_async"])
def test_pools_share_arguments_and_results(call):
    xs = [fl.ones(2), fl.ones(3)]
    with mp.get_context("fork").Pool(1) as pool:
        if call == "apply":
            results = [pool.apply(tripled, (x,)) for x in xs]
        elif call == "starmap":
            results = pool.starmap(tripled, [(x,) for x in xs])
        else:
            results = pool.map(tripled, iter(xs)) if call == "map" else pool.map_async(tripled, xs).get(60)
    assert [x.tolist() for x in xs] == [[3, 3], [3, 3, 3]] and [x.tolist() for x in results] == [[4, 4], [4, 4, 4]]
    assert all(x.is_shared() for x in (*xs, *results))


@pytest.mark.slow
def test_what_came_of_a_process_that_has_ended():
    context = mp.get_context("fork")
    outbox = context.Queue()
    run_child("fork", put_and_end, outbox, 3)
    assert outbox.get(timeout=60).tolist() == [1, 1, 1], "its bytes came, too"
    run_child("fork", put_and_end, outbox, 1 << 16)
    with pytest.raises(RuntimeError, match=r"a tensor \[65536\] came in shared memory, and the process that sent it has ended"):
        outbox.get(timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_processes_train_one_model(method):
    model = nn.Linear(3, 3).share_memory()
    target = fl.eye(3) * 2
    context = mp.get_context(method)
    children = [context.Process(target=descend, args=(model, target, 200)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    with fl.no_grad():
        assert (model(fl.eye(3)) - target).abs().max() < 1e-2
    assert model.weight.grad is None, "gradients are each process's own"


@pytest.mark.slow
def test_plain_multiprocessing_carries_what_was_shared(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""
        import multiprocessing
        import flambeau as fl

        def work(x):
            x.add_(1)

        if __name__ == "__main__":
            x = fl.zeros(3).share_memory_()
            child = multiprocessing.get_context("spawn").Process(target=work, args=(x,))
            child.start(); child.join()
            print(child.exitcode, x.tolist())
    """))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "0 [1.0, 1.0, 1.0]", done.stderr
