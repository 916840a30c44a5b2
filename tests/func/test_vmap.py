"""vmap: against loops, with other axes, structures, nesting, writes and random numbers; and what it refuses."""

from __future__ import annotations

import warnings

import pytest
from support.compare import assert_near

import flambeau as fl
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.func import functional_call, grad, jacrev, jvp, stack_module_state, vjp, vmap
from flambeau.func._tree import tree_map


def numbers(*shape, seed=0):
    return fl.randn(*shape, dtype=fl.float64, generator=fl.Generator().manual_seed(seed))


def looped(f, *args):
    return fl.stack([f(*row) for row in zip(*args)])


FUNCTIONS = {
    "arithmetic": lambda a: (2 - a) / (1 + a.abs()) ** 2 + 3 % (a.abs() + 1) - (-a) // 1,
    "reductions": lambda a: a.sum() + a.mean(0).max() - a.amax(1).std() + a.prod(-1).sum() + a.norm(),
    "indexing": lambda a: a[0, 1:] + a[..., :-1][1] + a[[0, 1], [1, 2]][0] + a[:, None, 0].sum(),
    "shapes": lambda a: a.reshape(-1)[:6].view(2, 3).t().flatten().unsqueeze(-1).squeeze().expand(2, 6).T,
    "joining": lambda a: fl.cat([a, a * 2]).chunk(2)[0] + fl.stack(list(a.unbind(0))) + fl.vstack([a[0], a[1], a[1]])[:2],
    "python": lambda a: fl.einsum("ij,kj->ik", a, a) + fl.tensordot(a, a, dims=([1], [1])),
    "written": lambda a: a.clone().add_(a[0]).mul_(2).index_fill_(1, fl.tensor([0]), 3.0),
    "sorting": lambda a: a.sort(1).values + a.topk(3).values.sum() + a.argsort().double() + a.cumsum(0),
    "scalars": lambda a: a[0, 0] * a + a.sum() * fl.ones(4),
    "layers": lambda a: F.layer_norm(F.gelu(a), (4,)) + F.softmax(a, 1) + F.normalize(a, dim=0),
    "linalg": lambda a: fl.linalg.solve(a @ a.t() + fl.eye(2, dtype=a.dtype), a) + fl.linalg.inv(a @ a.t() + fl.eye(2, dtype=a.dtype)).sum(),
    "where": lambda a: fl.where(a > 0, a, a.sum()).clamp(min=-1).masked_fill(a > 1, 0.5),
    "types": lambda a: a.float().to(fl.float64).type_as(a) + a.long().double(),
    "conversion": lambda a: fl.as_tensor(a, dtype=fl.float32).double() + fl.tensor(a) + fl.asarray(a),
    "iteration": lambda a: sum(row * i for i, row in enumerate(a)) * len(a) + a.size(0) + a.ndim + a.numel(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("through", [lambda f: f, lambda f: grad(lambda a: f(a).double().pow(2).sum())], ids=["value", "grad"])
def test_equals_a_loop(name, through):
    f = through(FUNCTIONS[name])
    x = numbers(3, 2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # no op is called once per sample
        found = vmap(f)(x)
    assert_near(found, looped(f, x), scale=100)


OPERATORS = {
    "eq": lambda a: a == 2, "eq_tensor": lambda a: fl.tensor([1, 5]) == a, "ne": lambda a: a != a[0], "lt": lambda a: 2 < a, "floor": lambda a: a // 2,
    "floor_of": lambda a: 7 // a, "over": lambda a: 1 / a, "mod": lambda a: 5 % a, "and": lambda a: a & 1, "of_and": lambda a: 1 & a, "or": lambda a: a | 8,
    "xor": lambda a: a ^ a[0], "not": lambda a: ~a, "left": lambda a: a << 1, "of_left": lambda a: 1 << a, "right": lambda a: a >> 1, "of_right": lambda a: 9 >> a,
    "in_place": lambda a: a.clone().__iand__(3).__ior__(4).__ixor__(1).__ilshift__(1).__irshift__(2),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.filterwarnings("error")
def test_operators_have_rules(name):
    a = fl.tensor([[1, 2], [3, 4], [5, 6]])
    assert fl.equal(vmap(OPERATORS[name])(a), looped(OPERATORS[name], a))


@pytest.mark.parametrize("through", [vmap, lambda f: lambda a: jvp(f, (a,), (fl.ones_like(a),))[0]], ids=["vmap", "jvp"])
@pytest.mark.filterwarnings("error")
def test_membership_and_equality_inside(through):
    a = fl.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert through(lambda x: (x == 2).float() + fl.isin(x, fl.tensor([1.0, 4.0])).float())(a).tolist() == [[1.0, 1.0], [0.0, 1.0]]


@pytest.mark.parametrize("in_dim, out_dim", [(0, 0), (1, 0), (-1, 1), (2, -1)])
def test_axes(in_dim, out_dim):
    x = numbers(2, 3, 4)
    found = vmap(lambda a: a.t() * 2, in_dims=in_dim, out_dims=out_dim)(x)
    expected = fl.stack([a.t() * 2 for a in x.unbind(in_dim)], out_dim)
    assert_near(found, expected)


def test_structures():
    def f(p, x, *, scale):
        return {"y": (p["w"] * x + p["b"]) * scale, "w": p["w"]}, [x]

    p = {"w": numbers(3), "b": numbers(5, seed=1)}
    x, scale = numbers(5, 3, seed=2), numbers(3, seed=3)
    out, (same,) = vmap(f, in_dims=({"w": None, "b": 0}, 0), out_dims=({"y": 1, "w": None}, 0))(p, x, scale=scale)
    assert out["y"].shape == (3, 5)
    assert_near(out["y"], ((p["w"] * x + p["b"][:, None]) * scale).t())
    assert out["w"] is p["w"]
    assert_near(same, x)


def test_what_all_samples_share_comes_out_once_per_sample():
    assert vmap(lambda a: fl.ones(2))(numbers(3)).shape == (3, 2)


def test_nested():
    x, y = numbers(3, 5), numbers(4, 5, seed=1)
    table = vmap(lambda a: vmap(lambda b: a @ b)(y))(x)
    assert_near(table, x @ y.t())
    crossed = vmap(vmap(lambda a, b: a * b, in_dims=(0, None)), in_dims=(None, 0))(x[0], y[0])
    assert_near(crossed, y[0][:, None] * x[0])
    three = vmap(vmap(vmap(lambda a: a.sin().sum())))(numbers(2, 3, 4, 5))
    assert_near(three, numbers(2, 3, 4, 5).sin().sum(-1))


@pytest.mark.parametrize("chunk", [1, 2, 3, 7])
def test_chunks(chunk):
    x = numbers(5, 3)
    assert_near(vmap(lambda a: a.softmax(0), chunk_size=chunk, out_dims=1)(x), x.softmax(1).t())


def test_gradients_go_through():
    x = numbers(4, 3).requires_grad_()
    w = numbers(3, seed=1).requires_grad_()
    vmap(lambda a: (a * w).exp().sum())(x).sum().backward()
    y = (x.detach() * w.detach()).exp()
    assert_near(x.grad, y * w.detach())
    assert_near(w.grad, (y * x.detach()).sum(0))


def test_the_transposed_jacobian_of_a_batch_of_cotangents():
    x = numbers(3)
    _, pull = vjp(lambda a: a.cumprod(0), x)
    assert_near(vmap(pull)(fl.eye(3, dtype=fl.float64))[0], jacrev(lambda a: a.cumprod(0))(x))


def test_directions_of_a_batch():
    x, t = numbers(4, 3), numbers(4, 3, seed=1)
    f = lambda a: (a.softmax(0) * a.exp()).cumsum(0)  # noqa: E731
    found = vmap(lambda a, b: jvp(f, (a,), (b,))[1])(x, t)
    assert_near(found, fl.stack([jvp(f, (a,), (b,))[1] for a, b in zip(x, t)]))
    whole = jvp(lambda a: vmap(f)(a), (x,), (t,))[1]
    assert_near(whole, found)


# ------------------------------------------------------------------------------------- layers


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 4, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(54, 7), nn.LayerNorm(7), nn.Linear(7, 5),
    ).double()  # fmt: skip


def residual():
    return nn.Sequential(nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4), nn.PReLU(), nn.BatchNorm1d(4).eval(), nn.Flatten(), nn.Linear(104, 5)).double()


class Attentive(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.embedding = nn.Embedding(11, 8)
        self.out = nn.Linear(8, 5)

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.out(self.attention(x, x, x, need_weights=False)[0].mean(1))


NETS = {"lenet": (lenet, (28, 28)), "residual": (residual, (28,)), "attentive": (lambda: Attentive().double(), None)}


@pytest.mark.parametrize("name", NETS)
def test_gradients_per_sample(name):
    make, size = NETS[name]
    net = make()
    channels = (1,) if name == "lenet" else (2,)
    x = fl.randint(0, 11, (3, 6)) if size is None else numbers(3, *channels, *size)
    target = fl.tensor([0, 3, 4])
    parameters = {k: v.detach() for k, v in net.named_parameters()}

    def loss(p, sample, label):
        return F.cross_entropy(functional_call(net, p, (sample.unsqueeze(0),)), label.unsqueeze(0))

    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, target)
    for i in range(3):
        net.zero_grad()
        F.cross_entropy(net(x[i : i + 1]), target[i : i + 1]).backward()
        for path, parameter in net.named_parameters():
            assert_near(found[path][i], parameter.grad, scale=100, what=path)


def test_second_derivatives_per_sample():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 1)).double()
    parameters = {k: v.detach() for k, v in net.named_parameters()}
    x = numbers(3, 1, 1, 4, 4)

    def slope(p, a):
        return grad(lambda b: functional_call(net, p, (b,)).sum())(a).square().sum()

    found = vmap(grad(slope), in_dims=(None, 0))(parameters, x)
    for path, value in found.items():
        expected = fl.stack([grad(slope)(parameters, a)[path] for a in x])
        assert_near(value, expected, scale=100, what=path)


