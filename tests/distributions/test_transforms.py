"""Transforms: inverses, Jacobians by differences, caches, shapes; and the registries of constraints."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as fl
from flambeau import distributions as D
from flambeau.distributions import constraints, transforms
from flambeau.distributions.utils import broadcast_all, tril_matrix_to_vec, vec_to_tril_matrix

# A transform of float64, and the shape of an event.
BIJECTIVE = {
    "affine": (lambda: D.AffineTransform(0.5, -2.0), ()),
    "affine_vector": (lambda: D.AffineTransform(fl.zeros(3).double(), fl.tensor([1.0, -2.0, 3.0]).double(), event_dim=1), (3,)),
    "cdf": (lambda: D.CumulativeDistributionTransform(D.Normal(fl.tensor(0.0).double(), 2.0)), ()),
    "compose": (lambda: D.ComposeTransform([D.AffineTransform(1.0, 0.5), D.SigmoidTransform(), D.AffineTransform(0.0, 2.0)]), ()),
    "corr_cholesky": (lambda: D.CorrCholeskyTransform(), (6,)),
    "exp": (lambda: D.ExpTransform(), ()),
    "independent": (lambda: D.IndependentTransform(D.SoftplusTransform(), 1), (3,)),
    "inverse": (lambda: D.SoftplusTransform().inv.inv, ()),
    "power": (lambda: D.ComposeTransform([D.ExpTransform(), D.PowerTransform(fl.tensor(-1.5).double())]), ()),
    "sigmoid": (lambda: D.SigmoidTransform(), ()),
    "softplus": (lambda: D.SoftplusTransform(), ()),
    "stick": (lambda: D.StickBreakingTransform(), (4,)),
    "tanh": (lambda: D.TanhTransform(), ()),
}


def free_numbers(name, y):
    """The numbers of y that say all of it."""
    if name == "stick":
        return y[..., :-1]
    return tril_matrix_to_vec(y, -1) if name == "corr_cholesky" else y


@pytest.mark.parametrize("name", list(BIJECTIVE))
def test_inverse_and_jacobian(name):
    transform, event = BIJECTIVE[name][0](), BIJECTIVE[name][1]
    x = fl.tensor(np.random.default_rng(0).normal(size=(5, *event)), requires_grad=True)
    y = transform(x)
    assert transform.bijective and bool(transform.codomain.check(y).all()) and bool(transform.domain.check(x).all())
    np.testing.assert_allclose(transform.inv(y.detach()).numpy(), x.detach().numpy(), rtol=1e-6, atol=1e-8)
    got = transform.log_abs_det_jacobian(x, y)
    for i in range(5):
        flat = free_numbers(name, y[i]).reshape(-1)
        rows = [fl.autograd.grad(v, x, retain_graph=True)[0][i].reshape(-1).numpy() for v in flat]
        if name == "corr_cholesky":  # the volume of the factors: of what is below the diagonal
            assert got[i].item() == pytest.approx(np.linalg.slogdet(np.array(rows))[1], rel=1e-6)
            continue
        assert got[i].sum().item() == pytest.approx(np.linalg.slogdet(np.array(rows))[1], rel=1e-6)
    back = transform.inv.log_abs_det_jacobian(y, x)
    np.testing.assert_allclose(back.detach().numpy(), -got.detach().numpy())


@pytest.mark.parametrize("name", list(BIJECTIVE))
def test_copies_pickles_and_shapes(name):
    transform, event = BIJECTIVE[name][0](), BIJECTIVE[name][1]
    x = fl.tensor(np.random.default_rng(0).normal(size=(5, *event)))
    for other in (copy.deepcopy(transform), pickle.loads(pickle.dumps(transform))):
        assert fl.equal(other(x), transform(x))
    assert transform.inv.inv is transform
    assert tuple(transform.forward_shape(x.shape)) == tuple(transform(x).shape)
    assert tuple(transform.inverse_shape(transform(x).shape)) == tuple(x.shape)


def test_a_cache_gives_back_what_was():
    transform = D.TanhTransform(cache_size=1)
    x = fl.full((3,), 30.0)  # tanh rounds to 1
    assert transform.inv(transform(x)) is x
    assert D.TanhTransform().inv(transform(x)).isinf().all()
    composed = D.ComposeTransform([D.TanhTransform()], cache_size=1)
    assert composed.inv(composed(x)) is x
    assert transform.with_cache(1) is transform and transform.with_cache(0)._cache_size == 0


def test_parts_side_by_side():
    t = D.CatTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)], dim=0, lengths=[2, 1])
    x = fl.tensor([0.0, 1.0, 2.0])
    assert fl.allclose(t(x), fl.tensor([1.0, np.e, 5.0])) and fl.allclose(t.inv(t(x)), x)
    assert fl.allclose(t.log_abs_det_jacobian(x, t(x)), fl.tensor([0.0, 1.0, np.log(2)]).float())
    assert t.domain.check(x).tolist() == [True] * 3
    with pytest.raises(AssertionError, match="expected 3 along axis 0"):
        t(fl.zeros(4))
    with pytest.raises(AssertionError, match="All elements of tseq must be Transform instances"):
        D.StackTransform([1])


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: D.ExpTransform(cache_size=3), "cache_size = 3; expected 0 or 1"),
        (lambda: D.ReshapeTransform((2, 3), (5,)), "different numbers of elements"),
        (lambda: D.ReshapeTransform((2, 3), (6,)).forward_shape((2, 4)), r"ends with \[2, 4\]; expected \[2, 3\]"),
        (lambda: D.StickBreakingTransform().forward_shape(()), "expected at least 1"),
        (lambda: D.CorrCholeskyTransform().forward_shape((4,)), r"4 numbers; expected n \(n - 1\) / 2"),
        (lambda: vec_to_tril_matrix(fl.zeros(4)), "no square matrix has 4 elements"),
        (lambda: tril_matrix_to_vec(fl.zeros(3, 3), 5), "diag = 5; expected -3 <= diag <= 2"),
        (lambda: broadcast_all("x"), "got a str; expected tensors and numbers"),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [1]), "transforms must be a Transform or list"),
        (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()), "expected at least 1 axes"),
        (lambda: D.StickBreakingTransform().event_dim + D.ReshapeTransform((4,), (2, 2)).event_dim, "events have 1 axes before and 2 after"),
    ],
)
def test_what_is_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize("diag", [-2, -1, 0, 1])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
def test_triangles_as_vectors(batch, diag):
    m = fl.randn(*batch, 4, 4).tril(diag)
    assert fl.equal(vec_to_tril_matrix(tril_matrix_to_vec(m, diag), diag), m)


CONSTRAINTS = [
    constraints.real, constraints.positive, constraints.nonnegative, constraints.greater_than(2.0), constraints.greater_than_eq(-1.0),
    constraints.less_than(3.0), constraints.unit_interval, constraints.interval(-2.0, 5.0), constraints.half_open_interval(1.0, 2.0),
    constraints.simplex, constraints.corr_cholesky, constraints.independent(constraints.positive, 1),
    constraints.cat([constraints.positive, constraints.real], -1, [2, 4]),
    constraints.stack([constraints.positive, constraints.less_than(0.0)] * 3, -1),
]  # fmt: skip


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
@pytest.mark.parametrize("registry", [D.biject_to, D.transform_to], ids=["biject_to", "transform_to"])
def test_registries_reach_their_constraint(registry, constraint):
    transform = registry(constraint)
    x = fl.randn(4, 6, dtype=fl.float64)
    y = transform(x)
    assert bool(constraint.check(y).all())
    z = transform.inv(y)
    np.testing.assert_allclose(transform(z).numpy(), y.numpy(), rtol=1e-6, atol=1e-9)
    if registry is D.biject_to:
        np.testing.assert_allclose(z.numpy(), x.numpy(), rtol=1e-5, atol=1e-7)
        assert transform.log_abs_det_jacobian(x, y).shape[0] == 4


def test_matrices_are_reached():
    x = fl.randn(5, 3, 3, dtype=fl.float64)
    for constraint in (constraints.lower_cholesky, constraints.positive_definite):
        transform = D.transform_to(constraint)
        assert bool(constraint.check(transform(x)).all())
        assert fl.allclose(transform(transform.inv(transform(x))), transform(x))


def test_a_registry_can_be_extended():
    class Odd(constraints.Constraint):
        pass

    with pytest.raises(NotImplementedError, match="Cannot transform Odd constraints"):
        D.biject_to(Odd())
    try:
        D.biject_to.register(Odd, lambda c: transforms.identity_transform)
        assert D.biject_to(Odd()) is transforms.identity_transform
    finally:
        del D.biject_to._registry[Odd]
    with pytest.raises(TypeError, match="expected a class of constraints"):
        D.biject_to.register(3, lambda c: None)
    with pytest.raises(NotImplementedError, match="register one"):
        D.biject_to(constraints.one_hot)


def test_dependent_constraints():
    assert constraints.is_dependent(D.Uniform.support) and D.Uniform.support.event_dim == 0
    with pytest.raises(ValueError, match="depends on other variables"):
        constraints.dependent.check(fl.zeros(1))
    with pytest.raises(NotImplementedError, match="depends on an instance"):
        _ = constraints.dependent.event_dim
    assert constraints.dependent(event_dim=2).event_dim == 2
    with pytest.raises(AssertionError, match="expected an int >= 0"):
        constraints.independent(constraints.real, -1)


def test_transformed_draws_have_the_transformed_density():
    """log p(y) of exp(-x) for x drawn of a gamma distribution, against an integral of it."""
    d = D.TransformedDistribution(D.Gamma(2.0, 1.5), [D.AffineTransform(0.0, -1.0), D.ExpTransform()])
    d._validate_args = False
    y = fl.linspace(1e-6, 1 - 1e-6, 200_001)
    assert np.trapezoid(d.log_prob(y).exp().numpy(), y.numpy()) == pytest.approx(1, abs=1e-3)
    q = fl.tensor([0.1, 0.5])
    normal = D.TransformedDistribution(D.Normal(0.0, 1.0), [D.AffineTransform(0.0, -2.0), D.ExpTransform()])
    assert fl.allclose(normal.cdf(normal.icdf(q)), q, atol=1e-6)
    assert normal.icdf(q)[0] < normal.icdf(q)[1]


def test_transforms_and_distributions_can_be_modules():
    class Scale(D.Transform, fl.nn.Module):
        domain = codomain = constraints.real
        bijective = True
        __hash__ = fl.nn.Module.__hash__

        def __init__(self):
            super().__init__()
            self.by = fl.nn.Linear(1, 1, bias=False)

        def _call(self, x):
            return x * self.by.weight[0]

        def _inverse(self, y):
            return y / self.by.weight[0]

        def log_abs_det_jacobian(self, x, y):
            return self.by.weight[0].abs().log().expand(x.shape)

    class Head(D.Distribution, fl.nn.Module):
        arg_constraints = {}

        def __init__(self):
            super().__init__(fl.Size([2]))
            self.by = fl.nn.Linear(1, 1)

    scale, x = Scale(), fl.tensor([0.5, -2.0])
    assert list(scale.state_dict()) == ["by.weight"] and fl.allclose(scale.inv(scale(x)), x)
    D.TransformedDistribution(D.Normal(0.0, 1.0), [scale]).log_prob(x).sum().backward()
    assert scale.by.weight.grad is not None
    assert Head().batch_shape == (2,) and list(Head().state_dict()) == ["by.weight", "by.bias"]
