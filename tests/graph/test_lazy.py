"""Programs inside of flambeau.lazy(): the same bits as in eager mode, whatever is in between."""

from __future__ import annotations

import pytest
from support.both import both, forms
from support.compare import bits

import flambeau as fl
from flambeau import _C, nn
from flambeau.utils.checkpoint import checkpoint

F = nn.functional
pytestmark = pytest.mark.eager("has regions of its own")


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(8 * 16, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 4),
    )  # fmt: skip


# ---------------------------------------------------------------- single programs


def views():
    x = fl.rand(4, 6)
    rows = x[1:3]
    columns = x.t()[::2]
    return x + 1, rows * 2, columns.reshape(-1) * 3, x.view(2, 12)[1], columns.unsqueeze(0).expand(2, 3, 4) - 1


def inplace_through_views():
    x = fl.rand(4, 6)
    before = x * 1
    x[1:3].mul_(2)
    between = x.sum()
    x.t()[0] = 7
    x.view(-1)[::5].add_(x.view(-1)[:5].clone())
    x[x > 1] = 0
    return before, between, x


def inplace_with_history():
    x = fl.rand(4, 6, requires_grad=True)
    y = x * 2
    y[0].mul_(x[1])
    z = y.exp()
    y.add_(1)
    (y.sum() + z.detach().sum()).backward()
    return y, z, x.grad


def writes_to_parameters():
    layer = nn.Linear(3, 3)
    x = fl.rand(2, 3)
    first = layer(x)
    with fl.no_grad():
        layer.weight.mul_(0.5)
        layer.bias.copy_(x[0])
    return first, layer(x), *layer.parameters()


def optional_and_several_outputs():
    x = fl.rand(3, 5, requires_grad=True)
    values, indices = x.max(1)
    top, where = x.topk(2)
    variance, mean = fl.var_mean(x, 1)
    (values.sum() + top.sum() + variance.sum()).backward()
    normal = F.layer_norm(x, (5,), None, None)
    return values, indices, top, where, variance, mean, normal, x.grad, F.linear(x, fl.ones(2, 5))


def lists():
    parts = fl.rand(6, 4).split([1, 2, 3])
    joined = fl.cat([parts[2], parts[0]])
    return joined, fl.stack([joined, joined * 2], 1), *fl.rand(5).chunk(2), fl.einsum("ij,kj->ik", joined, joined)


class Cube(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def custom_function():
    x = fl.rand(5, requires_grad=True)
    (Cube.apply(x) * 2).sum().backward()
    return x.grad


def hooks():
    x = fl.rand(5, requires_grad=True)
    seen = []
    x.register_hook(lambda g: g * 2)
    y = x.exp()
    y.register_hook(lambda g: seen.append(g + 1))
    y.square().sum().backward()
    return x.grad, *seen


def checkpointed():
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 2))
    x = fl.rand(3, 4, requires_grad=True)
    y = checkpoint(net, x, use_reentrant=False)
    y.sum().backward()
    return y, x.grad, *(p.grad for p in net.parameters())


def autocast():
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    with fl.autocast("cpu", dtype=fl.bfloat16):
        y = net(fl.rand(4, 8))
        loss = F.cross_entropy(y, fl.tensor([0, 1, 2, 0]))
    loss.backward()
    return y, loss, *(p.grad for p in net.parameters())


def random_ops():
    x = F.dropout(fl.ones(40), 0.3)
    y = fl.empty(7).uniform_(-1, 1)
    return x, y, fl.randn(3), fl.randint(0, 9, (4,)), fl.randperm(6), fl.bernoulli(fl.full((5,), 0.5)), fl.rand(2), fl.multinomial(fl.ones(5), 2)


def a_generator_of_its_own():
    g = fl.Generator().manual_seed(3)
    a = fl.rand(3, generator=g)
    state = g.get_state()
    b = fl.rand(3, generator=g)
    g.set_state(state)
    return a, b, fl.rand(3, generator=g), fl.rand(2)


def modes():
    net = network()
    x = fl.rand(2, 3, 8, 8)
    net.eval()
    with fl.no_grad():
        a = net(x)
    net.train()
    return a, net(x), *net.buffers()


