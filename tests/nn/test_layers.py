"""Layers: parameter names, shapes, printing, errors, and values against NumPy."""

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn


def setup_function():
    fl.manual_seed(0)


# (layer, its repr, its state: name -> shape)
LAYERS = [
    (
        lambda: nn.Linear(3, 2, bias=False),
        "Linear(in_features=3, out_features=2, bias=False)",
        {"weight": (2, 3)},
    ),
    (
        lambda: nn.Conv2d(4, 6, 3, padding="same", groups=2),
        "Conv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), padding=same, groups=2)",
        {"weight": (6, 2, 3, 3), "bias": (6,)},
    ),
    (
        lambda: nn.Conv1d(2, 3, 5, stride=2, padding=1, dilation=2, bias=False),
        "Conv1d(2, 3, kernel_size=(5,), stride=(2,), padding=(1,), dilation=(2,), bias=False)",
        {"weight": (3, 2, 5)},
    ),
    (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1),
        "ConvTranspose2d(4, 6, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1))",
        {"weight": (4, 6, 3, 3), "bias": (6,)},
    ),
    (
        lambda: nn.BatchNorm2d(4),
        "BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)",
        {
            "weight": (4,),
            "bias": (4,),
            "running_mean": (4,),
            "running_var": (4,),
            "num_batches_tracked": (),
        },
    ),
    (
        lambda: nn.LayerNorm((2, 3)),
        "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=True)",
        {"weight": (2, 3), "bias": (2, 3)},
    ),
    (
        lambda: nn.RMSNorm(3),
        "RMSNorm((3,), eps=None, elementwise_affine=True)",
        {"weight": (3,)},
    ),
    (
        lambda: nn.GroupNorm(2, 4),
        "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)",
        {"weight": (4,), "bias": (4,)},
    ),
    (
        lambda: nn.Embedding(5, 2, padding_idx=-1),
        "Embedding(5, 2, padding_idx=4)",
        {"weight": (5, 2)},
    ),
    (
        lambda: nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True),
        "LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True)",
        {
            f"{kind}_l{layer}{end}": shape
            for layer in range(2)
            for end in ("", "_reverse")
            for kind, shape in (
                ("weight_ih", (16, 3 if layer == 0 else 8)),
                ("weight_hh", (16, 4)),
                ("bias_ih", (16,)),
                ("bias_hh", (16,)),
            )
        },
    ),
    (
        lambda: nn.GRUCell(3, 4, bias=False),
        "GRUCell(3, 4, bias=False)",
        {"weight_ih": (12, 3), "weight_hh": (12, 4)},
    ),
    (
        lambda: nn.MultiheadAttention(4, 2, kdim=3),
        "MultiheadAttention(\n  (out_proj): NonDynamicallyQuantizableLinear(in_features=4, "
        "out_features=4, bias=True)\n)",
        {
            "q_proj_weight": (4, 4),
            "k_proj_weight": (4, 3),
            "v_proj_weight": (4, 4),
            "in_proj_bias": (12,),
            "out_proj.weight": (4, 4),
            "out_proj.bias": (4,),
        },
    ),
    (lambda: nn.PReLU(3), "PReLU(num_parameters=3)", {"weight": (3,)}),
    (lambda: nn.Dropout(0.1), "Dropout(p=0.1, inplace=False)", {}),
    (lambda: nn.ReLU(inplace=True), "ReLU(inplace=True)", {}),
    (lambda: nn.Hardswish(inplace=True), "Hardswish()", {}),
    (lambda: nn.GELU("tanh"), "GELU(approximate='tanh')", {}),
    (lambda: nn.Upsample(scale_factor=(2, 3)), "Upsample(scale_factor=(2.0, 3.0), mode='nearest')", {}),
    (
        lambda: nn.MaxPool2d(2),
        "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)",
        {},
    ),
    (lambda: nn.Flatten(), "Flatten(start_dim=1, end_dim=-1)", {}),
    (lambda: nn.CrossEntropyLoss(), "CrossEntropyLoss()", {}),
]


