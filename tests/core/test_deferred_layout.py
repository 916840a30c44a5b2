"""Storages whose bytes lie channels-last under row-major tensors: nobody can tell, and nobody reorders needlessly."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import flambeau as fl
from flambeau import _C, nn

F = nn.functional

pytestmark = pytest.mark.skipif(_C.onednn_version() is None, reason="only oneDNN's convolutions make channels-last bytes")


def assert_near(got, expected, scale=1.0):
    got = got.numpy() if isinstance(got, fl.Tensor) else got
    expected = expected.numpy() if isinstance(expected, fl.Tensor) else expected
    np.testing.assert_allclose(got, expected, rtol=1e-5 * scale, atol=1e-5 * scale)


@pytest.fixture(params=[False, True], ids=["plain", "deferred"])
def layout(request):
    before = _C.get_deferred_layout()
    _C.set_deferred_layout(request.param)
    yield request.param
    _C.set_deferred_layout(before)


@pytest.fixture
def deferred():
    before = _C.get_deferred_layout()
    _C.set_deferred_layout(True)
    yield
    _C.set_deferred_layout(before)


def in_both(function):
    """What a function returns with deferred layout off and on."""
    before = _C.get_deferred_layout()
    try:
        results = []
        for on in (False, True):
            _C.set_deferred_layout(on)
            fl.manual_seed(0)
            results.append(function())
        return results
    finally:
        _C.set_deferred_layout(before)


def conv_output(n=2, c=6, h=5, w=4, dtype=fl.float32):
    """[n, c, h, w], as a convolution leaves it, and the same values row-major."""
    x = fl.randn(n, 3, h, w, dtype=dtype)
    weight = fl.randn(c, 3, 3, 3, dtype=dtype)
    y = F.conv2d(x, weight, padding=1)
    return y, fl.tensor(F.conv2d(x, weight, padding=1).numpy())


READERS = {
    "numpy": lambda y: y.numpy(),
    "tolist": lambda y: np.array(y.tolist(), dtype=np.float32),
    "item": lambda y: np.float32(y[1, 2, 3, 1].item()),
    "dlpack": lambda y: np.from_dlpack(y),
    "view": lambda y: y.view(2, -1).numpy(),
    "flatten": lambda y: y.flatten(1).numpy(),
    "transpose": lambda y: y.transpose(1, 3).contiguous().numpy(),
    "select": lambda y: y[:, 1].numpy(),
    "channels": lambda y: (y[:, 2:5] * 2).numpy(),
    "channels copied": lambda y: y[:, 2:5].contiguous().numpy(),
    "rows": lambda y: (y[:, :, 1:3] + 1).numpy(),
    "image": lambda y: (y[1:] + 1).numpy(),
    "chunk": lambda y: (y.chunk(2, 1)[1] * y.chunk(2, 1)[0]).numpy(),
    "unbind": lambda y: (y.unbind(1)[3] - 1).numpy(),
    "mask": lambda y: y[y > 0].numpy(),
    "sum": lambda y: y.sum((2, 3)).numpy(),
    "softmax": lambda y: y.softmax(1).numpy(),
    "matmul": lambda y: (y @ y.transpose(2, 3)).numpy(),
    "clone": lambda y: y.clone().numpy(),
    "cast": lambda y: y.double().float().numpy(),
    "int view": lambda y: y.view(fl.int32).numpy(),
    "broadcast channel": lambda y: (y * fl.arange(6.0).view(1, 6, 1, 1)).numpy(),
    "broadcast image": lambda y: (y * fl.arange(2.0).view(2, 1, 1, 1) + y[:, :1]).numpy(),
    "broadcast pixel": lambda y: (y - fl.arange(4.0)).numpy(),
    "broadcast up": lambda y: (y[None] + fl.ones(2, 1, 1, 1, 1)).numpy(),
    "with plain": lambda y: (y + fl.ones(2, 6, 5, 4)).numpy(),
    "compare": lambda y: (y > 0.5).numpy(),
    "where": lambda y: fl.where(y > 0, y, -y).numpy(),
    "max": lambda y: y.max().numpy(),
    "pad": lambda y: F.pad(y, (1, 0, 2, 1)).numpy(),
    "cat": lambda y: fl.cat([y, y * 2, fl.ones(2, 1, 5, 4)], 1).numpy(),
    "cat images": lambda y: fl.cat([y, y], 0).numpy(),
    "stack": lambda y: fl.stack([y, y]).numpy(),
    "save": lambda y: fl.from_numpy(y.numpy().copy()).numpy(),
    "deepcopy": lambda y: __import__("copy").deepcopy(y).numpy(),
    "pickle": lambda y: __import__("pickle").loads(__import__("pickle").dumps(y)).numpy(),
    "dropout": lambda y: F.dropout(y, 0.0).numpy(),
    "max pool": lambda y: F.max_pool2d(y, 3, 2, 1).numpy(),
    "average pool": lambda y: F.avg_pool2d(y, 3, 2, 1, count_include_pad=False).numpy(),
    "adaptive pool": lambda y: F.adaptive_avg_pool2d(y, (2, 3)).numpy(),
    "global pool": lambda y: F.adaptive_avg_pool2d(y, 1).numpy(),
    "batch norm": lambda y: F.batch_norm(y, None, None, training=True).numpy(),
    "group norm": lambda y: F.group_norm(y, 3).numpy(),
    "interpolate": lambda y: F.interpolate(y, scale_factor=2).numpy(),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_see_row_major_values(deferred, name):
    y, plain = conv_output()
    assert y.is_contiguous() and y.stride() == (120, 20, 4, 1)
    assert_near(READERS[name](y), READERS[name](plain))
    assert_near(y.numpy(), plain.numpy())


WRITERS = {
    "mul_": lambda y: y.mul_(2),
    "relu_": lambda y: F.relu(y, inplace=True),
    "add_ plain": lambda y: y.add_(fl.arange(4.0)),
    "channel": lambda y: y[:, 1].fill_(3),
    "channels": lambda y: y[:, 1:3].mul_(-1),
    "item": lambda y: y.__setitem__((0, 1, 2, 3), 7.0),
    "numpy": lambda y: y.numpy().__setitem__((0, 0), 5.0),
    "copy_": lambda y: y.copy_(fl.ones(4)),
    "zero_": lambda y: y.zero_(),
    "own view": lambda y: y.add_(y[:, :1]),
    "transposed": lambda y: y.transpose(1, 2).mul_(3),
    "data": lambda y: y.data.add_(1),
}


@pytest.mark.parametrize("name", WRITERS)
def test_writers_write_row_major_values(deferred, name):
    y, plain = conv_output()
    alias = y.detach()
    WRITERS[name](y)
    WRITERS[name](plain)
    assert_near(y.numpy(), plain.numpy())
    assert_near(alias.numpy(), plain.numpy())


class Everything(nn.Module):
    """Every op that works on channels-last bytes, and the borders between them."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.norm = nn.BatchNorm2d(16)
        self.branch = nn.Conv2d(16, 8, 1)
        self.depthwise = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.grouped = nn.Conv2d(16, 8, 3, 1, 1, groups=2, bias=False)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.squeeze = nn.Conv2d(16, 16, 1)
        self.one = nn.Conv2d(24, 1, 3, padding=1)
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        a = F.relu(self.norm(self.stem(x)))
        a = a * fl.sigmoid(self.squeeze(F.adaptive_avg_pool2d(a, 1)))
        b = F.max_pool2d(F.hardswish(a), 3, 1, 1) + F.avg_pool2d(a, 3, 1, 1)
        c = fl.cat([self.branch(b), self.grouped(F.gelu(b))], 1)
        left, right = c.chunk(2, 1)
        d = self.depthwise(fl.cat([right, left], 1)) + a
        e = fl.cat([self.up(d), F.interpolate(d, scale_factor=2.0)], 1)
        mask = self.one(e)
        return self.head((e * mask.sigmoid()).mean((2, 3)))