def second_derivatives():
    x = fl.rand(4, requires_grad=True)
    (g,) = fl.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = fl.autograd.grad((g * g).sum(), x, create_graph=True)
    h.sum().backward()
    return g, h, x.grad


def default_dtype():
    a = fl.ones(3) * fl.arange(3).float()
    fl.set_default_dtype(fl.float64)
    b = fl.arange(3) / 2
    fl.set_default_dtype(fl.float32)
    return a, b, fl.arange(3) / 2, a + b


def recurrent():
    net = nn.LSTM(3, 5, num_layers=2, bidirectional=True)
    y, (h, c) = net(fl.rand(4, 2, 3))
    y.sum().backward()
    return y, h, c, *(p.grad for p in net.parameters())


def attention():
    net = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    x = fl.rand(2, 5, 8, requires_grad=True)
    y = net(x)
    y.sum().backward()
    return y, x.grad


def read_in_the_middle():
    x = fl.rand(5)
    y = x * 2
    if y.sum() > 3:
        y = y - 1
    n = y.sum().item()
    y += n
    return y, n, y.tolist(), bool((y > 0).any())


PROGRAMS = [
    views, inplace_through_views, inplace_with_history, writes_to_parameters, optional_and_several_outputs, lists, custom_function,
    hooks, checkpointed, autocast, random_ops, a_generator_of_its_own, modes, second_derivatives, default_dtype, recurrent,
    attention, read_in_the_middle,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program(program):
    both(program)


# ---------------------------------------------------------------- training

OPTIMIZERS = {
    "sgd": lambda ps: fl.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda ps: fl.optim.Adam(ps, lr=0.01, amsgrad=True),
    "adamw": lambda ps: fl.optim.AdamW(ps, lr=0.01),
    "rmsprop": lambda ps: fl.optim.RMSprop(ps, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda ps: fl.optim.Adagrad(ps, lr=0.01),
}


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_training(optimizer):
    def train(around, each):
        fl.manual_seed(5)
        net, losses = network(), []
        opt = optimizer(net.parameters())
        with around():
            for _ in range(4):
                with each():
                    x, target = fl.randn(4, 3, 8, 8), fl.randint(0, 4, (4,))
                    opt.zero_grad()
                    loss = F.cross_entropy(net(x), target)
                    loss.backward()
                    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                    opt.step()
                    losses.append(loss.detach())
        return forms([*losses, *net.parameters(), *net.buffers()])

    class nothing(fl.enable_grad):
        pass

    eager = train(nothing, nothing)
    assert train(fl.lazy, nothing) == eager
    assert train(nothing, fl.lazy) == eager
    assert train(fl.lazy, fl.lazy) == eager


def test_a_decorated_function_and_nested_regions():
    @fl.lazy()
    def f(x):
        with fl.lazy():
            y = x * 2
        assert _C.graph.recorded()["nodes"]  # the inner end runs nothing
        return y + 1

    assert f(fl.ones(2)).tolist() == [3, 3]


def test_a_generator_that_leaves_the_region():
    def numbers():
        with fl.lazy():
            for i in range(3):
                yield fl.ones(2) * i + 1

    assert [x.tolist() for x in numbers()] == [[1, 1], [2, 2], [3, 3]]
    assert not _C.graph.recording()


# ---------------------------------------------------------------- what is run


def test_what_dies_is_not_run():
    x = fl.rand(3)
    with fl.lazy():
        before = _C.graph.stats()
        y = x.exp()
        z = y * 2
        kept = x + 1
        del y, z
        _C.graph.settle()
        after = _C.graph.stats()
    assert after["pruned"] - before["pruned"] == 2
    assert after["recorded"] - before["recorded"] == 3
    assert bits(kept) == bits(x + 1)


def test_what_dies_but_was_read_is_run():
    x = fl.rand(3)
    with fl.lazy():
        y = x.exp()
        z = y * 2
        del y
    assert bits(z) == bits(x.exp() * 2)


def test_draws_that_nobody_reads_are_draws():
    fl.manual_seed(1)
    fl.rand(5)
    expected = fl.rand(5)
    fl.manual_seed(1)
    with fl.lazy():
        fl.rand(5)
        found = fl.rand(5)
    assert bits(found) == bits(expected)