@pytest.mark.parametrize("make, text, state", LAYERS, ids=[case[1][:12] for case in LAYERS])
def test_repr_and_state(make, text, state):
    layer = make()
    assert repr(layer) == text
    assert {k: tuple(v.shape) for k, v in layer.state_dict().items()} == state


# ----------------------------------------------------------------------------------- convolutions


def naive_conv2d(x, w, stride=1, dilation=1):
    n, c, h, wd = x.shape
    o, _, kh, kw = w.shape
    oh = (h - dilation * (kh - 1) - 1) // stride + 1
    ow = (wd - dilation * (kw - 1) - 1) // stride + 1
    y = np.zeros((n, o, oh, ow))
    for i in range(oh):
        for j in range(ow):
            patch = x[
                :,
                :,
                i * stride : i * stride + dilation * (kh - 1) + 1 : dilation,
                j * stride : j * stride + dilation * (kw - 1) + 1 : dilation,
            ]
            y[:, :, i, j] = np.einsum("nchw,ochw->no", patch, w)
    return y


MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("padding", [(1, 2), "same", "valid"], ids=str)
def test_conv2d_padding(mode, padding):
    layer = nn.Conv2d(2, 3, (2, 3), padding=padding, padding_mode=mode)
    x = fl.randn(2, 2, 6, 7)
    sides = {"same": [(0, 1), (1, 1)], "valid": [(0, 0)] * 2}.get(padding, [(1, 1), (2, 2)])
    padded = np.pad(x.numpy(), [(0, 0), (0, 0), *sides], mode=MODES[mode])
    want = naive_conv2d(padded, layer.weight.detach().numpy())
    want += layer.bias.detach().numpy()[:, None, None]
    np.testing.assert_allclose(layer(x).detach().numpy(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
def test_one_number_in_a_sequence_is_meant_for_all_axes(kind):
    spread = kind(2, 3, 3, stride=2, padding=1, dilation=2)
    short = kind(2, 3, 3, stride=(2,), padding=[1], dilation=(2,))
    short.load_state_dict(spread.state_dict())
    x = fl.randn(1, 2, 7, 8)
    assert fl.equal(short(x), spread(x)) and repr(short) == repr(spread)


def test_conv_transpose_is_the_gradient_of_conv():
    up = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, bias=False)
    x = fl.randn(1, 3, 4, 4)
    y = up(x, output_size=(8, 8))
    probe = fl.randn(1, 2, 8, 8, requires_grad=True)
    down = nn.functional.conv2d(probe, up.weight.detach(), None, 2, 1)
    (down * x).sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), probe.grad.numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match=r"requested an output size of \[9"):
        up(x, output_size=(9, 9))


@pytest.mark.parametrize(
    "kwargs, text",
    [
        ({"groups": 3}, "in_channels must be divisible by groups"),
        ({"padding": "full"}, "Invalid padding string 'full'"),
        ({"padding": "same", "stride": 2}, "padding='same' is not supported for strided convolutions"),
        ({"padding_mode": "mirror"}, "padding_mode"),
        ({"stride": (1, 2, 3)}, "one int or 2"),
    ],
)
def test_conv_arguments_are_checked(kwargs, text):
    with pytest.raises(ValueError, match=text):
        nn.Conv2d(4, 6, 3, **kwargs)


# ----------------------------------------------------------------------------------------- norms


