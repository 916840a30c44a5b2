"""Parametrizations of the user's."""

import copy

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils import parametrize


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)

    def right_inverse(self, w):
        return w.triu()


class Exp(nn.Module):
    def forward(self, w):
        return w.exp()

    def right_inverse(self, w):
        return w.log()


class Product(nn.Module):
    def forward(self, a, b):
        return a @ b

    def right_inverse(self, w):
        return w, fl.eye(w.shape[1])


class Wider(nn.Module):
    def forward(self, w):
        return fl.cat([w, w])


def test_it_is_computed_when_it_is_read():
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert fl.equal(layer.weight, layer.weight.T)
    layer(fl.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad.tolist() == [[1, 2, 2], [0, 1, 2], [0, 0, 1]]
    assert parametrize.is_parametrized(layer, "weight") and not parametrize.is_parametrized(layer, "bias")
    assert (type(layer).__name__, parametrize.type_before_parametrizations(layer)) == ("ParametrizedLinear", nn.Linear)


def test_the_class_belongs_to_parametrize_so_that_a_trace_keeps_it_whole():
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(fl.ones(2))

        def forward(self, x):
            return x.neg() * self.w

    class Half(nn.Module):
        def forward(self, w):
            return w / 2

    model = nn.Sequential(Mine(), nn.Linear(2, 2))
    for layer, name in zip(model, ("w", "weight"), strict=True):
        parametrize.register_parametrization(layer, name, Half())
        assert type(layer).__module__ == "flambeau.nn.utils.parametrize"
    calls = [(n.op, n.target) for n in fl.fx.symbolic_trace(model).graph.nodes]
    assert calls[1:3] == [("call_module", "0"), ("call_module", "1")]
    parametrize.register_parametrization(model[0], "w", Half())
    assert type(model[0]).__module__ == "flambeau.nn.utils.parametrize" and type(model[0]).__name__ == "ParametrizedMine"
    parametrize.remove_parametrizations(model[0], "w")
    assert type(model[0]) is Mine


def test_they_follow_each_other_and_can_be_assigned():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Exp())
    layer.weight = fl.tensor([[1.0, 2.0], [2.0, 4.0]])
    assert layer.weight.allclose(fl.tensor([[1.0, 2.0], [2.0, 4.0]]))
    assert layer.parametrizations.weight.original.allclose(fl.tensor([[0.0, 0.6931472], [0.0, 1.3862944]]))


def test_several_originals():
    layer = parametrize.register_parametrization(nn.Linear(3, 2), "weight", Product())
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    with pytest.raises(ValueError, match="computed of 2 tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight.shape == (2, 3)


def test_computed_once_inside_of_cached():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    assert layer.weight is not layer.weight
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight


@pytest.mark.parametrize("leave", [True, False])
def test_removing(leave):
    layer = nn.Linear(2, 2)
    with fl.no_grad():
        layer.weight.abs_()
    parametrize.register_parametrization(layer, "weight", Exp())
    wanted = (layer.weight if leave else layer.parametrizations.weight.original).detach().clone()
    parametrize.remove_parametrizations(layer, "weight", leave)
    assert type(layer) is nn.Linear
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert isinstance(layer.weight, nn.Parameter) and fl.equal(layer.weight, wanted)


def test_copies_are_apart():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric())
    twin = copy.deepcopy(layer)
    with fl.no_grad():
        layer.parametrizations.weight.original.zero_()
    assert layer.weight.abs().sum() == 0 and twin.weight.abs().sum() > 0


@pytest.mark.parametrize(("call", "text"), [
    (lambda m: parametrize.register_parametrization(m, "wieght", Exp()), "Linear does not have a parameter"),
    (lambda m: parametrize.register_parametrization(m, "weight", Wider()), r"becomes flambeau.float32 \[4, 2\]; expected flambeau.float32 \[2, 2\]"),
    (lambda m: parametrize.remove_parametrizations(m, "weight"), "Linear does not have a parametrization on weight"),
])  # fmt: skip
def test_bad_arguments_change_nothing(call, text):
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    with pytest.raises(ValueError, match=text):
        call(layer)
    assert type(layer) is nn.Linear and fl.equal(layer.weight, before)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