def run_everything():
    net = Everything()
    x = fl.randn(3, 3, 14, 10, requires_grad=True)
    loss = F.cross_entropy(net(x), fl.tensor([0, 3, 1]))
    loss.backward()
    return [loss.detach(), x.grad, *(p.grad for p in net.parameters()), *net.buffers()]


def test_a_network_is_the_same_in_both_layouts():
    for plain, last in zip(*in_both(run_everything)):
        assert_near(last, plain.numpy(), scale=20)


def test_second_derivatives_are_the_same_in_both_layouts():
    def run():
        net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Tanh(), nn.BatchNorm2d(4), nn.AvgPool2d(2), nn.Conv2d(4, 3, 2))
        x = fl.randn(2, 2, 6, 6, requires_grad=True)
        (g,) = fl.autograd.grad(net(x).square().sum(), x, create_graph=True)
        g.square().sum().backward()
        return [x.grad, *(p.grad for p in net.parameters())]

    for plain, last in zip(*in_both(run)):
        assert_near(last, plain.numpy(), scale=50)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("how", [{}, {"stride": 2}, {"padding": 2, "dilation": 2}, {"groups": 2}, {"stride": 2, "padding": 1, "groups": 4}])
@pytest.mark.parametrize(("channels", "outputs"), [(3, 16), (16, 8), (8, 32), (20, 16), (32, 20)])
def test_gradients_of_weights_with_and_without_full_blocks_of_channels(deferred, channels, outputs, how, bias):
    groups = how.get("groups", 1)
    if channels % groups or outputs % groups:
        pytest.skip("groups divide the channels")
    generator = np.random.default_rng(0)
    x, w = (generator.standard_normal(s).astype(np.float32) for s in [(3, channels, 13, 11), (outputs, channels // groups, 3, 3)])

    def gradients(dtype):
        weight, offset = fl.tensor(w, dtype=dtype, requires_grad=True), fl.zeros(outputs, dtype=dtype, requires_grad=True)
        source = F.conv2d(fl.tensor(x, dtype=dtype), fl.eye(channels, dtype=dtype).view(channels, channels, 1, 1))
        y = F.conv2d(source, weight, offset if bias else None, **how)
        (y * y).sum().backward()
        return [t.grad.double().numpy() for t in ((weight, offset) if bias else (weight,))]

    for got, want in zip(gradients(fl.float32), gradients(fl.float64), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("shape, conv", [((2, 3, 9), nn.Conv1d), ((2, 3, 5, 6), nn.Conv2d)])
def test_any_number_of_spatial_axes(shape, conv):
    def run():
        net = nn.Sequential(conv(3, 8, 3, padding=1), nn.ReLU(), conv(8, 4, 1))
        x = fl.randn(*shape, requires_grad=True)
        y = net(x)
        y.square().sum().backward()
        return [y.detach(), x.grad, *(p.grad for p in net.parameters())]

    for plain, last in zip(*in_both(run)):
        assert_near(last, plain.numpy(), scale=20)


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.a, self.na = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.b, self.nb = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.skip = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)) if i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))) + self.skip(x))


