"""`autocast`: what computes in which type, what is kept, how regions nest, and that training still works."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn

F = nn.functional
BF16, F16, F32, F64 = fl.bfloat16, fl.float16, fl.float32, fl.float64

# Relative error of whole tensors (by norm) of a few layers in 16 bits.
TOLERANCE = {BF16: 0.03, F16: 0.004}
LOOSE = {BF16: 0.12, F16: 0.04}


def error(got, expected):
    got, expected = (np.asarray(t.detach().float().numpy(), dtype=np.float64) for t in (got, expected))
    return np.linalg.norm(got - expected) / max(np.linalg.norm(expected), 1e-30)


# ---- switches


def test_a_region_switches_on_and_restores():
    assert not fl.is_autocast_enabled()
    with fl.autocast("cpu"):
        assert fl.is_autocast_enabled("cpu") and fl.get_autocast_dtype("cpu") == BF16
        with fl.autocast("cpu", dtype=F16):
            assert fl.get_autocast_dtype("cpu") == F16
            with fl.autocast("cpu", enabled=False):
                assert not fl.is_autocast_enabled()
                assert (fl.ones(2, 2) @ fl.ones(2, 2)).dtype == F32
            assert fl.is_autocast_enabled()
            assert (fl.ones(2, 2) @ fl.ones(2, 2)).dtype == F16
        assert (fl.ones(2, 2) @ fl.ones(2, 2)).dtype == BF16
    assert not fl.is_autocast_enabled() and fl.get_autocast_dtype("cpu") == BF16
    assert (fl.ones(2, 2) @ fl.ones(2, 2)).dtype == F32


def test_an_error_leaves_the_region():
    with pytest.raises(fl.ShapeError, match="expected a.shape"), fl.autocast("cpu"):
        fl.mm(fl.ones(2, 3), fl.ones(2, 3))
    assert not fl.is_autocast_enabled()
    with fl.autocast("cpu"):
        with pytest.raises(fl.ShapeError):
            fl.mm(fl.ones(2, 3), fl.ones(2, 3))
        assert fl.is_autocast_enabled()


def test_a_decorator_and_one_object_for_many_regions():
    mode = fl.autocast("cpu", dtype=F16)

    @mode
    def product(x, again):
        if again:
            product(x, False)
        return x @ x

    assert product(fl.ones(2, 2), True).dtype == F16
    assert not fl.is_autocast_enabled()
    with mode, mode:
        pass
    assert not fl.is_autocast_enabled()

    @fl.autocast("cpu")
    def two():
        yield fl.is_autocast_enabled()
        yield fl.is_autocast_enabled()

    running = two()
    assert next(running) and not fl.is_autocast_enabled()
    assert next(running) and not fl.is_autocast_enabled()


def test_every_thread_has_its_own():
    seen = []
    with fl.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append(fl.is_autocast_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_other_names():
    with fl.cpu.amp.autocast(dtype=F16):
        assert fl.get_autocast_cpu_dtype() == F16 and fl.is_autocast_cpu_enabled()
    assert fl.amp.autocast is fl.autocast
    assert fl.amp.is_autocast_available("cpu") and not fl.amp.is_autocast_available("toaster")
    fl.set_autocast_enabled("cpu", True)
    fl.set_autocast_dtype("cpu", F16)
    try:
        assert (fl.ones(2, 2) @ fl.ones(2, 2)).dtype == F16
    finally:
        fl.set_autocast_enabled("cpu", False)
        fl.set_autocast_dtype("cpu", BF16)


@pytest.mark.parametrize("dtype", [F32, F64, fl.int32])
def test_other_types_switch_it_off(dtype):
    with pytest.warns(UserWarning, match=r"autocast: dtype = .*; expected flambeau.bfloat16 or flambeau.float16; it is switched off"):
        region = fl.autocast("cpu", dtype=dtype)
    with region:
        assert not fl.is_autocast_enabled("cpu") and (fl.ones(2, 2) @ fl.ones(2, 2)).dtype == F32
    fl.autocast("cpu", dtype=dtype, enabled=False)
    with pytest.raises(TypeError, match="set_autocast_dtype: dtype = "):
        fl.set_autocast_dtype("cpu", dtype)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fl.cuda.amp.autocast(enabled=False),
        lambda: fl.cuda.amp.GradScaler(enabled=False),
        lambda: fl.cuda.amp.custom_fwd(lambda ctx: None),
        lambda: fl.cuda.amp.custom_bwd(lambda ctx: None),
        lambda: fl.cpu.amp.autocast(),
        lambda: fl.cpu.amp.GradScaler(),
    ],
    ids=["cuda autocast", "cuda GradScaler", "custom_fwd", "custom_bwd", "cpu autocast", "cpu GradScaler"],
)
def test_older_names_warn(call):
    with pytest.warns(FutureWarning, match="amp.* is the older name of amp") as record:
        call()
    assert record[0].filename == __file__


def test_devices():
    with pytest.warns(UserWarning, match="no CUDA"):
        mode = fl.autocast("cuda")
    with mode:
        assert not fl.is_autocast_enabled("cuda") and not fl.is_autocast_enabled("cpu")
    with fl.autocast("cpu"), fl.autocast("cuda", enabled=False):
        assert fl.is_autocast_enabled("cpu")
    with pytest.raises(RuntimeError, match="device_type = 'toaster'"):
        fl.autocast("toaster")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        fl.autocast(fl.bfloat16)


# ---- types


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_types_of_arguments(dtype):
    f32, low, f64 = fl.ones(3, 3), fl.ones(3, 3, dtype=dtype), fl.ones(3, 3, dtype=F64)
    with fl.autocast("cpu", dtype=dtype):
        assert fl.mm(f32, low).dtype == fl.mm(low, f32).dtype == fl.mm(f32, f32).dtype == dtype
        assert fl.mm(f64, f64).dtype == F64
        assert fl.mm(fl.ones(3, 3, dtype=fl.int64), fl.ones(3, 3, dtype=fl.int64)).dtype == fl.int64
        assert fl.mv(f32, low[0]).dtype == F32 and fl.mv(low, low[0]).dtype == dtype
        assert F.mse_loss(low, f32).dtype == F.mse_loss(low, low).dtype == fl.prod(low).dtype == F32
        assert fl.prod(f64).dtype == F64
        assert fl.cat([f32, low]).dtype == fl.stack([low, f32]).dtype == F32
        assert fl.cat([low, low]).dtype == dtype
        assert fl.index_copy(low, 0, fl.tensor([1]), f32[:1]).dtype == F32
        assert (low + low).dtype == low.exp().dtype == low.softmax(0).dtype == dtype
        assert fl.mm(fl.ones(2, 2, device="meta"), fl.ones(2, 2, device="meta")).dtype == F32


def test_composed_losses_compute_in_float32():
    x, y = fl.rand(4, 3).to(BF16), fl.rand(4, 3).to(BF16)
    with fl.autocast("cpu"):
        got = F.smooth_l1_loss(x, y)
    assert got.dtype == F32
    assert got.item() == F.smooth_l1_loss(x.float(), y.float()).item()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: fl.fft.rfft(x).abs(),
        lambda x: fl.fft.ifft2(x).abs(),
        lambda x: fl.stft(x, 4, window=fl.ones(4), return_complex=True).abs(),
        lambda x: fl.quantile(x, 0.3, 0),
        lambda x: fl.linalg.pinv(x),
        lambda x: fl.linalg.lstsq(x, x).solution,
        lambda x: fl.linalg.eig(x[:, :3])[0].abs(),
        lambda x: F.grid_sample(x.reshape(1, 1, 3, 8), fl.zeros(1, 2, 2, 2), align_corners=False),
        lambda x: F.avg_pool3d(x.reshape(1, 3, 2, 2, 2), 2),
        lambda x: F.adaptive_max_pool3d(x.reshape(1, 3, 2, 2, 2), 1),
        lambda x: F.max_unpool1d(x, fl.arange(8).expand(3, 8) * 2, 2),
        lambda x: F.pad(x.unsqueeze(0), (2, 2), "replicate"),
    ],
)
def test_functions_of_several_operations_compute_in_float32(call):
    low = fl.randn(3, 8).to(BF16)
    for x in (low, low.float()):  # and no product inside of them computes in 16 bits
        with fl.autocast("cpu"):
            got = call(x)
        fl.testing.assert_close(got, call(low.float()))


def test_what_is_computed_in_float32_is_written_to_out():
    x, out = fl.randn(3, 8).to(BF16), fl.empty(8, dtype=F64)
    with fl.autocast("cpu"):
        assert fl.quantile(x, 0.3, 0, out=out) is out
    fl.testing.assert_close(out.float(), fl.quantile(x.float(), 0.3, 0))
    low = fl.zeros(3, 3, dtype=BF16)
    with fl.autocast("cpu"):
        assert fl.ormqr(fl.eye(3), fl.zeros(3), fl.eye(3), out=low) is low
    assert low.float().equal(fl.eye(3))


# ---- gradients


def mlp():
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 5)), fl.randn(8, 20)


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.ConvTranspose2d(32, 8, 2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5),
    ), fl.randn(16, 3, 12, 12)  # fmt: skip


def transformer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(16 * 6, 5)), fl.randn(4, 6, 16)


class _Last(nn.Module):
    def __init__(self, rnn):
        super().__init__()
        self.rnn, self.out = rnn, nn.Linear(12, 5)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def lstm():
    return _Last(nn.LSTM(8, 12, num_layers=2, batch_first=True)), fl.randn(4, 7, 8)


def gru():
    return _Last(nn.GRU(8, 12, batch_first=True)), fl.randn(4, 7, 8)


def rnn():
    return _Last(nn.RNN(8, 12, batch_first=True)), fl.randn(4, 7, 8)


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("make", [mlp, cnn, transformer, lstm, gru, rnn])
def test_networks_agree_with_float32(make, dtype):
    model, x = make()
    x.requires_grad_()
    target = fl.arange(x.shape[0]) % 5
    results = []
    for on in (False, True):
        model.zero_grad()
        x.grad = None
        with fl.autocast("cpu", dtype=dtype, enabled=on):
            y = model(x)
            loss = F.cross_entropy(y, target)
        assert loss.dtype == F32 and y.dtype == (dtype if on else F32)
        (loss * 1024).backward()  # float16 ends at 6e-8
        results.append([y, loss, x.grad, *(p.grad for p in model.parameters())])
    size = max(float(g.norm()) for g in results[0][2:])
    for expected, got in zip(*results):
        if expected.dtype == F32 and expected.requires_grad is False:
            assert got.dtype == F32
        if float(expected.norm()) > 1e-3 * size:  # a bias in front of a batch norm has no gradient but noise
            assert error(got, expected) < LOOSE[dtype]  # a rounded maximum may be another pixel


def test_backward_is_not_cast():
    """Float32 operations of the forward have float32 gradients, also where backward is called inside."""
    x = fl.randn(4, 4, requires_grad=True)
    seen = []

    class Products(fl.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, dy):
            seen.append((fl.is_autocast_enabled(), (dy @ dy).dtype))
            return dy

    with fl.autocast("cpu"):
        with fl.autocast("cpu", enabled=False):
            y = (x @ x).square()
        Products.apply(y).sum().backward()
        assert fl.is_autocast_enabled()
    assert seen == [(False, F32)]
    expected = x.detach().requires_grad_()
    (expected @ expected).square().sum().backward()
    assert (x.grad == expected.grad).all()


def test_second_derivatives():
    x = fl.randn(4, 4, requires_grad=True)
    with fl.autocast("cpu"):
        y = (x @ x).float().square().sum()
    (dx,) = fl.autograd.grad(y, x, create_graph=True)
    dx.square().sum().backward()
    again = x.detach().requires_grad_()
    (dx,) = fl.autograd.grad((again @ again).square().sum(), again, create_graph=True)
    dx.square().sum().backward()
    assert x.grad.dtype == F32 and error(x.grad, again.grad) < 4 * TOLERANCE[BF16]


def test_custom_functions():
    states = []

    class Product(fl.autograd.Function):
        @staticmethod
        @fl.amp.custom_fwd(device_type="cpu")
        def forward(ctx, a):
            states.append(fl.is_autocast_enabled())
            return a @ a

        @staticmethod
        @fl.amp.custom_bwd(device_type="cpu")
        def backward(ctx, dy):
            states.append(fl.is_autocast_enabled())
            return dy.float()

    class Wide(fl.autograd.Function):
        @staticmethod
        @fl.amp.custom_fwd(device_type="cpu", cast_inputs=fl.float32)
        def forward(ctx, a, more):
            states.append((fl.is_autocast_enabled(), a.dtype, more["b"][0].dtype))
            return a @ a

        @staticmethod
        @fl.amp.custom_bwd(device_type="cpu")
        def backward(ctx, dy):
            states.append((fl.is_autocast_enabled(), dy.dtype))
            return dy, None

    x = fl.ones(2, 2, requires_grad=True)
    with fl.autocast("cpu"):
        y = Product.apply(x)
    assert y.dtype == BF16
    y.sum().backward()
    assert states == [True, True]
    states.clear()
    Product.apply(x).sum().backward()
    assert states == [False, False]
    states.clear()
    with fl.autocast("cpu"):
        y = Wide.apply(x.to(BF16), {"b": [fl.ones(1, dtype=BF16)]})
    assert y.dtype == F32
    y.sum().backward()
    assert states == [(False, F32, F32), (False, F32)]


def test_checkpoint_computes_again_in_the_same_type():
    layer, x = nn.Linear(6, 6), fl.randn(3, 6, requires_grad=True)
    types = []

    def part(x):
        y = layer(x)
        types.append(y.dtype)
        return y

    with fl.autocast("cpu", dtype=F16):
        y = fl.utils.checkpoint.checkpoint(part, x)
    y.sum().backward()
    assert types == [F16, F16]
    assert layer.weight.grad.dtype == x.grad.dtype == F32


# ---- kept casts


def casts(y):
    """How many different casts the graph of y has."""
    seen, waiting = set(), [y.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [below for below, _ in node.next_functions]
    return sum("ToCopy" in repr(node) for node in seen)


@pytest.mark.parametrize("cache", [True, False])
def test_a_weight_is_cast_once(cache):
    w = fl.randn(4, 4, requires_grad=True)
    x = fl.randn(4, 4, dtype=BF16)
    with fl.autocast("cpu", cache_enabled=cache):
        y = x @ w @ w @ w
    assert casts(y) == (1 if cache else 3)
    y.sum().backward()
    expected = w.detach().requires_grad_()
    (x.float() @ expected @ expected @ expected).sum().backward()
    assert error(w.grad, expected.grad) < 2 * TOLERANCE[BF16]


def test_what_is_kept_follows_the_weight():
    w = fl.ones(2, 2, requires_grad=True)
    x = fl.ones(1, 2)
    with fl.autocast("cpu"):
        assert (x @ w)[0, 0].item() == 2
        with fl.no_grad():
            w.mul_(3)
        assert (x @ w)[0, 0].item() == 6
        w.data = fl.full((2, 2), 5.0)
        assert (x @ w)[0, 0].item() == 10
        optimizer = fl.optim.SGD([w], lr=1.0)
        (x @ w).sum().backward()
        optimizer.step()
        assert (x @ w)[0, 0].item() == 8
        del w
        for value in range(5):  # other tensors may come to lie where the weight was
            w = fl.full((2, 2), float(value), requires_grad=True)
            assert (x @ w)[0, 0].item() == 2 * value


def test_several_backwards_share_a_cast():
    w = fl.ones(2, 2, requires_grad=True)
    with fl.autocast("cpu"):
        for _ in range(3):
            (fl.ones(1, 2) @ w).sum().backward()
    assert w.grad.tolist() == [[3, 3], [3, 3]]


def test_what_was_not_recorded_is_not_kept_for_what_is():
    w = fl.ones(2, 2, requires_grad=True)
    with fl.autocast("cpu"):
        with fl.no_grad():
            assert not (fl.ones(1, 2) @ w).requires_grad
        (fl.ones(1, 2) @ w).sum().backward()
        with fl.inference_mode():
            fl.ones(1, 2) @ w
        with fl.autocast("cpu", dtype=F16):
            assert (fl.ones(1, 2) @ w).dtype == F16
        (fl.ones(1, 2) @ w).sum().backward()
    assert w.grad.tolist() == [[2, 2], [2, 2]]


@pytest.mark.eager("memory")
def test_casts_are_dropped_at_the_end():
    w = fl.ones(1024, 1024, requires_grad=True)
    x = fl.ones(1, 1024)
    with fl.autocast("cpu"):
        with fl.autocast("cpu"):
            x @ w
        with_it = fl.memory_stats()["allocated_bytes"]
    assert with_it - fl.memory_stats()["allocated_bytes"] >= 2 * 1024 * 1024
    with fl.autocast("cpu"):
        x @ w
        fl.clear_autocast_cache()
        assert fl.memory_stats()["allocated_bytes"] < with_it


# ---- training


def accuracy(dtype, scaler=None):
    fl.manual_seed(3)
    train, test = fl.datasets.Digits(), fl.datasets.Digits(train=False)
    images, held_out = train.data.float().unsqueeze(1) / 16, test.data.float().unsqueeze(1) / 16
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 16, 10),
    )  # fmt: skip
    optimizer = fl.optim.Adam(model.parameters(), lr=3e-3)
    scaler = fl.amp.GradScaler("cpu", enabled=dtype == F16)
    mode = fl.autocast("cpu", dtype=BF16 if dtype is F32 else dtype, enabled=dtype is not F32)
    for step in range(60):
        rows = fl.randint(0, images.shape[0], (64,))
        with mode:
            loss = F.cross_entropy(model(images[rows]), train.targets[rows])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    model.eval()
    with fl.no_grad(), mode:
        right = model(held_out).argmax(1) == test.targets
    return right.float().mean().item()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [BF16, F16])
def test_digits_are_learnt_as_well(dtype):
    assert accuracy(dtype) > accuracy(F32) - 0.03


def test_the_function_of_a_decorator_by_name():
    assert fl.autocast("cpu")(func=lambda: fl.is_autocast_enabled("cpu"))()


def test_the_type_that_is_wanted_of_gpus_is_kept():
    assert fl.get_autocast_gpu_dtype() is fl.get_autocast_dtype("cuda") is fl.float16
    fl.set_autocast_gpu_dtype(fl.bfloat16)
    try:
        assert fl.get_autocast_dtype("cuda") is fl.autocast("cuda", enabled=False).fast_dtype is fl.bfloat16
    finally:
        fl.set_autocast_dtype("cuda", fl.float16)


@pytest.mark.parametrize(
    "kind, packed, of_float32",
    [("RNN", False, BF16), ("RNN", True, BF16), ("LSTM", False, BF16), ("LSTM", True, F32), ("GRU", False, F32), ("GRU", True, F32)],
)
def test_types_of_recurrent_layers(kind, packed, of_float32):
    layer = getattr(nn, kind)(4, 5)
    for dtype, expected in [(F32, of_float32), (BF16, BF16)]:
        x = fl.ones(3, 2, 4, dtype=dtype)
        x = nn.utils.rnn.pack_padded_sequence(x, fl.tensor([3, 2])) if packed else x
        with fl.autocast("cpu"):
            y, state = layer(x)
        assert (y.data if packed else y).dtype == expected
        assert (state[0] if kind == "LSTM" else state).dtype == expected


def test_a_bilinear_map_computes_in_the_type_of_its_arguments():
    x, w = fl.ones(2, 3), fl.ones(4, 3, 3)
    with fl.autocast("cpu"):
        assert nn.functional.bilinear(x, x, w).dtype is fl.float32
        assert nn.functional.bilinear(x.bfloat16(), x.bfloat16(), w.bfloat16()).dtype is fl.bfloat16