def test_an_ensemble():
    models = [lenet() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    x = numbers(2, 1, 28, 28)
    found = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    assert_near(found, fl.stack([m(x) for m in models]), scale=100)
    found.square().sum().backward()
    for m in models:
        m(x).square().sum().backward()
    assert_near(parameters["0.weight"].grad, fl.stack([m[0].weight.grad for m in models]), scale=100)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(reduction):
    x, y = numbers(3, 4, 5), numbers(3, 4, 5, seed=1)
    classes = fl.tensor([[0, 1, -100, 4], [2, 2, 2, 2], [4, 3, -100, -100]])
    weight = fl.rand(5, dtype=fl.float64)
    for f, args in [
        (lambda a, b: F.mse_loss(a, b, reduction=reduction), (x, y)),
        (lambda a, b: F.smooth_l1_loss(a, b, reduction=reduction), (x, y)),
        (lambda a, b: F.binary_cross_entropy_with_logits(a, b.sigmoid(), reduction=reduction), (x, y)),
        (lambda a, b: F.kl_div(a, b.softmax(-1), reduction="batchmean" if reduction == "mean" else reduction), (x, y)),
        (lambda a, c: F.cross_entropy(a, c, reduction=reduction), (x, classes)),
        (lambda a, c: F.cross_entropy(a, c, weight, reduction=reduction, label_smoothing=0.1), (x, classes)),
        (lambda a, b: F.cross_entropy(a, b.softmax(-1), reduction=reduction), (x, y)),
        (lambda a, c: F.nll_loss(a.log_softmax(-1), c, reduction=reduction), (x, classes)),
    ]:
        assert_near(vmap(f)(*args), looped(f, *args), scale=10)


def test_batch_norm():
    layer = nn.BatchNorm1d(3, track_running_stats=False).double()
    x = numbers(4, 6, 3)
    assert_near(vmap(layer)(x), fl.stack([layer(a) for a in x]), scale=10)
    with pytest.raises(RuntimeError, match="running_mean and running_var, which all samples share"):
        vmap(nn.BatchNorm1d(3).double())(x)


# ------------------------------------------------------------------------------------- writes


def test_writes():
    def f(a, b):
        c = a.new_zeros(3)
        c[0] = b
        c[1:] += a[:2]
        d = fl.zeros_like(a)
        d.copy_(c)
        d[fl.tensor([0, 2])].add_(1)
        d.view(3, 1)[:, 0].mul_(2)
        return c + d

    x, y = numbers(4, 3), numbers(4, seed=1)
    assert_near(vmap(f)(x, y), looped(f, x, y))


@pytest.mark.parametrize("write", [lambda s, a: s.add_(a), lambda s, a: s.copy_(a), lambda s, a: s.__setitem__(0, a[0])])
def test_what_all_samples_share_is_not_written(write):
    shared = fl.zeros(3, dtype=fl.float64)
    with pytest.raises(RuntimeError, match=r"would write one value per sample to a tensor of shape \[3\] that all 4 samples share"):
        vmap(lambda a: write(shared, a))(numbers(4, 3))
    assert_near(shared, fl.zeros(3, dtype=fl.float64))


def test_writes_to_a_batch_reach_the_argument():
    x = fl.zeros(3, 2)
    vmap(lambda a, b: a.add_(b), in_dims=(0, 0))(x, fl.ones(3))
    assert_near(x, fl.ones(3, 2))


# ------------------------------------------------------------------------------------- random numbers

DRAWS = {
    "rand": lambda a: fl.rand(50),
    "randn": lambda a: fl.randn((50,)),
    "randint": lambda a: fl.randint(0, 1000, (50,)),
    "randperm": lambda a: fl.randperm(50),
    "like": lambda a: fl.rand_like(a),
    "of what is shared": lambda a: fl.randn_like(fl.zeros(50)),
    "dropout": lambda a: F.dropout(a * 0 + 1),
    "dropout of what is shared": lambda a: F.dropout(fl.ones(50)),
    "alpha dropout": lambda a: F.alpha_dropout(a * 0 + 1, training=True),
    "bernoulli": lambda a: fl.bernoulli(a * 0 + 0.5),
    "in place": lambda a: fl.empty_like(a).uniform_(),
    "multinomial": lambda a: fl.multinomial(a.abs(), 20),
    "normal": lambda a: fl.normal(a, 1.0) - a,
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name):
    f, x = DRAWS[name], fl.ones(3, 50)
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        vmap(f)(x)
    one, two, three = vmap(f, randomness="same")(x)
    assert (one == two).all()
    assert (one == three).all()
    one, two, three = vmap(f, randomness="different")(x)
    assert (one != two).any()
    assert (two != three).any()
    before = fl.get_rng_state()
    f(x[0])
    assert (before != fl.get_rng_state()).any()  # outside everything is as it was


def test_draws_of_nested_batches():
    outer_differs = vmap(vmap(lambda a: fl.rand(()), randomness="same"), randomness="different")(fl.zeros(3, 4))
    assert (outer_differs[:, :1] == outer_differs).all()
    assert outer_differs[:, 0].unique().numel() == 3
    inner_differs = vmap(vmap(lambda a: fl.rand(()), randomness="different"), randomness="same")(fl.zeros(3, 4))
    assert (inner_differs[:1] == inner_differs).all()
    assert inner_differs[0].unique().numel() == 4


def test_dropout_that_draws_nothing_is_no_draw():
    x = fl.ones(3, 4)
    assert_near(vmap(lambda a: F.dropout(a, training=False))(x), x)
    assert_near(vmap(lambda a: F.dropout(a, 0.0))(x), x)


# ------------------------------------------------------------------------------------- what is refused

ERRORS = [
    (lambda x: vmap(lambda a: a if a.sum() > 0 else -a)(x), RuntimeError, "data-dependent control flow"),
    (lambda x: vmap(lambda a: a * a.sum().item())(x), RuntimeError, r"calling .item\(\) on a Tensor"),
    (lambda x: vmap(lambda a: a * float(a.sum()))(x), RuntimeError, "is made a Python number"),
    (lambda x: vmap(lambda a: a.numpy())(x), RuntimeError, "is made an array"),
    (lambda x: vmap(lambda a: a.tolist())(x), RuntimeError, "is made a list"),
    (lambda x: vmap(lambda a: a[a > 0].sum())(x), RuntimeError, "a mask that differs between samples"),
    (lambda x: vmap(lambda a: a.requires_grad_())(x), RuntimeError, "changed in place, which a batch does not take"),
    (lambda x: vmap(lambda a: a.sum().backward())(x), fl.AutogradError, r"backward\(\) inside of the function"),
    (lambda x: vmap(lambda a: nn.Parameter(a))(x), TypeError, "data stands for a value inside of vmap"),
    (lambda x: vmap(lambda a: fl.tensor([a[0], a[1]]))(x), fl.DeviceError, "a meta tensor has no data"),
    (lambda x: vmap(lambda a: 1.0)(x), ValueError, "must only return Tensors, got type float"),
    (lambda x: vmap(lambda a, b: a)(x, fl.ones(5)), ValueError, "Expected all tensors to have the same size in the mapped dimension"),
    (lambda x: vmap(lambda a: a, in_dims=2)(x), ValueError, "Got in_dim=2 for some input"),
    (lambda x: vmap(lambda a: a, in_dims=None)(x), ValueError, "in_dims = None; expected an int"),
    (lambda x: vmap(lambda a, b: a, in_dims=(None, None))(x, x), ValueError, "no argument is mapped over"),
    (lambda x: vmap(lambda a, b: a, in_dims=(0, 0, 0))(x, x), ValueError, "not compatible with the structure of a tuple of 2"),
    (lambda x: vmap(lambda a, b: a, in_dims=0)(x, 2.0), ValueError, "maps over a float; expected None"),
    (lambda x: vmap(lambda a: a)(fl.tensor(1.0)), ValueError, "Got in_dim=0 for some input"),
    (lambda x: vmap(lambda: 1)(), ValueError, "there are no positional arguments"),
    (lambda x: vmap(lambda a: a, out_dims=None)(x), ValueError, "out_dims has None for a result that differs"),
    (lambda x: vmap(lambda a: a, out_dims=2)(x), IndexError, "out_dims has 2, but a result has 2 axes"),
    (lambda x: vmap(lambda a: a, in_dims=[0])(x), ValueError, r"in_dims = \[0\]; expected an int, or a tuple"),
    (lambda x: vmap(lambda a: a, in_dims=({"k": 0},))(x), ValueError, "is not compatible with the structure of a Tensor"),
    (lambda x: vmap(lambda a: a, in_dims=True)(x), TypeError, "in_dims has True"),
    (lambda x: vmap(lambda a: a, chunk_size="2")(x), TypeError, "chunk_size = '2'"),
    (lambda x: vmap(lambda a: a, out_dims=(0, 0))(x), ValueError, "out_dims"),
    (lambda x: vmap(lambda a: a, randomness="some")(x), RuntimeError, "Only allowed values for randomness are 'error'"),
    (lambda x: vmap(lambda a: a, chunk_size=0)(x), ValueError, "chunk_size = 0"),
    (lambda x: vmap(lambda a: a, chunk_size=2)(x[0, :1].expand(2**58)), ValueError, "fewer than 2.31 chunks"),
    (lambda x: vmap(lambda a: a.sum(1))(x), IndexError, "sum: dim = 1, but a sample has 1 axes"),
    (lambda x: vmap(lambda a: a.view(2, 2))(x), fl.ShapeError, r"view: a sample has shape \[3\]"),
    (lambda x: vmap(lambda a: a @ fl.ones(4, dtype=x.dtype))(x), fl.ShapeError, "matmul"),
]


@pytest.mark.parametrize("call, error, text", ERRORS)
def test_errors(call, error, text):
    x = numbers(4, 3)
    with pytest.raises(error, match=text):
        call(x)
    assert_near(vmap(lambda a: a * 2)(x), x * 2)  # nothing stays behind


def test_out_dims_of_the_only_result_may_be_a_tuple():
    x = numbers(4, 3)
    assert vmap(lambda a: a * 2, out_dims=(1,))(x).shape == (3, 4)


def test_a_batch_does_not_outlive_its_vmap():
    kept = []
    vmap(lambda a: (kept.append(a), a)[1])(numbers(3))
    with pytest.raises(RuntimeError, match="a tensor of a vmap that has returned"):
        kept[0] + 1


def test_an_op_without_a_rule_is_called_per_sample_and_says_so_once():
    from flambeau.func import _batched

    _batched._warned.discard("histc")
    x = numbers(3, 8)
    f = lambda a: fl.histc(a, 4, -2, 2)  # noqa: E731
    with pytest.warns(UserWarning, match="no batching rule for histc"):
        found = vmap(f)(x)
    assert_near(found, looped(f, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vmap(f)(x)


def test_what_a_batch_looks_like():
    seen = []
    vmap(lambda a: (seen.append((repr(a), a.shape, a.dtype, a.device.type, a.is_contiguous())), a)[1])(fl.zeros(2, 3))
    text, shape, dtype, device, dense = seen[0]
    assert text.startswith("Batched(level=")
    assert (shape, dtype, device, dense) == ((3,), fl.float32, "cpu", True)


class Cube(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return dy * 3 * x * x


class BatchedCube(Cube):
    @staticmethod
    def vmap(info, in_dims, x):
        assert info.batch_size == 4
        return BatchedCube.apply(x), in_dims[0]


RESHAPED = {
    "t_": lambda a: a.t_(), "transpose_": lambda a: a.transpose_(0, 1), "swapaxes_": lambda a: a.swapaxes_(-1, 0), "squeeze_": lambda a: a[:1].squeeze_(0),
    "unsqueeze_": lambda a: a.unsqueeze_(1), "as_strided_": lambda a: a.as_strided_((2, 2), (1, 3)), "written": lambda a: a.t_().mul_(2.0).unsqueeze_(0),
}  # fmt: skip


@pytest.mark.parametrize("name", RESHAPED)
def test_shapes_in_place(name):
    """Of what the function made: the tensor becomes a view of what it was, as outside of a transformation."""

    def f(a):
        made = a * a
        first = made[0, 0]
        out = RESHAPED[name](made)
        return out if name == "squeeze_" else made + first

    x, v = numbers(4, 2, 3), numbers(4, 2, 3, seed=1)
    assert_near(vmap(f)(x), looped(f, x))
    assert_near(vmap(vmap(f))(fl.stack([x, x])), fl.stack([looped(f, x)] * 2))
    scalar = lambda a: f(a).pow(2).sum()  # noqa: E731
    assert_near(vmap(grad(scalar))(x), looped(grad(scalar), x))
    assert_near(jvp(scalar, (x[0],), (v[0],))[1], (grad(scalar)(x[0]) * v[0]).sum())


def test_the_shape_of_a_leaf_stays():
    for write in (lambda a: a.t_(), lambda a: a.unsqueeze_(0)):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
            vmap(grad(lambda a, write=write: write(a).sum()))(fl.ones(2, 3, 3))


WRONG_RULES = {
    "one value": (lambda x: x, "returned a Tensor; expected two"),
    "three values": (lambda x: (x, x, 0), "returned 3 values; expected two"),
    "other out_dims": (lambda x: (x, (None, 0)), r"Ruled.vmap: out_dims = \(None, 0\) is not compatible"),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_what_a_custom_rule_has_to_return(name):
    rule, text = WRONG_RULES[name]

    class Ruled(Cube):
        @staticmethod
        def vmap(info, in_dims, x):
            return rule(x)

    with pytest.raises(RuntimeError, match=text):
        vmap(Ruled.apply)(fl.ones(2, 3))


@pytest.mark.parametrize("kind", [Cube, BatchedCube])
@pytest.mark.filterwarnings("ignore:vmap. there is no batching rule")
def test_custom_functions(kind):
    x = numbers(4, 3)
    assert_near(vmap(grad(lambda a: kind.apply(a).sum()))(x), 3 * x**2)
    assert_near(jvp(kind.apply, (x,), (x,))[1], 3 * x**3)


class Taken(fl.autograd.Function):
    @staticmethod
    def forward(ctx, x, index):
        ctx.save_for_forward(index)
        return x[index]

    @staticmethod
    def jvp(ctx, x_tangent, index_tangent):
        assert index_tangent is None
        return Taken.apply(x_tangent, *ctx.saved_tensors)


def test_integers_have_no_tangent():
    x, index = numbers(4), fl.tensor([2, 0])
    assert_near(jvp(lambda a: Taken.apply(a, index), (x,), (2 * x,))[1], 2 * x[index])


@pytest.mark.parametrize("padding", [None, 2])
def test_embeddings_with_sparse_gradients_have_a_rule(padding):
    index, weight = fl.tensor([[0, 1], [2, 2], [4, 0]]), numbers(5, 2).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # no op is called once per sample
        found = vmap(lambda i: F.embedding(i, weight, padding, sparse=True))(index)
    assert_near(found, F.embedding(index, weight))
    found.sum().backward()
    assert weight.grad.is_sparse
    assert_near(weight.grad.to_dense(), fl.autograd.grad(F.embedding(index, weight, padding).sum(), weight)[0])


@pytest.mark.parametrize("per_sample", [False, True])
def test_gradients_of_samples_by_an_embedding_with_sparse_ones(per_sample):
    index, weight = fl.tensor([[0, 1], [2, 2], [4, 0]]), numbers(*(3,) * per_sample, 5, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        of = [vmap(grad(lambda w, i, kind=kind: (F.embedding(i, w, sparse=kind) ** 2).sum()), (0 if per_sample else None, 0))(weight, index) for kind in (True, False)]
    assert_near(*of)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("mapped", ["input", "state", "weights", "all"])
@pytest.mark.parametrize("through", [lambda f: f, lambda f: grad(lambda p, a, h: (f(p, a, h)[0] ** 2).sum(), argnums=(0, 1))], ids=["value", "grad"])
def test_recurrent_layers(kind, mapped, through):
    layers = [kind(2, 3, bidirectional=True).double() for _ in range(3)]
    names = list(dict(layers[0].named_parameters()))
    weights = {k: fl.stack([dict(m.named_parameters())[k].detach() for m in layers]) for k in names}
    x, h = numbers(3, 4, 2, 2), numbers(3, 2, 2, 3)
    given = [0 if mapped in (name, "all") else None for name in ("weights", "input", "state")]

    def run(p, a, h):
        y, later = functional_call(layers[0], p, (a, (h, h * 2) if kind is nn.LSTM else h))
        return y, *(later if isinstance(later, tuple) else (later,))

    def sample(i):
        pick = [i if dim == 0 else 0 for dim in given]
        return through(run)({k: w[pick[0]] for k, w in weights.items()}, x[pick[1]], h[pick[2]])

    shared = ({k: w if given[0] == 0 else w[0] for k, w in weights.items()}, *(v if dim == 0 else v[0] for v, dim in zip((x, h), given[1:])))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # no op is called once per sample
        found = vmap(through(run), tuple(given))(*shared)
    tree_map(lambda y, *rows: assert_near(y, fl.stack(rows), scale=10), found, *(sample(i) for i in range(3)))


class Pair:
    """A container of two tensors, as packages define them: it says itself what stands for it inside."""

    def __init__(self, a, b, batch_size):
        self.a, self.b, self.batch_size = a, b, batch_size

    def _add_batch_dim(self, *, in_dim, vmap_level):
        sizes = [n for i, n in enumerate(self.batch_size) if i != in_dim]
        return Pair(*(vmap_level.wrap(x.movedim(in_dim, 0)) for x in (self.a, self.b)), sizes)

    def _maybe_remove_batch_dim(self, funcname, vmap_level, batch_size, out_dim):
        return Pair(*(vmap_level.full(x).movedim(0, out_dim) for x in (self.a, self.b)), [batch_size, *self.batch_size])


def test_containers_that_add_the_axis_themselves():
    a, b = fl.arange(6.0).view(2, 3), fl.ones(2, 3)
    found = vmap(lambda pair, x: Pair(pair.a.sum() + x, pair.b * 2, []), in_dims=(0, None))(Pair(a, b, [2]), fl.tensor(1.0))
    assert found.batch_size == [2] and found.a.tolist() == [4, 13] and found.b.tolist() == [[2, 2, 2]] * 2
    with pytest.raises(ValueError, match="Got in_dim=1 for some input"):
        vmap(lambda pair: pair.a, in_dims=1)(Pair(a, b, [2]))
    with pytest.raises(NotImplementedError, match="chunk_size = 1 with a container"):
        vmap(lambda pair: pair.a, chunk_size=1)(Pair(a, b, [2]))


# ---------------------------------------------------------------- types of samples without axes


KINDS = [fl.bool, fl.int32, fl.int64, fl.bfloat16, fl.float32, fl.float64, fl.complex64]


def chosen(a, b):
    return fl.where(a == b, a, b)


def written(a, b):
    return a.clone().mul_(b)


@pytest.mark.parametrize("op", [fl.mul, fl.add, fl.maximum, chosen, written], ids=lambda op: op.__name__)
@pytest.mark.parametrize("second", KINDS, ids=str)
@pytest.mark.parametrize("first", KINDS, ids=str)
def test_numbers_of_samples_beside_shared_ones(op, first, second):
    a, b = fl.tensor([1, 2, 3]).to(first), fl.tensor([4, 5, 6]).to(second)
    for shape in ((), (2,)):
        for dims, pick in (((0, None), lambda i: (a[i], b[0].expand(shape))), ((None, 0), lambda i: (a[0], b[i].expand(shape)))):
            try:
                expected = fl.stack([op(*pick(i)) for i in range(3)])
            except (RuntimeError, TypeError):
                continue
            if op is written and dims == (None, 0):
                continue  # one tensor would get a value per sample
            given = (a, b[0].expand(shape)) if dims[0] == 0 else (a[0], b.reshape(3, *(1,) * len(shape)).expand(3, *shape))
            got = fl.func.vmap(op, in_dims=dims)(*given)
            assert got.dtype == expected.dtype and fl.equal(got, expected)


def test_wide_numbers_beside_samples():
    got = fl.func.vmap(lambda a: a * fl.tensor(2**40))(fl.ones(3, dtype=fl.int32))
    assert got.dtype == fl.int64 and got.tolist() == [2**40] * 3


def test_chunks_share_draws():
    for draw in (lambda x: x + fl.rand(1), lambda x: x + fl.nn.functional.dropout(fl.ones(4)), lambda x: x + fl.randperm(5)):
        got = fl.func.vmap(draw, randomness="same", chunk_size=2)(fl.zeros(5, 1))
        assert (got == got[0]).all()
    fl.manual_seed(3)
    whole = fl.func.vmap(lambda x: x + fl.rand(2), randomness="same")(fl.zeros(4, 1))
    after = fl.rand(1)
    fl.manual_seed(3)
    assert fl.equal(fl.func.vmap(lambda x: x + fl.rand(2), randomness="same", chunk_size=3)(fl.zeros(4, 1)), whole) and fl.equal(fl.rand(1), after)


def test_a_number_of_each_sample_fills_its_tensor():
    x = fl.arange(6.0).view(2, 3)
    assert vmap(lambda v: fl.zeros_like(v).fill_(v.sum()))(x).tolist() == [[3.0] * 3, [12.0] * 3]
    assert vmap(lambda v: v.new_empty((2, 2)).fill_(v[0]))(x).tolist() == [[[0.0] * 2] * 2, [[3.0] * 2] * 2]


def test_results_that_are_no_tensors():
    y, name = vmap(lambda v: (2 * v, "twice"), out_dims=(0, None))(fl.ones(3))
    assert name == "twice" and y.tolist() == [2.0] * 3
    with pytest.raises(TypeError, match="the function must only return Tensors"):
        vmap(lambda v: (v, "twice"))(fl.ones(3))