@pytest.mark.slow
@pytest.mark.eager("when bytes are put in order")
def test_a_residual_network_reorders_at_the_borders_alone(deferred):
    net = nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 16, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4),
    )  # fmt: skip
    x, target = fl.randn(2, 3, 32, 32), fl.tensor([1, 2])
    for _ in range(2):
        before = _C.layout_reorders()
        loss = F.cross_entropy(net(x), target)
        assert _C.layout_reorders() - before == 1  # the images
        loss.backward()
        assert _C.layout_reorders() - before == 2  # ... and once more, for the gradient of the first weight
        net.zero_grad()


@pytest.mark.slow
def test_threads_may_read_while_others_put_the_bytes_in_order(deferred):
    for _ in range(20):
        y, plain = conv_output(4, 16, 16, 16)
        expected = (plain * 2).numpy()
        results = [None] * 4

        def read(i, y=y, results=results):
            results[i] = y.numpy() * 2 if i % 2 else (y * 2).numpy()

        threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for r in results:
            assert_near(r, expected)


@pytest.mark.eager("memory")
def test_memory_goes_with_the_last_reference(deferred):
    conv_output()
    before = fl._C.memory_stats()["allocated_bytes"]
    y, plain = conv_output(2, 8, 32, 32)
    y.numpy()
    z = F.relu(conv_output(2, 8, 32, 32)[0])
    del y, plain, z
    assert fl._C.memory_stats()["allocated_bytes"] == before


def test_empty_and_tiny_convolutions(layout):
    assert F.conv2d(fl.zeros(0, 3, 5, 5), fl.zeros(4, 3, 3, 3)).shape == (0, 4, 3, 3)
    x = fl.randn(1, 1, 1, 1)
    assert_near(F.conv2d(x, fl.ones(1, 1, 1, 1)), x.numpy())
    y = F.conv2d(fl.randn(2, 1, 4, 4), fl.randn(1, 1, 3, 3))
    assert y.numpy().shape == (2, 1, 2, 2)


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16])
def test_networks_in_16_bits_are_the_same_in_both_layouts(dtype):
    def run():
        net = Everything()
        x = fl.randn(3, 3, 14, 10, requires_grad=True)
        with fl.autocast("cpu", dtype=dtype):
            loss = F.cross_entropy(net(x), fl.tensor([0, 3, 1]))
        loss.backward()
        return [loss.detach(), *(p.grad for p in net.parameters()), *net.buffers()]

    plain, last = in_both(run)
    size = max(float(g.norm()) for g in plain[1:])
    for a, b in zip(plain, last):
        assert float((a - b).float().norm()) < 0.05 * max(float(a.float().norm()), 0.05 * size)


def test_16_bit_chains_are_not_reordered(deferred):
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
                        nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4))  # fmt: skip
    x = fl.randn(4, 3, 16, 16)
    counts = []
    for on in (False, True):
        before = _C.layout_reorders()
        with fl.autocast("cpu", enabled=on):
            loss = net(x).float().square().mean()
        loss.backward()
        counts.append(_C.layout_reorders() - before)
    assert counts[1] <= counts[0]


