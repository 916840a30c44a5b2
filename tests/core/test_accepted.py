"""What programs written for PyTorch ask for and a CPU build answers: the GPU's names, switches, formats."""

import copy
import pickle

import numpy as np
import pytest
from support.compare import assert_near

import flambeau as fl
from flambeau import nn

# ------------------------------------------------------------------------------- the GPU's names


def test_what_a_guarded_program_asks_of_the_gpu():
    cuda = fl.cuda
    assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_initialized()
    for call in (cuda.manual_seed, cuda.manual_seed_all):
        assert call(3) is None
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        assert getattr(cuda, name)() == 0
    assert cuda.get_rng_state_all() == [] and cuda.set_rng_state_all([]) is None


@pytest.mark.parametrize("name, args", [
    ("current_device", ()), ("set_device", (0,)), ("synchronize", ()), ("get_device_name", ()), ("init", ()),
    ("get_device_capability", ()), ("get_device_properties", (0,)), ("mem_get_info", ()), ("get_rng_state", ()),
    ("set_rng_state", (None,)), ("set_rng_state_all", ([None],)),
])  # fmt: skip
def test_what_needs_a_gpu_says_so(name, args):
    with pytest.raises(RuntimeError, match=rf"cuda.{name}: this build of flambeau has no CUDA backend"):
        getattr(fl.cuda, name)(*args)


def test_switches_of_backends():
    import flambeau.backends.cudnn as cudnn

    assert fl.backends.cudnn is cudnn and not cudnn.is_available() and cudnn.version() is None
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, False, False)
    with cudnn.flags(benchmark=True):
        assert cudnn.benchmark and not cudnn.enabled
    assert cudnn.enabled and not cudnn.benchmark
    assert not fl.backends.mps.is_available() and not fl.backends.cuda.is_built()
    fl.backends.cuda.matmul.allow_tf32 = True
    assert isinstance(fl.backends.mkldnn.is_available(), bool)


def test_precisions_of_backends_are_kept():
    backends = fl.backends
    assert (backends.fp32_precision, backends.cudnn.fp32_precision, backends.mkldnn.fp32_precision) == ("none", "none", "none")
    operations = [backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.conv, backends.mkldnn.matmul, backends.mkldnn.rnn]
    before = [operation.fp32_precision for operation in operations]
    assert before == ["none", "tf32", "tf32", "none", "none", "none"]
    for operation, value in zip(operations, before, strict=True):
        operation.fp32_precision = "ieee"
        assert operation.fp32_precision == "ieee"
        with pytest.raises(RuntimeError, match="fp32_precision = 'tf64'; expected one of none, ieee, tf32, bf16"):
            operation.fp32_precision = "tf64"
        operation.fp32_precision = value


def test_flags_come_in_the_order_of_pytorch():
    cudnn, mkldnn = fl.backends.cudnn, fl.backends.mkldnn
    with cudnn.flags(True, False, 3, True, False, "ieee"), mkldnn.flags(False, True, False, "bf16"):
        assert (cudnn.benchmark_limit, cudnn.deterministic, cudnn.allow_tf32, cudnn.fp32_precision) == (3, True, False, "ieee")
        assert (mkldnn.enabled, mkldnn.deterministic, mkldnn.allow_tf32, mkldnn.fp32_precision) == (False, True, False, "bf16")
    assert (cudnn.benchmark_limit, cudnn.deterministic, cudnn.allow_tf32, cudnn.fp32_precision) == (None, False, True, "none")
    assert (mkldnn.enabled, mkldnn.deterministic, mkldnn.allow_tf32, mkldnn.fp32_precision) == (True, False, None, "none")


def test_matmul_precision():
    assert fl.get_float32_matmul_precision() == "highest"
    fl.set_float32_matmul_precision("high")
    assert fl.get_float32_matmul_precision() == "high"
    fl.set_float32_matmul_precision("highest")
    with pytest.raises(ValueError, match="precision = 'low'; expected 'highest', 'high' or 'medium'"):
        fl.set_float32_matmul_precision("low")


