"""Recurrent layers against a step-by-step NumPy version, packing, states, errors."""

import numpy as np
import pytest
from support.leaks import assert_nothing_stays

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils import rnn as packing

CELLS = {"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_step(kind, x, h, c, w):
    gx = x @ w["weight_ih_l0"].T + w["bias_ih_l0"]
    gh = h @ w["weight_hh_l0"].T + w["bias_hh_l0"]
    if kind == "RNN":
        return np.tanh(gx + gh), c
    if kind == "LSTM":
        i, f, g, o = np.split(gx + gh, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    (rx, zx, nx), (rh, zh, nh) = np.split(gx, 3, -1), np.split(gh, 3, -1)
    r, z = sigmoid(rx + rh), sigmoid(zx + zh)
    return (1 - z) * np.tanh(nx + r * nh) + z * h, c


def setup_function():
    fl.manual_seed(0)


@pytest.mark.parametrize("kind", list(CELLS))
def test_against_numpy(kind):
    layer = CELLS[kind](3, 4)
    weights = {k: v.numpy() for k, v in layer.state_dict().items()}
    x = fl.randn(5, 2, 3)
    out, _ = layer(x)
    h = c = np.zeros((2, 4))
    for step in range(5):
        h, c = numpy_step(kind, x.numpy()[step], h, c, weights)
        np.testing.assert_allclose(out[step].detach().numpy(), h, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", list(CELLS))
def test_bidirectional_is_two_layers(kind):
    both = CELLS[kind](3, 4, bidirectional=True)
    state = both.state_dict()
    forward, backward = CELLS[kind](3, 4), CELLS[kind](3, 4)
    forward.load_state_dict({k: v for k, v in state.items() if "reverse" not in k})
    backward.load_state_dict(
        {k.removesuffix("_reverse"): v for k, v in state.items() if "reverse" in k}
    )
    x = fl.randn(5, 2, 3)
    out, _ = both(x)
    a, _ = forward(x)
    b, _ = backward(x.flip(0))
    np.testing.assert_allclose(
        out.detach().numpy(), fl.cat([a, b.flip(0)], -1).detach().numpy(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("kind", list(CELLS))
def test_packed_equals_each_sequence_alone(kind, enforce_sorted):
    layer = CELLS[kind](3, 4, num_layers=2, bidirectional=True)
    lengths = [5, 3, 1] if enforce_sorted else [3, 5, 1]
    sequences = [fl.randn(n, 3) for n in lengths]
    packed = packing.pack_sequence(sequences, enforce_sorted=enforce_sorted)
    out, last = layer(packed)
    padded, got_lengths = packing.pad_packed_sequence(out, batch_first=True)
    assert got_lengths.tolist() == lengths
    for i, x in enumerate(sequences):
        alone, alone_last = layer(x)
        np.testing.assert_allclose(
            padded[i, : len(x)].detach().numpy(), alone.detach().numpy(), rtol=1e-4, atol=1e-6
        )
        h, alone_h = (last[0], alone_last[0]) if kind == "LSTM" else (last, alone_last)
        np.testing.assert_allclose(
            h[:, i].detach().numpy(), alone_h.detach().numpy(), rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("kind", list(CELLS))
def test_batch_first_unbatched_and_cells_agree(kind):
    layer = CELLS[kind](3, 4)
    first = CELLS[kind](3, 4, batch_first=True)
    first.load_state_dict(layer.state_dict())
    x = fl.randn(5, 2, 3)
    want = layer(x)[0].detach().numpy()
    got = first(x.transpose(0, 1))[0].transpose(0, 1).detach().numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer(x[:, 1])[0].detach().numpy(), want[:, 1], rtol=1e-5, atol=1e-6)
    cell = {"RNN": nn.RNNCell, "LSTM": nn.LSTMCell, "GRU": nn.GRUCell}[kind](3, 4)
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
    state = None
    for step in range(5):
        state = cell(x[step], state)
    h = state[0] if kind == "LSTM" else state
    np.testing.assert_allclose(h.detach().numpy(), want[-1], rtol=1e-5, atol=1e-6)


def test_the_cell_state_of_a_step_may_be_written_into():
    """As spiking networks reset it: the step before is differentiated as it was computed."""
    cell, x, c = nn.LSTMCell(3, 4), fl.randn(2, 3), fl.randn(2, 4)
    h, now = cell(x, (fl.zeros(2, 4), c))
    want = fl.autograd.grad((h * h).sum() + now.sum(), list(cell.parameters()), retain_graph=True)
    loss = (h * h).sum() + now.sum()
    now.zero_()
    for got, wanted in zip(fl.autograd.grad(loss, list(cell.parameters())), want, strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted.numpy())


def test_a_state_can_be_carried_over():
    layer = nn.LSTM(3, 4, num_layers=2)
    x = fl.randn(6, 2, 3)
    whole, _ = layer(x)
    _, state = layer(x[:3])
    rest, _ = layer(x[3:], state)
    np.testing.assert_allclose(
        rest.detach().numpy(), whole[3:].detach().numpy(), rtol=1e-5, atol=1e-6
    )


def test_errors():
    layer = nn.GRU(3, 4)
    with pytest.raises(ValueError, match=r"input\.size\(-1\) must be equal to input_size\. Expected 3"):
        layer(fl.zeros(2, 2, 5))
    with pytest.raises(ValueError, match="Expected hidden size"):
        layer(fl.zeros(5, 2, 3), fl.zeros(1, 3, 4))
    with pytest.raises(TypeError, match="a tuple"):
        nn.LSTM(3, 4)(fl.zeros(5, 2, 3), fl.zeros(1, 2, 4))
    with pytest.raises(ValueError, match="proj_size has to be smaller than hidden_size"):
        nn.LSTM(3, 4, proj_size=4)
    with pytest.raises(ValueError, match="proj_size = 2, but the proj_size argument is only supported for LSTM"):
        nn.GRU(3, 4, proj_size=2)
    with pytest.raises(ValueError, match=r"Expected hidden\[0\] size \(1, 2, 2\), got \[1, 2, 4\] as h_0"):
        nn.LSTM(3, 4, proj_size=2)(fl.zeros(5, 2, 3), (fl.zeros(1, 2, 4), fl.zeros(1, 2, 4)))
    with pytest.raises(ValueError, match="'tanh' or 'relu'"):
        nn.RNN(3, 4, nonlinearity="elu")
    with pytest.raises(ValueError, match="must be sorted in decreasing order"):
        packing.pack_sequence([fl.zeros(1, 2), fl.zeros(3, 2)])


def test_padding_helpers():
    xs = [fl.ones(2), fl.ones(3) * 2]
    padded = packing.pad_sequence(xs, batch_first=True, padding_value=-1)
    assert padded.tolist() == [[1, 1, -1], [2, 2, 2]]
    left = packing.pad_sequence(xs, batch_first=True, padding_side="left")
    assert left[0].tolist() == [0, 1, 1]
    assert [x.tolist() for x in packing.unpad_sequence(padded, [2, 3], batch_first=True)] == [
        [1, 1],
        [2, 2, 2],
    ]
    mixed = packing.pad_sequence([fl.ones(1, dtype=fl.int64), fl.ones(2) * 1.5])  # the first says the type
    assert (mixed.dtype, mixed.tolist()) == (fl.int64, [[1, 1], [0, 1]])
    with pytest.raises(ValueError, match="sequence 0 has no axes"):
        packing.pad_sequence([fl.tensor(1.0), fl.ones(2)])


@pytest.mark.parametrize("bias", [True, False])
def test_projections_against_numpy(bias):
    """h = W_hr (o tanh(c)), which is what the next step and the output see."""
    layer = nn.LSTM(3, 5, proj_size=2, bias=bias).double()
    p = {name.removesuffix("_l0"): v.detach().numpy() for name, v in layer.named_parameters()}
    x = np.random.default_rng(0).normal(size=(4, 2, 3))
    h, c = np.zeros((2, 2)), np.zeros((2, 5))
    for t, row in enumerate(x):
        gates = row @ p["weight_ih"].T + h @ p["weight_hh"].T + (p["bias_ih"] + p["bias_hh"] if bias else 0)
        i, f, g, o = np.split(gates, 4, 1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = (np.tanh(c) / (1 + np.exp(-o))) @ p["weight_hr"].T
        out, (h_n, c_n) = layer(fl.tensor(x[: t + 1]))
        np.testing.assert_allclose(out[-1].detach().numpy(), h, rtol=1e-9)
    np.testing.assert_allclose(h_n[0].detach().numpy(), h, rtol=1e-9)
    np.testing.assert_allclose(c_n[0].detach().numpy(), c, rtol=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: nn.LSTM(3, 4, n),
        lambda n: nn.RNN(3, 4, num_layers=n, device="meta"),
        lambda n: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), n, enable_nested_tensor=False),
        lambda n: nn.Transformer(4, 2, 1, n, 8),
    ],
)
def test_more_layers_than_there_is_memory_for_are_refused_at_once(make):
    with pytest.raises(MemoryError, match=r"num_layers = 2305843009213693952 take more than .* GiB, and .* are left"):
        make(2**61)


def test_a_cell_of_ones_own_says_how_many_parts_it_has():
    class Cell(nn.RNNCellBase):
        def forward(self, input):
            return input @ self.weight_ih.mT + self.bias_ih

    cell = Cell(3, 4, True, 5, None, fl.float64)
    assert cell(fl.ones(2, 3, dtype=fl.float64)).shape == (2, 20) and cell.weight_hh.shape == (20, 4)
    assert nn.LSTMCell(3, 4, False, "cpu", fl.float64).weight_ih.shape == (16, 3)
    assert nn.GRUCell(3, 4).weight_ih.shape == (12, 3) and nn.RNNCell(3, 4).weight_ih.shape == (4, 3)


def test_unpad_sequence_by_name():
    rows = packing.unpad_sequence(padded_sequences=fl.ones(2, 3), lengths=fl.tensor([1, 2]), batch_first=True)
    assert [r.shape[0] for r in rows] == [1, 2]


LAYERS = {
    "LSTM": lambda: nn.LSTM(2, 3, 2, bidirectional=True),
    "LSTM without bias": lambda: nn.LSTM(2, 3, bias=False, batch_first=True),
    "projected": lambda: nn.LSTM(2, 3, proj_size=2),
    "GRU": lambda: nn.GRU(2, 3, 2, bidirectional=True),
    "GRU without bias": lambda: nn.GRU(2, 3, bias=False),
    "LSTMCell": lambda: nn.LSTMCell(2, 3),
    "GRUCell": lambda: nn.GRUCell(2, 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_derivatives_of_all_orders_and_in_a_direction(name):
    layer = LAYERS[name]().double()
    x = fl.randn(*((2, 2) if "Cell" in name else (3, 2, 2)), dtype=fl.float64, requires_grad=True)

    def states(x, *weights):
        y, later = fl.func.functional_call(layer, dict(zip(names, weights)), (x,)), ()
        if isinstance(y, tuple):
            y, *later = y
        return (y, *(s for item in later for s in (item if isinstance(item, tuple) else (item,))))

    names, weights = zip(*((k, p.detach().requires_grad_()) for k, p in layer.named_parameters()))
    assert fl.autograd.gradcheck(states, (x, *weights))
    assert fl.autograd.gradgradcheck(states, (x, *weights))
    at = tuple(v.detach() for v in (x, *weights))
    ways, step = tuple(fl.randn_like(v) for v in at), 1e-6
    there, back = (states(*(v + sign * step * w for v, w in zip(at, ways))) for sign in (1, -1))
    for slope, a, b in zip(fl.func.jvp(states, at, ways)[1], there, back):
        fl.testing.assert_close(slope, (a - b) / (2 * step), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_second_derivative_of_packed_sequences(kind):
    layer = kind(2, 3).double()
    x = fl.randn(4, 2, 2, dtype=fl.float64, requires_grad=True)

    def run(x):
        return layer(nn.utils.rnn.pack_padded_sequence(x, [4, 2]))[0].data

    assert fl.autograd.gradgradcheck(run, (x,))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_second_derivative_frees_what_it_kept(kind):
    layer, x = kind(2, 3), fl.randn(3, 1, 2, requires_grad=True)

    def run():
        (g,) = fl.autograd.grad(layer(x)[0].square().sum(), x, create_graph=True)
        g.square().sum().backward()
        x.grad = None
        layer.zero_grad()

    assert_nothing_stays(run)


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_what_is_unpacked_lies_row_by_row(batch_first, enforce_sorted):
    x = fl.arange(24.0).reshape(3, 4, 2)
    packed = packing.pack_padded_sequence(x, [4, 3, 1], batch_first=batch_first, enforce_sorted=enforce_sorted) if batch_first else (
        packing.pack_padded_sequence(x.transpose(0, 1), [4, 3, 1], enforce_sorted=enforce_sorted)
    )  # fmt: skip
    padded, lengths = packing.pad_packed_sequence(packed, batch_first=batch_first, padding_value=-1.0, total_length=5)
    assert padded.is_contiguous() and lengths.tolist() == [4, 3, 1]
    assert padded.view(-1, 2).shape == (15, 2)
    rows = padded if batch_first else padded.transpose(0, 1)
    assert rows[1].tolist() == [*x[1, :3].tolist(), [-1, -1], [-1, -1]]


@pytest.mark.parametrize(
    "layer", [lambda: nn.RNN(8, 2), lambda: nn.LSTM(8, 2), lambda: nn.GRU(8, 2), lambda: nn.LSTM(8, 2, proj_size=1), lambda: nn.RNN(8, 2, 2, bidirectional=True)]
)
def test_no_sequences_of_many_steps(layer):
    """A batch of none is no work, however long its sequences are; gradients are there, and zero."""
    module, x = layer(), fl.zeros(2**32, 0, 8, requires_grad=True)
    y, state = module(x)
    wide = (1 if getattr(module, "proj_size", 0) else 2) * (2 if module.bidirectional else 1)
    assert y.shape == (2**32, 0, wide) and (state[0] if isinstance(state, tuple) else state).shape[1] == 0
    y.sum().backward()
    assert x.grad.shape == x.shape and all((p.grad == 0).all() for p in module.parameters())


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_what_recurrent_layers_refuse(kind):
    for dropout in (True, "a", 2.0):
        with pytest.raises(ValueError, match="dropout = |has to be between 0 and 1, but got 2.0"):
            kind(2, 2, 2, dropout=dropout)
    with pytest.raises(ValueError, match=rf"{kind.__name__}: input is flambeau.float64, the weights are flambeau.float32; convert one"):
        kind(2, 2)(fl.ones(1, 1, 2).double())