@pytest.mark.parametrize("name", ["batch norm", "group norm", "softmax", "max pool", "average pool", "adaptive pool", "broadcast channel", "sum"])
def test_16_bit_readers_see_row_major_values(deferred, name):
    x = fl.randn(2, 3, 5, 4).to(fl.bfloat16)
    weight = fl.randn(6, 3, 3, 3).to(fl.bfloat16)
    y = F.conv2d(x, weight, padding=1)
    plain = fl.tensor(F.conv2d(x, weight, padding=1).float().numpy())
    got = {
        "batch norm": lambda t: F.batch_norm(t, None, None, training=True),
        "group norm": lambda t: F.group_norm(t, 3),
        "softmax": lambda t: t.softmax(1),
        "max pool": lambda t: F.max_pool2d(t, 3, 2, 1),
        "average pool": lambda t: F.avg_pool2d(t, 3, 2, 1),
        "adaptive pool": lambda t: F.adaptive_avg_pool2d(t, (2, 3)),
        "broadcast channel": lambda t: t * fl.arange(6.0).to(t.dtype).view(1, 6, 1, 1),
        "sum": lambda t: t.sum((2, 3)),
    }[name]
    np.testing.assert_allclose(got(y).float().numpy(), got(plain).numpy(), rtol=0.02, atol=0.02)


@pytest.mark.slow
def test_reading_waits_for_a_running_write(deferred):
    weight, x = fl.randn(64, 3, 3, 3), fl.randn(2, 3, 64, 64)

    def output():
        return (F.conv2d(x, weight, padding=1) * 0.01).abs_().add_(0.1)

    for _ in range(5):
        y = output()
        expected = output()[:, :48].contiguous().lgamma().numpy()
        started = threading.Event()

        def write(part=y[:, :48], started=started):
            started.set()
            part.lgamma_()

        thread = threading.Thread(target=write)
        thread.start()
        started.wait()
        for _ in range(20):
            y[0, 60, 0, 0].item()  # other channels of the same memory
        thread.join()
        assert_near(y[:, :48], expected)


def test_copies_and_casts_stay_channels_last(deferred):
    y, plain = conv_output()
    before = _C.layout_reorders()
    z = (y.clone() + y.double().float() + y.to(fl.bfloat16).float() * 0).relu()
    assert _C.layout_reorders() == before
    assert_near(z, np.maximum(plain.numpy() * 2, 0))
    assert_near(y[:, 1:4].clone(), plain.numpy()[:, 1:4])


@pytest.mark.parametrize("size", [1, (2, 2)])
def test_the_last_nan_is_the_maximum(layout, size):
    x = fl.full((1, 2, 5, 4), float("nan"))
    _, windows = F.adaptive_max_pool2d(x, size, return_indices=True)
    assert windows[0, 0].flatten().tolist() == ([19] if size == 1 else [9, 11, 17, 19])


INPLACE = [
    nn.ReLU(inplace=True), nn.ReLU6(inplace=True), nn.Hardtanh(inplace=True), nn.LeakyReLU(0.1, inplace=True), nn.ELU(inplace=True),
    nn.SELU(inplace=True), nn.CELU(inplace=True), nn.Hardsigmoid(inplace=True), nn.Threshold(0.1, 0.0, inplace=True), nn.SiLU(inplace=True),
    nn.Hardswish(inplace=True), nn.Mish(inplace=True), nn.Dropout(inplace=True), nn.Dropout2d(inplace=True),
]  # fmt: skip


@pytest.mark.parametrize("layer", INPLACE, ids=lambda m: type(m).__name__)
def test_layers_that_write_over_their_input_keep_the_layout(deferred, layer):
    first, second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
    x = fl.randn(2, 3, 6, 6)

    def reorders(between):
        before = _C.layout_reorders()
        y = between(first(x))
        second(y).relu_().mean().backward()
        return _C.layout_reorders() - before

    assert reorders(layer) == reorders(nn.Identity())


@pytest.mark.parametrize("how", [lambda x: x[:, :2], lambda x: x[:, 1:3], lambda x: x.transpose(2, 3), lambda x: x.flip(2)[:, ::2], lambda x: x[:1].expand(2, 4, 4, 4)])
def test_cat_of_any_strides_beside_a_convolution(how):
    x, w = fl.randn(2, 4, 4, 4), fl.randn(4, 4, 3, 3)
    parts = [how(x), F.conv2d(x, w, padding=1), how(x)]
    y = fl.cat(parts, 1)
    np.testing.assert_array_equal(y.numpy(), np.concatenate([p.numpy() for p in parts], 1))