# --------------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize("name", ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"])
def test_memory_formats(name):
    value = getattr(fl, name)
    assert repr(value) == f"flambeau.{name}" and isinstance(value, fl.memory_format)
    assert pickle.loads(pickle.dumps(value)) is value and copy.deepcopy(value) is value
    x = fl.arange(24.0).reshape(1, 2, 3, 4)
    for y in (x.to(memory_format=value), x.contiguous(memory_format=value), x.cpu(memory_format=value), x.type(x.dtype, memory_format=value)):
        assert y.shape == x.shape and (y == x).all()
    net = nn.Conv2d(1, 1, 1)
    assert net.to(memory_format=value) is net


def test_what_is_no_memory_format():
    with pytest.raises(TypeError, match="Module.to: memory_format = 'rows'; expected flambeau.contiguous"):
        nn.Linear(1, 1).to(memory_format="rows")
    for call in (fl.ones(1).cpu, fl.ones(1).type):
        with pytest.raises(TypeError, match=f"{call.__name__}: memory_format = 3; expected flambeau.contiguous"):
            call(memory_format=3)


# ------------------------------------------------------------------------------------ formatting


def test_numbers_are_formatted_and_other_shapes_are_not():
    assert f"{fl.tensor(1.25):.1f}" == "1.2" and f"{fl.tensor(7):04d}" == "0007"
    assert f"{fl.tensor([1, 2])}" == "tensor([1, 2])" and f"{fl.tensor(3)}" == "3"
    assert f"{fl.empty((), device='meta')}".startswith("tensor(...")
    with pytest.raises(TypeError, match=r"format: '.4f' for a tensor of shape \[2\]; only a 0-d"):
        f"{fl.ones(2):.4f}"
    with pytest.raises(TypeError, match="format: '.4f' for a tensor on the meta device"):
        f"{fl.empty((), device='meta'):.4f}"


def test_a_parameter_has_one_heading():
    p = nn.Parameter(fl.ones(2))
    assert repr(p) == str(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"


# ------------------------------------------------------------------------------------ generators


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_generators_are_copied_with_their_state(duplicate):
    g = fl.Generator().manual_seed(5)
    fl.rand(3, generator=g)
    twin = duplicate(g)
    assert twin is not g and twin.initial_seed() == 5
    assert fl.rand(4, generator=twin).tolist() == fl.rand(4, generator=g).tolist()


# ------------------------------------------------------------------------------------- functions


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("a, b", [((4, 3), (5, 3)), ((2, 4, 3), (2, 5, 3)), ((2, 1, 4, 3), (3, 5, 3)), ((30, 3), (28, 3))], ids=str)
def test_cdist(a, b, p):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=a), rng.normal(size=b)
    d = np.abs(x[..., :, None, :] - y[..., None, :, :])
    want = d.max(-1) if p == float("inf") else (d > 0).sum(-1) if p == 0 else (d**p).sum(-1) ** (1 / p)
    assert_near(fl.cdist(fl.tensor(x), fl.tensor(y), p), want)


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"])
def test_gradients_of_cdist_where_rows_meet(mode):
    x = fl.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    fl.cdist(x, fl.zeros(1, 2), compute_mode=mode).sum().backward()
    assert_near(x.grad, [[0.0, 0.0], [0.6, 0.8]])


def test_cdist_errors():
    with pytest.raises(ValueError, match=r"cdist: X1 and X2 must have the same number of columns: x1 has shape \[2, 3\], x2 \[2, 4\]"):
        fl.cdist(fl.ones(2, 3), fl.ones(2, 4))
    with pytest.raises(ValueError, match="compute_mode = 'fast'"):
        fl.cdist(fl.ones(2, 3), fl.ones(2, 3), compute_mode="fast")