def test_batch_norm_statistics():
    norm = nn.BatchNorm1d(2, momentum=0.5)
    x = fl.tensor([[1.0, 0.0], [3.0, 4.0]])
    y = norm(x)
    np.testing.assert_allclose(y.detach().numpy(), [[-1, -1], [1, 1]], atol=1e-4)
    assert norm.running_mean.tolist() == [1.0, 1.0]
    assert norm.running_var.tolist() == [0.5 + 0.5 * 2, 0.5 + 0.5 * 8]  # the unbiased variance
    assert norm.num_batches_tracked.item() == 1
    norm.eval()
    want = (x.numpy() - 1) / np.sqrt(np.array([1.5, 4.5]) + 1e-5)
    np.testing.assert_allclose(norm(x).detach().numpy(), want, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("width", [24, 144])
def test_batch_norm_of_many_rows(width):
    """A result of 32 MiB and more is written in tiles, past the caches, and strips of channels are read ahead."""
    rows = 2**23 // width + 77
    x = fl.rand(rows, width) + fl.arange(width) / width
    norm = nn.BatchNorm1d(width, momentum=1.0)
    y = norm(x)
    assert fl.allclose(norm.running_mean, x.sum(0) / rows, rtol=1e-5)
    assert fl.allclose(norm.running_var, x.var(0), rtol=1e-4)
    norm.eval()
    whole, parts = norm(x), fl.cat([norm(part) for part in x.split(rows // 3)])
    assert fl.equal(whole, parts)
    assert fl.allclose(y, whole, rtol=1e-4, atol=1e-4)


def test_batch_norm_cumulative_average():
    norm = nn.BatchNorm1d(1, momentum=None)
    for value in (1.0, 2.0, 6.0):
        norm(fl.tensor([[value], [value + 2]]))
    assert norm.running_mean.item() == pytest.approx(4.0)


def test_norm_errors():
    with pytest.raises(ValueError, match=r"expected 4D input \(got 2D input\)"):
        nn.BatchNorm2d(3)(fl.zeros(2, 3))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        nn.BatchNorm1d(3)(fl.zeros(1, 3))
    with pytest.raises(ValueError, match=r"num_channels \(4\) must be divisible by num_groups"):
        nn.GroupNorm(3, 4)


def test_instance_norm_normalises_each_map():
    y = nn.InstanceNorm2d(3)(fl.randn(2, 3, 8, 8) * 5 + 2).numpy()
    np.testing.assert_allclose(y.mean((2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(y.std((2, 3)), 1, atol=1e-3)


@pytest.mark.parametrize("shape", [(0, 3, 2, 2), (2, 3, 0, 2)])
def test_no_values_leave_the_running_statistics_of_instance_norm(shape):
    norm = nn.InstanceNorm2d(3, track_running_stats=True)
    assert norm(fl.ones(shape)).shape == shape
    assert norm.running_mean.tolist() == [0, 0, 0] and norm.running_var.tolist() == [1, 1, 1]


@pytest.mark.parametrize("shape", [(2, 5, 8), (5, 8)])
def test_channels_that_do_not_match_matter_to_instance_norm_where_it_has_something_for_them(shape):
    x = fl.randn(shape)
    with pytest.warns(UserWarning, match="does not match num_features = 3"):
        y = nn.InstanceNorm1d(3)(x)
    assert fl.equal(y, nn.InstanceNorm1d(5)(x))
    for options in ({"affine": True}, {"track_running_stats": True}):
        with pytest.raises(ValueError, match=r"to match num_features \(3\), but got"):
            nn.InstanceNorm1d(3, **options)(x)


def test_local_response_norm_of_no_values_and_of_too_few_axes():
    norm = nn.LocalResponseNorm(3)
    for shape in ((0, 2, 4), (2, 0, 4), (2, 3, 4, 0)):
        assert norm(fl.ones(shape)).shape == shape
    with pytest.raises(ValueError, match="Expected 3D or higher dimensionality"):
        norm(fl.ones(2, 3))


# ------------------------------------------------------------------------------------- small ones


def test_dropout_modes():
    layer = nn.Dropout(0.5)
    x = fl.ones(1000)
    assert set(layer(x).tolist()) == {0.0, 2.0}
    assert (layer.eval()(x) == x).all()


def test_max_pool_indices():
    y, index = nn.MaxPool2d(2, return_indices=True)(fl.arange(16.0).reshape(1, 1, 4, 4))
    assert y.flatten().tolist() == [5, 7, 13, 15] and index.flatten().tolist() == [5, 7, 13, 15]


def test_flatten_unflatten_pads():
    x = fl.arange(12.0).reshape(2, 6)
    assert nn.Unflatten(1, (2, 3))(x).shape == (2, 2, 3)
    for dim in (2, 3, -3):  # 3 was the axis 1
        with pytest.raises(IndexError, match="Dimension out of range"):
            nn.Unflatten(dim, (2, 3))(x)
    assert nn.ConstantPad1d((1, 0), 9.0)(x)[0].tolist() == [9, 0, 1, 2, 3, 4, 5]
    assert nn.ZeroPad2d((0, 1, 1, 0))(x).shape == (3, 7)
    with pytest.raises(ValueError, match="one int or 4"):
        nn.ZeroPad2d((1, 2, 3))


def test_embedding_from_pretrained_and_padding():
    layer = nn.Embedding.from_pretrained(fl.ones(3, 2))
    assert not layer.weight.requires_grad
    layer = nn.Embedding(3, 2, padding_idx=0)
    assert layer.weight[0].tolist() == [0, 0]
    layer(fl.tensor([0, 1])).sum().backward()
    assert layer.weight.grad.tolist() == [[0, 0], [1, 1], [0, 0]]
    with pytest.raises(ValueError, match="padding_idx = 3"):
        nn.Embedding(3, 2, padding_idx=3)


def test_bilinear():
    layer = nn.Bilinear(2, 3, 4)
    a, b = fl.randn(5, 2), fl.randn(5, 3)
    w, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    want = np.einsum("bi,oij,bj->bo", a.numpy(), w, b.numpy()) + bias
    np.testing.assert_allclose(layer(a, b).detach().numpy(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_linear_starts_within_its_bound(n):
    layer = nn.Linear(n, 50)
    for p in layer.parameters():
        assert p.detach().abs().max().item() <= 1 / np.sqrt(n) + 1e-7


@pytest.mark.parametrize("loss", [nn.MSELoss, nn.NLLLoss, nn.CrossEntropyLoss])
def test_loss_module_reduction_is_checked_by_its_calls(loss):
    layer = loss(reduction="avg")
    assert layer.reduction == "avg"
    with pytest.raises(ValueError, match="avg is not a valid value for reduction; expected 'none', 'mean' or 'sum'"):
        layer(fl.zeros(2, 2), fl.zeros(2, 2) if loss is nn.MSELoss else fl.tensor([0, 1]))
    assert nn.MSELoss(reduction="none")(fl.ones(2), fl.zeros(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("layer", ["Conv1d", "Conv2d", "Conv3d", "LazyConv2d"])
def test_biases_of_layers_without_inputs_are_written(layer):
    """They were memory that nobody had written: no number of inputs gives a bound to draw them in."""
    for _ in range(4):
        fl.full((2,), 7.0).add_(1)  # what the allocator hands out next
        made = getattr(fl.nn, layer)(*(() if "Lazy" in layer else (0,)), 2, 1)
        if "Lazy" in layer:
            made(fl.ones(1, 0, 3, 3))
        assert made.bias.tolist() == [0.0, 0.0]


def test_from_pretrained_takes_all_options_by_position():
    table = fl.ones(3, 2)
    layer = nn.Embedding.from_pretrained(table, False, 1, 0.5, 1.0, True, True)
    options = layer.weight.requires_grad, layer.padding_idx, layer.max_norm, layer.norm_type, layer.scale_grad_by_freq, layer.sparse
    assert options == (True, 1, 0.5, 1.0, True, True)
    bag = nn.EmbeddingBag.from_pretrained(table, True, 0.5, 1.0, False, "sum", False, True, 2)
    assert (bag.max_norm, bag.norm_type, bag.mode, bag.include_last_offset, bag.padding_idx) == (0.5, 1.0, "sum", True, 2)
    assert not bag.weight.requires_grad


def test_rms_norm_takes_x():
    assert nn.RMSNorm(2)(x=fl.ones(1, 2)).shape == (1, 2)


def test_modules_with_repetitions():
    shared = nn.ReLU()
    net = nn.Sequential(shared, shared)
    assert len(list(net.modules())) == 2
    assert len(list(net.modules(remove_duplicate=False))) == len(list(net.modules(False))) == 3


# ---- what subclasses of programs call and override


def test_convolutions_by_another_weight():
    class Standardized(nn.Conv2d):
        def forward(self, input):
            return self._conv_forward(input, self.weight - self.weight.mean((1, 2, 3), keepdim=True), self.bias)

    class Twice(nn.Conv1d):
        def _conv_forward(self, input, weight, bias):
            return super()._conv_forward(input, weight * 2, bias)

    x = fl.randn(2, 2, 6, 6)
    for mode in ("zeros", "reflect", "circular"):
        layer = Standardized(2, 4, 3, padding=1, padding_mode=mode)
        plain = nn.Conv2d(2, 4, 3, padding=1, padding_mode=mode)
        plain.load_state_dict(layer.state_dict())
        plain.weight.data -= plain.weight.data.mean((1, 2, 3), keepdim=True)
        assert fl.allclose(layer(x), plain(x), atol=1e-5)
    twice = Twice(6, 3, 3, bias=False)
    assert fl.allclose(twice(x[0]), 2 * fl.nn.functional.conv1d(x[0], twice.weight), atol=1e-5)
    same = nn.Conv3d(1, 1, 3, padding="same")
    assert same._conv_forward(fl.zeros(1, 4, 4, 4), same.weight, None).shape == (1, 4, 4, 4)
    transposed = nn.ConvTranspose2d(2, 3, 3, stride=2)
    assert tuple(transposed._output_padding(fl.zeros(1, 2, 4, 4), [10, 10], [2, 2], [0, 0], [3, 3], 2, [1, 1])) == (1, 1)


def test_norms_ask_subclasses_which_inputs_they_take():
    from flambeau.nn.modules.norm import _BatchNorm, _InstanceNorm

    class Any(_BatchNorm):
        def _check_input_dim(self, input):
            if input.dim() < 2:
                raise ValueError("too few axes")

    class Narrow(nn.BatchNorm2d):
        def _check_input_dim(self, input):
            super()._check_input_dim(input)
            if input.shape[-1] != 2:
                raise ValueError("too wide")

    class Some(_InstanceNorm):
        def _get_no_batch_dim(self):
            return 3

        def _check_input_dim(self, input):
            pass

    x = fl.randn(4, 3, 2, 2)
    assert fl.equal(Any(3)(x), nn.BatchNorm2d(3)(x)) and Any(3)(fl.randn(4, 3)).shape == (4, 3)
    assert fl.equal(Some(3)(x), nn.InstanceNorm2d(3)(x)) and Some(3)(x[0]).shape == (3, 2, 2)
    with pytest.raises(ValueError, match="too few"):
        Any(3)(fl.randn(4))
    assert Narrow(3)(x).shape == x.shape
    with pytest.raises(ValueError, match="too wide"):
        Narrow(3)(fl.randn(4, 3, 2, 3))
    with pytest.raises(fl.ShapeError, match=r"expected 4D input \(got 2D input\)"):
        Narrow(3)(fl.randn(4, 3))
    with pytest.raises(NotImplementedError, match="_check_input_dim"):
        type("Bare", (_BatchNorm,), {})(3)(x)


def test_recurrent_layers_tell_their_weights_and_checks():
    layer = nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    assert layer._flat_weights_names[:5] == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0"]
    assert len(layer._flat_weights) == 20 and layer._flat_weights[0] is layer.weight_ih_l0 and layer._all_weights[0] == layer._flat_weights_names[:5]
    x = fl.zeros(5, 6, 3)
    assert layer.get_expected_hidden_size(x, None) == (4, 6, 2) and layer.get_expected_cell_size(x, None) == (4, 6, 4)
    layer.check_forward_args(x, (fl.zeros(4, 6, 2), fl.zeros(4, 6, 4)), None)
    with pytest.raises(RuntimeError, match=r"Expected hidden\[1\] size \(4, 6, 4\), got \[4, 6, 2\]"):
        layer.check_forward_args(x, (fl.zeros(4, 6, 2), fl.zeros(4, 6, 2)), None)
    with pytest.raises(RuntimeError, match="Expected 3, got 4"):
        layer.check_input(fl.zeros(5, 6, 4), None)
    h, order = fl.arange(6.0).view(1, 6, 1), fl.tensor([5, 4, 3, 2, 1, 0])
    assert nn.GRU(3, 1).permute_hidden(h, order).flatten().tolist() == [5, 4, 3, 2, 1, 0] and nn.GRU(3, 1).permute_hidden(h, None) is h
    assert [s[0, 0].item() for s in nn.LSTM(3, 1).permute_hidden((h, -h), order)] == [5, -5]
    packed = nn.utils.rnn.pack_padded_sequence(x, [5, 4, 3, 2, 1, 1])
    assert layer.get_expected_hidden_size(packed.data, packed.batch_sizes) == (4, 6, 2)


def test_cross_map_lrn():
    x = fl.randn(2, 7, 3, 3, dtype=fl.float64)
    for size in (1, 2, 3, 4, 5):
        got = nn.CrossMapLRN2d(size, alpha=0.5, beta=0.6, k=2.0)(x)
        reach = (size + 1) // 2
        for c in range(7):
            near = {i for i in range(7) if abs(i - c) < reach} | ({0} if c >= reach else set())
            scale = 2.0 + 0.5 / size * sum(x[:, i].square() for i in near)
            assert fl.allclose(got[:, c], x[:, c] * scale**-0.6)
    with pytest.raises(ValueError, match="Expected input to be 4D, got 3D"):
        nn.CrossMapLRN2d(2)(x[0])
    assert repr(nn.CrossMapLRN2d(3)) == "CrossMapLRN2d(3, alpha=0.0001, beta=0.75, k=1)"


def test_a_layer_norm_says_whether_it_has_a_bias():
    assert repr(nn.LayerNorm(8)) == "LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True)"
    assert repr(nn.LayerNorm(8, elementwise_affine=False)) == "LayerNorm((8,), eps=1e-05, elementwise_affine=False, bias=False)"


def test_convolutions_of_ones_own_derive_from_the_common_class():
    from flambeau.nn.modules.conv import _ConvNd, _ConvTransposeNd

    class Standardized(_ConvNd):
        def __init__(self, i, o, k, padding):
            super().__init__(i, o, (k, k), (1, 1), (padding, padding), (1, 1), False, (0, 0), 2, True, "zeros")

        def forward(self, x):
            return nn.functional.conv2d(x, self.weight - self.weight.mean(), self.bias, self.stride, self.padding, self.dilation, self.groups)

    class Longer(_ConvTransposeNd):
        def __init__(self, i, o, k):
            super().__init__(i, o, (k,), (1,), (0,), (1,), True, (0,), 1, False, "zeros")

    layer, longer = Standardized(2, 4, 3, 1), Longer(2, 3, 2)
    assert repr(layer) == "Standardized(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=2)"
    assert layer.weight.shape == (4, 1, 3, 3) and not layer.transposed and layer(fl.ones(1, 2, 5, 5)).shape == (1, 4, 5, 5)
    assert longer.weight.shape == (2, 3, 2) and longer.transposed and longer(fl.ones(1, 2, 4)).shape == (1, 3, 5)
    assert isinstance(nn.ConvTranspose2d(1, 1, 1), _ConvTransposeNd) and nn.ConvTranspose2d(1, 1, 1).transposed