def test_unsafe_lets_the_shape_change():
    layer = parametrize.register_parametrization(nn.Linear(2, 2, bias=False), "weight", Wider(), unsafe=True)
    assert layer(fl.ones(1, 2)).shape == (1, 4)
    assert parametrize.register_parametrization(layer, "weight", Exp()).parametrizations.weight.unsafe


class Inverted(nn.Module):
    """Computes nothing; what it says that it computes of is what a test gives."""

    def __init__(self, inverse):
        super().__init__()
        self.right_inverse = inverse

    def forward(self, *w):
        return w[0]


BAD_INVERSES = [
    (lambda w: (w, w), r"'weight' tuple\. A parametrization must return a tensor"), (lambda w: 3, r"'weight' int\. A parametrization must return a tensor"),
    (lambda w: w.double(), r"'weight' flambeau.float64 \[2, 2\]; expected flambeau.float32 \[2, 2\]"), (lambda w: w[:1], r"'weight' flambeau.float32 \[1, 2\]"),
]  # fmt: skip


@pytest.mark.parametrize(("inverse", "text"), BAD_INVERSES)
def test_a_later_right_inverse_gives_one_tensor_of_the_same_kind(inverse, text):
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Exp())
    with pytest.raises(ValueError, match=f"right_inverse makes of {text}"):
        parametrize.register_parametrization(layer, "weight", Inverted(inverse))
    chain = parametrize.register_parametrization(layer, "weight", Inverted(inverse), unsafe=True).parametrizations.weight
    assert len(chain) == 2 and chain.unsafe


def test_the_first_right_inverse_keeps_the_type_and_the_parameter():
    layer = nn.Linear(2, 2)
    weight, values = layer.weight, layer.weight.tolist()
    for inverse, text in ((lambda w: w.double(), "gives flambeau.float64; expected flambeau.float32"), (lambda w: w[:1] + 1, "becomes .*as it was")):
        with pytest.raises(ValueError, match=text):
            parametrize.register_parametrization(layer, "weight", Inverted(inverse))
        assert type(layer) is nn.Linear and layer.weight is weight and weight.tolist() == values
    parametrize.register_parametrization(layer, "weight", Inverted(lambda w: w[:1]), unsafe=True)
    assert layer.parametrizations.weight.original is weight and layer.weight.tolist() == values[:1]


ASSIGNED = [
    (lambda w: w, lambda w: w.double(), "gives flambeau.float64; expected flambeau.float32"), (lambda w: w, lambda w: (w, w), "gives tuple; expected"),
    (lambda w: (w, w), lambda w: w, "gives flambeau.float32; expected flambeau.float32, flambeau.float32"), (lambda w: (w, w), lambda w: (w, w, w), "expected"),
    (lambda w: (w, w), lambda w: (w, w.double()), "gives flambeau.float32, flambeau.float64"), (lambda w: (w, w), lambda w: (w, 3), "gives flambeau.float32, int"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "then", "text"), ASSIGNED)
def test_an_assignment_gives_as_many_tensors_of_the_same_types(first, then, text):
    step, layer = Inverted(first), nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", step)
    step.right_inverse, before = then, layer.weight.tolist()
    with pytest.raises(ValueError, match=text):
        layer.weight = fl.ones(2, 2)
    assert layer.weight.tolist() == before and len(list(layer.parameters())) == (2 if text.startswith("gives flambeau.float64") or "tuple" in text else 3)