def test_functions_of_nn_at_the_top():
    x, y = fl.tensor([[1.0, 0.0]]), fl.tensor([[1.0, 1.0]])
    assert fl.cosine_similarity(x, y).item() == pytest.approx(0.5**0.5)
    assert fl.pairwise_distance(x, x).item() == pytest.approx(1e-6 * 2**0.5)
    assert fl.is_nonzero(fl.tensor([2])) and not fl.is_nonzero(fl.tensor(0.0)) and not fl.is_complex(x)
    with pytest.raises(ValueError, match=r"shape \[2\]"):
        fl.is_nonzero(fl.ones(2))


# ------------------------------------------------------------------------------- sizes that came out of NumPy


@pytest.mark.parametrize("whole", [np.int64, np.uint16], ids=["int64", "uint16"])
@pytest.mark.parametrize("call", [
    lambda n: nn.Conv2d(n(3), n(4), n(3), n(1), n(1)), lambda n: nn.ConvTranspose2d(n(3), n(2), n(3)), lambda n: nn.LayerNorm(n(8)),
    lambda n: nn.RMSNorm(n(8)), lambda n: nn.Upsample(n(4)), lambda n: nn.Upsample(scale_factor=n(2)), lambda n: nn.ZeroPad2d(n(1)),
    lambda n: nn.Unfold(n(2)), lambda n: nn.LPPool2d(n(2), n(2)), lambda n: nn.AdaptiveAvgPool2d(n(2)),
    lambda n: nn.MaxPool2d(n(2), n(2), n(1)), lambda n: nn.TransformerEncoderLayer(n(8), n(2), n(8), batch_first=True),
], ids=lambda call: call.__code__.co_names[1])  # fmt: skip
def test_layers_of_numpy_sizes(call, whole):
    x = fl.arange(2 * 3 * 8 * 8).reshape(2, 3, 8, 8) / 100
    layer, plain = call(whole), call(int)
    plain.load_state_dict(layer.state_dict())
    if isinstance(layer, nn.TransformerEncoderLayer):
        x, layer, plain = x[0], layer.eval(), plain.eval()
    assert fl.equal(layer(x), plain(x))


@pytest.mark.parametrize("whole", [np.int64, np.uint16], ids=["int64", "uint16"])
@pytest.mark.parametrize("call", [
    lambda x, n: fl.hann_window(n(5)), lambda x, n: fl.signal.windows.hann(n(5)), lambda x, n: fl.linalg.matrix_power(x[0, 0], n(2)),
    lambda x, n: fl.special.polygamma(n(1), x + 1), lambda x, n: fl.quasirandom.SobolEngine(n(2)).draw(n(3)),
    lambda x, n: nn.functional.interpolate(x, n(4)), lambda x, n: nn.functional.unfold(x, n(3)), lambda x, n: x.movedim(n(0), n(2)),
    lambda x, n: x.quantile(0.5, n(1)), lambda x, n: fl.tensor_split(x, n(2))[1], lambda x, n: fl.unique(x, dim=n(0)),
    lambda x, n: fl.svd_lowrank(x, n(2))[1] * 0, lambda x, n: fl.vmap(fl.sum, chunk_size=n(1))(x), lambda x, n: fl.tensordot(x, x, n(4)),
    lambda x, n: fl.UntypedStorage(n(4)).nbytes() + x[0],
])  # fmt: skip
def test_functions_of_numpy_sizes(call, whole):
    x = fl.arange(2 * 3 * 4 * 4).reshape(2, 3, 4, 4) / 100
    assert fl.equal(call(x, whole), call(x, int))


def test_rows_without_gradients_by_a_numpy_number():
    for layer in (nn.Embedding, nn.EmbeddingBag):
        assert layer(np.uint16(4), np.uint16(3), padding_idx=np.uint16(1)).padding_idx == 1


def test_sizes_that_are_tensors():
    x = fl.arange(2 * 3 * 4 * 4).reshape(2, 3, 4, 4) / 100
    for size in (fl.tensor(2), [fl.tensor(2), 2]):
        assert nn.functional.interpolate(x, size).shape == (2, 3, 2, 2)


