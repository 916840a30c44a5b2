"""Tensors of more than 2^31 elements, and of more bytes: places far behind are read, written and counted right.

Not run by `make test`: `make large` takes minutes and up to 20 GiB. Where the machine has less left, a test is skipped.
"""

from __future__ import annotations

import gc
import resource

import numpy as np
import pytest

import flambeau as fl
import flambeau.nn.functional as F
from flambeau import _C

pytestmark = pytest.mark.large
N = 2**31 + 11
FAR = N - 3


@pytest.fixture(autouse=True, scope="module")
def limit():
    """At most 20 GiB of addresses, so that what takes more fails instead of being killed."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (20 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(autouse=True)
def room(request):
    """Skips what needs more than is left, 6 GiB where a test says nothing."""
    gc.collect()
    fl.empty_cache()
    needs = request.node.get_closest_marker("gib")
    wanted = (needs.args[0] if needs else 6) << 30
    if _C.available_memory() < wanted:
        pytest.skip(f"needs {wanted >> 30} GiB, and {_C.available_memory() >> 30} are left")
    yield


@pytest.fixture
def x():
    """Zeros, but for 5 far behind and -7 at the last place."""
    x = fl.zeros(N, dtype=fl.int8)
    x[FAR] = 5
    x[-1] = -7
    return x


def test_elements(x):
    assert x.numel() == N and x.nbytes == N
    assert (x[FAR].item(), x[FAR - 1].item(), x[N - 1].item()) == (5, 0, -7)
    assert x[FAR - 1 :].tolist() == [0, 5, 0, -7]
    assert x[::FAR].tolist() == [0, 5]
    with pytest.raises(IndexError):
        x[N]


def test_element_wise(x):
    y = x + x
    assert y[FAR - 1 :].tolist() == [0, 10, 0, -14]
    y.mul_(2).sub_(1)
    assert y[FAR - 1 :].tolist() == [-1, 19, -1, -29] and y[:2].tolist() == [-1, -1]
    where = x != 0
    assert where[FAR - 1 :].tolist() == [False, True, False, True] and where.sum().item() == 2
    assert fl.where(where, y, x)[FAR - 1 :].tolist() == [0, 19, 0, -29]


def test_broadcast(x):
    rows = x[: 2**31].view(2**20, 2**11)
    column = fl.zeros(2**20, 1, dtype=fl.int8)
    column[-1] = 3
    rows += column
    assert rows[-1].sum().item() == 3 * 2**11 and rows[-2].sum().item() == 0


def test_floats():
    x = fl.zeros(N, dtype=fl.float16)
    x[FAR] = 1.0
    x.exp_()
    assert x[FAR - 1 : FAR + 2].float().tolist() == pytest.approx([1.0, 2.71875, 1.0])


def test_reductions(x):
    assert x.sum().item() == -2
    assert (x.max().item(), x.min().item()) == (5, -7)
    assert (x.argmax().item(), x.argmin().item()) == (FAR, N - 1)
    assert x.any().item() and not x.all().item()
    assert x.count_nonzero().item() == 2
    total = fl.ones(1, dtype=fl.int8).expand(N).sum()
    assert total.item() == N  # a count that float32 can not hold


def test_reductions_over_axes(x):
    rows = x[: 2**31].view(2, 2**30)
    rows[1, -1] = 9
    assert rows.max(1).values.tolist() == [0, 9] and rows.argmax(1).tolist() == [0, 2**30 - 1]
    assert rows.sum(1).tolist() == [0, 9]
    columns = rows.view(2**30, 2)
    assert columns.sum(0).tolist() == [0, 9] and columns.argmax(0).tolist() == [0, 2**30 - 1]


def test_cumulative(x):
    y = x.cumsum(0, dtype=fl.int8)
    assert y[FAR - 1 :].tolist() == [0, 5, 5, -2]


def test_views(x):
    assert x.view(-1, 1).shape == (N, 1)
    even = x[: N - 1]
    assert even.view(-1, 2).t()[0, FAR // 2].item() == (5 if FAR % 2 == 0 else 0)
    assert x.as_strided((2,), (FAR,)).tolist() == [0, 5]
    assert x.narrow(0, FAR, 1).item() == 5
    assert x.split(2**30)[-1].numel() == N - 2**31
    assert x.expand(3, N)[2, FAR].item() == 5


def test_copies(x):
    assert x.clone()[FAR].item() == 5
    even = x[1:].view(-1, 2).t().contiguous()
    assert even.shape == (2, (N - 1) // 2) and even.sum().item() == -2
    assert x.flip(0)[:4].tolist() == [-7, 0, 5, 0]
    assert x.roll(3)[:3].tolist() == [5, 0, -7]


def test_join(x):
    y = fl.cat([x[:11], x])
    assert y.numel() == N + 11 and y[FAR + 11].item() == 5
    assert fl.stack([x[: 2**30], x[-(2**30) :]])[1, -1].item() == -7
    assert F.pad(x, (1, 1))[FAR + 1].item() == 5


def test_index(x):
    at = fl.tensor([0, FAR, N - 1])
    assert x[at].tolist() == [0, 5, -7]
    assert x.index_select(0, at).tolist() == x.gather(0, at).tolist() == x.take(at).tolist() == [0, 5, -7]
    assert x.nonzero().flatten().tolist() == [FAR, N - 1]
    assert x.masked_select(x != 0).tolist() == [5, -7]
    x[at] = fl.tensor([1, 2, 3], dtype=fl.int8)
    assert x[at].tolist() == [1, 2, 3]
    x.scatter_(0, at, fl.tensor([4, 5, 6], dtype=fl.int8))
    x.index_add_(0, at, fl.tensor([1, 1, 1], dtype=fl.int8))
    assert x[at].tolist() == [5, 6, 7]
    x.masked_fill_(x == 6, 9)
    assert x[FAR].item() == 9
    with pytest.raises(IndexError):
        x[fl.tensor([N])]


def test_fill_and_draw():
    x = fl.empty(N, dtype=fl.int8).fill_(3)
    assert x[FAR].item() == 3
    fl.manual_seed(0)
    x.random_(0, 2)
    assert 0.49 < x[-(2**20) :].sum().item() / 2**20 < 0.51 and 0.49 < x.sum().item() / N < 0.51
    a = x[-1000:].clone()
    fl.manual_seed(0)
    x.zero_().random_(0, 2)
    assert x[-1000:].tolist() == a.tolist()  # the same numbers of the same seed
    y = fl.arange(N - 5, N, dtype=fl.int64)
    assert y.tolist() == list(range(N - 5, N))


@pytest.mark.gib(8)
def test_products():
    a = fl.zeros(2**28 + 1, 8, dtype=fl.bfloat16)
    a[-1] = 2
    b = fl.ones(8, 2, dtype=fl.bfloat16)
    y = a @ b
    assert y.shape == (2**28 + 1, 2) and y[-1].tolist() == [16, 16] and y[-2].tolist() == [0, 0]
    assert (a[-1] @ a[-1]).item() == 32
    del y
    z = fl.matmul(a.view(-1, 1, 8)[-(2**20) :], b.expand(2**20, 8, 2))
    assert z[-1].tolist() == [[16, 16]]


@pytest.mark.gib(8)
def test_a_sum_over_a_long_axis_in_a_product():
    a = fl.ones(1, 2**31 + 8, dtype=fl.bfloat16)
    y = a[:, : 2**31].view(2**20, 2**11) @ fl.ones(2**11, 1, dtype=fl.bfloat16)
    assert y[-1].item() == 2**11


@pytest.mark.gib(16)
def test_convolution():
    x = fl.zeros(1, 1, 2**16 + 2, 2**15)
    x[0, 0, -1, -1] = 3
    weight = fl.ones(1, 1, 2, 2)
    y = F.conv2d(x, weight, stride=2)
    assert y.shape == (1, 1, 2**15 + 1, 2**14) and y[0, 0, -1, -1].item() == 3 and y[0, 0, -2].sum().item() == 0
    pooled = F.max_pool2d(x, 2)
    assert pooled[0, 0, -1, -1].item() == 3 and pooled[0, 0, -2].max().item() == 0


@pytest.mark.gib(10)
def test_softmax_and_norms():
    x = fl.zeros(2**20 + 1, 2**11, dtype=fl.bfloat16)
    x[-1, -1] = 30
    y = x.softmax(1)
    assert y[-1, -1].item() == 1.0 and y[-1, 0].item() < 1e-6 and y[-2, -1].item() == 2.0**-11
    del y
    y = F.layer_norm(x.view(-1, 8), (8,))
    assert y[-1, -1].item() == pytest.approx(2.6458, rel=1e-2) and y[0, 0].item() == 0


@pytest.mark.gib(16)
def test_gradients():
    x = fl.ones(N, dtype=fl.float16, requires_grad=True)
    (x[FAR:] * fl.tensor([1.0, 2.0, 3.0], dtype=fl.float16)).sum().backward()
    assert x.grad[FAR - 1 :].tolist() == [0, 1, 2, 3]


@pytest.mark.gib(8)
def test_embedding():
    weight = fl.zeros(2**22 + 1, 512, dtype=fl.bfloat16)
    weight[-1] = 4
    assert F.embedding(fl.tensor([0, 2**22]), weight).sum(1).tolist() == [0, 2048]


def test_top_and_runs(x):
    assert x.topk(2).values.tolist() == [5, 0] and x.topk(1).indices.item() == FAR
    assert x.unique_consecutive().tolist() == [0, 5, 0, -7]


def test_other_libraries(x):
    array = x.numpy()
    assert array[FAR] == 5 and array.nbytes == N
    array[FAR] = 8
    assert x[FAR].item() == 8
    assert fl.from_numpy(array)[FAR].item() == np.from_dlpack(x)[FAR] == 8
    assert memoryview(x)[FAR] == 8


def test_files(x, tmp_path):
    path = tmp_path / "large.fl"
    fl.save({"x": x}, path)
    assert path.stat().st_size > N
    loaded = fl.load(path)["x"]
    assert loaded.shape == (N,) and loaded[FAR - 1 :].tolist() == [0, 5, 0, -7]


@pytest.mark.eager("what is allocated")
def test_what_does_not_fit_is_refused():
    with pytest.raises(MemoryError, match="bytes were asked for"):
        fl.empty(2**45)
    with pytest.raises((MemoryError, ValueError)):
        fl.ones(1).expand(2**50).contiguous()