def test_an_original_can_be_parametrized():
    layer = nn.Linear(2, 2, bias=False)
    nn.init.uniform_(layer.weight, 1.0, 2.0)
    parametrize.register_parametrization(layer, "weight", Exp())
    chain, before = layer.parametrizations.weight, layer.weight.detach()
    parametrize.register_parametrization(chain, "original", Symmetric())
    assert [n for n, _ in layer.named_parameters()] == ["parametrizations.weight.parametrizations.original.original"]
    assert layer.weight[0].tolist() == before[0].tolist() and fl.equal(layer.weight, layer.weight.T)
    layer(fl.ones(1, 2)).sum().backward()
    assert all(p.grad is not None for p in layer.parameters()) and fl.equal(copy.deepcopy(layer).weight, layer.weight)
    layer.weight = fl.full((2, 2), 3.0)
    assert fl.allclose(layer.weight, fl.tensor(3.0))
    twin = copy.deepcopy(layer)
    parametrize.remove_parametrizations(chain, "original")
    assert [n for n, _ in layer.named_parameters()] == ["parametrizations.weight.original"]
    for each in (layer, twin):
        parametrize.remove_parametrizations(each, "weight")
        assert [n for n, _ in each.named_parameters()] == ["weight"] and fl.allclose(each.weight, fl.tensor(3.0))


def test_one_of_several_originals_can_be_parametrized():
    layer = parametrize.register_parametrization(nn.Linear(2, 2, bias=False), "weight", Product())
    before = layer.weight.detach()
    parametrize.register_parametrization(layer.parametrizations.weight, "original1", Symmetric())
    assert sorted(layer.state_dict()) == ["parametrizations.weight.original0", "parametrizations.weight.parametrizations.original1.original"]
    assert fl.allclose(layer.weight, before)


# ---- ready ones


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivialization", [True, False])
def test_orthogonal_matrices(shape, kind, trivialization):
    fl.manual_seed(0)
    module = nn.Module()
    module.weight = nn.Parameter(fl.randn(shape, dtype=fl.float64))
    nn.utils.parametrizations.orthogonal(module, orthogonal_map=kind, use_trivialization=trivialization)

    def apart():
        w = module.weight if shape[-2] >= shape[-1] else module.weight.mT
        return (w.mT @ w - fl.eye(w.shape[-1], dtype=fl.float64)).abs().max().item()

    assert apart() < 1e-12
    before = module.weight.detach().clone()
    optimizer = fl.optim.SGD(module.parameters(), lr=0.1)
    (module.weight * fl.randn(shape, dtype=fl.float64)).sum().backward()
    optimizer.step()
    assert apart() < 1e-12 and (module.weight - before).abs().max() > 1e-3
    other = fl.linalg.qr(fl.randn((*shape[:-2], max(shape[-2:]), min(shape[-2:])), dtype=fl.float64))[0]
    other = other if shape[-2] >= shape[-1] else other.mT
    if not trivialization and kind != "householder":
        with pytest.raises(NotImplementedError, match="use_trivialization=True"):
            module.weight = other
        return
    module.weight = other
    assert apart() < 1e-12
    assert (module.weight - other).abs().max() < 1e-12


def test_spectral_norm_finds_the_largest_singular_value():
    fl.manual_seed(0)
    layer = nn.utils.parametrizations.spectral_norm(nn.ConvTranspose2d(3, 4, 2).double(), n_power_iterations=100)
    matrix = layer.weight.transpose(0, 1).flatten(1)
    assert abs(fl.linalg.matrix_norm(matrix, 2).item() - 1) < 1e-6
    layer.eval()
    assert fl.equal(layer.weight, layer.weight)
    assert sorted(layer.state_dict()) == [
        "bias", "parametrizations.weight.0._u", "parametrizations.weight.0._v", "parametrizations.weight.original",
    ]  # fmt: skip
    layer(fl.ones(1, 3, 2, 2, dtype=fl.float64)).sum().backward()
    assert layer.parametrizations.weight.original.grad.abs().max() > 0
    vector = nn.utils.parametrizations.spectral_norm(nn.LayerNorm(4), "weight")
    assert vector.weight.tolist() == [0.5] * 4


def test_weight_norm_takes_part_in_the_mechanism():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    value = fl.arange(6.0).reshape(2, 3)
    layer.weight = value
    assert layer.weight.allclose(value)
    old = nn.utils.weight_norm(nn.Linear(3, 2))
    layer.load_state_dict(old.state_dict())
    assert layer(fl.ones(3)).allclose(old(fl.ones(3)))
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and sorted(layer.state_dict()) == ["bias", "weight"]