def test_what_asks_for_rows_gets_them():
    x = fl.arange(6.0).view(2, 3).t()
    for made in (x.clone(memory_format=fl.contiguous_format), fl.clone(x, memory_format=fl.contiguous_format), x.to(fl.float64, memory_format=fl.contiguous_format),
                 x.to("cpu", memory_format=fl.contiguous_format)):  # fmt: skip
        assert made.stride() == (2, 1) and made.view(-1).tolist() == [0, 3, 1, 4, 2, 5]
    for like in (fl.empty_like, fl.zeros_like, fl.ones_like):
        assert like(x, memory_format=fl.contiguous_format).stride() == (2, 1) and like(x, memory_format=fl.preserve_format).stride() == (1, 3) == like(x).stride()
    leaf = fl.zeros_like(x, memory_format=fl.contiguous_format, requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad and leaf.is_contiguous()
    w = x.clone().requires_grad_()
    (w.clone(memory_format=fl.contiguous_format) * fl.arange(6.0).view(3, 2)).sum().backward()
    assert w.grad.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_a_size_that_a_tensor_has_leaves_its_order():
    x = fl.arange(6.0).view(2, 3)
    assert x.t().resize_(3, 2).tolist() == [[0, 3], [1, 4], [2, 5]] and x[:, 1:].resize_(2, 2).tolist() == [[1, 2], [4, 5]]
    assert x.t().resize_as_(fl.ones(3, 2)).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_one_value_for_elements_that_share_places():
    assert fl.zeros(1).expand(3).fill_(2).tolist() == [2, 2, 2] and fl.ones(2, 1).expand(2, 3).zero_().tolist() == [[0] * 3] * 2
    base = fl.zeros(2, 1, 2)
    base.expand(2, 3, 2)[1].fill_(5.0)
    assert base.tolist() == [[[0.0, 0.0]], [[5.0, 5.0]]]
    x = fl.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g.zero_())  # the gradient of a sum is one number, expanded
    y.sum().backward()
    assert x.grad.tolist() == [0, 0]
    w = fl.ones(1, requires_grad=True)
    z = (w * 3).expand(3)
    z.fill_(1)
    assert z.tolist() == [1, 1, 1]
    z.sum().backward()
    assert w.grad.tolist() == [0]
    for write in (lambda: z.detach().add_(1), lambda: z.fill_(fl.ones((), requires_grad=True))):
        with pytest.raises(fl.ArgumentError, match="refers to a single memory location"):
            write()


def test_a_number_has_no_gradient():
    w, y = fl.tensor(2.0, requires_grad=True), fl.tensor(3.0)
    for call in (lambda: y.addcmul(y, y, value=w), lambda: fl.full((2,), w), lambda: fl.isclose(y, y, fl.tensor(1.5), w), lambda: fl.add(y, y, alpha=w)):
        with pytest.raises(TypeError, match="is a Tensor that requires grad, of which there would be no gradient"):
            call()
    assert y.addcmul(y, y, value=w.detach()).item() == 21


def test_ramps_fill_what_has_as_many_elements():
    x = fl.zeros(2, 3)
    assert fl.arange(0, 4, out=x.narrow(1, 1, 2)).shape == (2, 2) and x.tolist() == [[0, 0, 1], [0, 2, 3]]
    y = fl.zeros(2, 3)
    assert fl.linspace(0, 3, 4, out=y[:, 1:]).shape == (2, 2) and y.tolist() == x.tolist()
    assert fl.arange(3, out=fl.empty(0)).tolist() == [0, 1, 2]


def test_shapes_of_indices_that_do_not_fit_are_an_index_error():
    with pytest.raises(IndexError, match=r"shape mismatch: indexing tensors could not be broadcast together with shapes \[2\] and \[3\]"):
        fl.ones(3, 3)[[0, 1], [0, 1, 2]]


def test_an_op_without_the_type_is_not_implemented_for_it():
    with pytest.raises(NotImplementedError):
        fl.softmax(fl.tensor([1, 2]), 0)