def test_transfer_to_another_module():
    one = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    other = nn.Linear(3, 2)
    parametrize.transfer_parametrizations_and_params(one, other)
    assert other.parametrizations.weight.original0 is one.parametrizations.weight.original0
    assert fl.equal(one.weight, other.weight)
    with pytest.raises(ValueError, match="nothing is parametrized in Linear"):
        parametrize.transfer_parametrizations_and_params(nn.Linear(2, 2), other)


@pytest.mark.parametrize(("do", "error", "text"), [
    (lambda p: p.orthogonal(nn.Linear(2, 2), "wieght"), ValueError, "Linear does not have a parameter"),
    (lambda p: p.orthogonal(nn.Linear(2, 2), "bias"), ValueError, r"Expected a matrix or batch of matrices\. Got a tensor of 1 dimensions"),
    (lambda p: p.orthogonal(nn.Linear(2, 2), orthogonal_map="qr"), ValueError, 'orthogonal_map has to be one of "matrix_exp"'),
    (lambda p: p.spectral_norm(nn.Linear(2, 2), n_power_iterations=0), ValueError, "Expected n_power_iterations to be positive"),
    (lambda p: p.spectral_norm(nn.Linear(2, 2), dim=2), IndexError, "dim = 2"),
    (lambda p: p.weight_norm(nn.Linear(2, 2), "nothing"), ValueError, "Linear does not have a parameter"),
], ids=range(6))  # fmt: skip
def test_ready_ones_refuse(do, error, text):
    with pytest.raises(error, match=text):
        do(nn.utils.parametrizations)


@pytest.mark.parametrize("make", [lambda: nn.BatchNorm2d(4), lambda: nn.InstanceNorm2d(4, affine=True), lambda: nn.GroupNorm(2, 4)])
@pytest.mark.parametrize("name", ["weight", "bias"])
def test_norms_by_parametrized_and_pruned_parameters(make, name):
    class Half(nn.Module):
        def forward(self, w):
            return w * 0.5

    x = fl.randn(3, 4, 2, 2)
    layer, plain = make(), make()
    for m in (layer, plain):
        m.weight.data, m.bias.data = fl.tensor([1.0, -2.0, 3.0, 0.5]), fl.tensor([2.0, 1.0, -3.0, 0.1])
    nn.utils.parametrize.register_parametrization(layer, name, Half())
    getattr(plain, name).data *= 0.5
    y = layer(x)
    assert fl.allclose(y, plain(x), atol=1e-6)
    y.square().sum().backward()
    assert getattr(layer.parametrizations, name).original.grad is not None
    pruned = make()
    nn.utils.prune.random_unstructured(pruned, name, amount=2)
    assert pruned(x).shape == x.shape and int((getattr(pruned, name + "_mask") == 0).sum()) == 2


@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley"])
def test_what_can_not_be_assigned_can_be_parametrised(orthogonal_map):
    layer = nn.Linear(4, 4)
    before = layer.weight.detach().clone()
    fl.nn.utils.parametrizations.orthogonal(layer, orthogonal_map=orthogonal_map, use_trivialization=False)
    assert fl.equal(layer.parametrizations.weight.original, before)
    fl.testing.assert_close(layer.weight @ layer.weight.T, fl.eye(4), rtol=0, atol=1e-5)
    with pytest.raises(NotImplementedError, match="use_trivialization=True"):
        layer.weight = fl.eye(4)


def test_statistics_of_a_norm_can_be_parametrized():
    class Shift(fl.nn.Module):
        def forward(self, x):
            return x + 1

    norm = fl.nn.BatchNorm1d(2).eval()
    fl.nn.utils.parametrize.register_parametrization(norm, "running_mean", Shift())
    assert norm(fl.ones(3, 2)).tolist() == [[0, 0]] * 3
    norm.train()(fl.ones(3, 2))  # the statistics that are written are those of the call
