"""Distributions against SciPy: draws by tests of fit, densities, distribution functions, quantiles, entropies, moments."""

import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st
from support.distributions import PARAMETERS, make, parameters

import flambeau as fl
from flambeau import distributions as D

N = 40_000

# A distribution of SciPy's with the same parameters.
CONTINUOUS = {
    "Beta": lambda concentration1, concentration0: st.beta(concentration1, concentration0),
    "Cauchy": lambda loc, scale: st.cauchy(loc, scale),
    "Chi2": lambda df: st.chi2(df),
    "Exponential": lambda rate: st.expon(scale=1 / rate),
    "FisherSnedecor": lambda df1, df2: st.f(df1, df2),
    "Gamma": lambda concentration, rate: st.gamma(concentration, scale=1 / rate),
    "GeneralizedPareto": lambda loc, scale, concentration: st.genpareto(concentration, loc, scale),
    "Gumbel": lambda loc, scale: st.gumbel_r(loc, scale),
    "HalfCauchy": lambda scale: st.halfcauchy(scale=scale),
    "HalfNormal": lambda scale: st.halfnorm(scale=scale),
    "InverseGamma": lambda concentration, rate: st.invgamma(concentration, scale=rate),
    "Laplace": lambda loc, scale: st.laplace(loc, scale),
    "LogNormal": lambda loc, scale: st.lognorm(scale, scale=np.exp(loc)),
    "Normal": lambda loc, scale: st.norm(loc, scale),
    "Pareto": lambda scale, alpha: st.pareto(alpha, scale=scale),
    "StudentT": lambda df, loc, scale: st.t(df, loc, scale),
    "Uniform": lambda low, high: st.uniform(low, high - low),
    "VonMises": lambda loc, concentration: st.vonmises(concentration, loc),
    "Weibull": lambda scale, concentration: st.weibull_min(concentration, scale=scale),
}
DISCRETE = {
    "Bernoulli": lambda probs: st.bernoulli(probs),
    "Binomial": lambda total_count, probs: st.binom(total_count, probs),
    "Geometric": lambda probs: st.geom(probs, -1),
    "NegativeBinomial": lambda total_count, probs: st.nbinom(total_count, 1 - probs),
    "Poisson": lambda rate: st.poisson(rate),
}
SCIPY = {**CONTINUOUS, **DISCRETE}


def pair(name, seed, batch=()):
    ours, given = make(name, batch, seed, fl)
    return ours, SCIPY[name](**{k: v.numpy() if isinstance(v, fl.Tensor) else v for k, v in given.items()})


def close(got, want, rtol=1e-9):
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", list(CONTINUOUS))
def test_draws_fit(name, seed):
    ours, law = pair(name, seed)
    fl.manual_seed(100 + seed)
    draws = ours.sample((N,)).numpy()
    if name == "VonMises":  # an angle has no order: from loc - pi on
        loc = ours.loc.item()
        draws = (draws - loc + np.pi) % (2 * np.pi) - np.pi
        law = st.vonmises(ours.concentration.item())
    assert st.kstest(draws, law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", list(DISCRETE))
def test_counts_fit(name, seed):
    ours, law = pair(name, seed)
    fl.manual_seed(200 + seed)
    draws = ours.sample((N,)).numpy()
    _check_counts(draws, law)


def _check_counts(draws, law):
    """A chi-square test over the values that are expected at least ten times, and the rest."""
    values = np.arange(int(law.ppf(1e-9)), int(law.ppf(1 - 1e-9)) + 2)
    expected = law.pmf(values) * len(draws)
    often = expected >= 10
    observed = np.array([(draws == v).sum() for v in values[often]])
    observed = np.append(observed, len(draws) - observed.sum())
    want = np.append(expected[often], max(len(draws) - expected[often].sum(), 1e-9))
    if want[-1] < 5:
        observed, want = observed[:-1], want[:-1] * observed[:-1].sum() / want[:-1].sum()
    assert len(want) < 2 or st.chisquare(observed, want, sum_check=False).pvalue > 1e-3


@pytest.mark.parametrize("n, p", [(1, 0.3), (50, 0.1), (40, 0.5), (1000, 0.7), (100_000, 0.4), (30, 0.99), (10**6, 1e-6)])
def test_binomial_draws_fit(n, p):
    fl.manual_seed(7)
    draws = fl.binomial(fl.full((N,), float(n), dtype=fl.float64), fl.tensor(p, dtype=fl.float64)).numpy()
    law = st.binom(n, p)
    if n <= 1000:
        return _check_counts(draws, law)
    edges = np.unique(law.ppf(np.linspace(0.001, 0.999, 30)))
    observed = np.diff(np.searchsorted(np.sort(draws), edges, side="right"))
    expected = np.diff(law.cdf(edges)) * N
    assert st.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-3


def test_binomial_draws_of_all_that_is_a_number():
    count = fl.tensor([0.0, 5.0, 5.0, float("inf"), 1e300, 2.0**60], dtype=fl.float64)
    prob = fl.tensor([0.5, 0.0, 1.0, 0.5, 0.5, 0.25], dtype=fl.float64)
    got = fl.binomial(count, prob).tolist()
    assert got[:4] == [0.0, 0.0, 5.0, float("inf")] and got[4] == pytest.approx(5e299) and got[5] == pytest.approx(2.0**58, rel=1e-6)
    assert fl.binomial(fl.empty(0, 3), fl.empty(0, 3)).shape == (0, 3)


def test_angles_of_what_is_no_number_are_none():
    d = D.VonMises(fl.tensor([0.0, 0.0]), fl.tensor([float("nan"), 1.0]), validate_args=False)
    assert d.sample().isnan().tolist() == [True, False]


def test_von_mises_of_any_concentration_ends():
    """The proposal's width vanishes beside 1 where the concentration is huge: nothing would ever be taken."""
    fl.manual_seed(0)
    concentration = fl.tensor([2.0**62, 9e8, float("inf"), 0.99e8], dtype=fl.float64)
    draws = D.VonMises(fl.zeros(4, dtype=fl.float64), concentration).sample((20_000,))
    np.testing.assert_allclose(draws.std(0).numpy(), concentration.rsqrt().numpy(), rtol=0.03)


@pytest.mark.parametrize("a", [1e-3, 0.03, 0.4, 1.0, 1.7, 30.0, 1e4])
def test_gamma_draws_fit(a):
    fl.manual_seed(8)
    draws = D.Gamma(fl.tensor(a, dtype=fl.float64), 1.0).sample((N,)).numpy()
    assert (draws > 0).all()
    assert st.kstest(draws[draws > 1e-300], lambda x: st.gamma(a).cdf(x)).pvalue > 1e-3 or a < 0.01
    # far below 1 nearly all draws are tiny: those above a bound fit
    share = (draws > 0.1).mean()
    want = st.gamma(a).sf(0.1)
    assert abs(share - want) < 4 * np.sqrt(want * (1 - want) / N) + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("concentration", [[1e-3, 1e-3, 2e-3], [0.5, 1.5, 7.0], [100.0, 300.0, 20.0]])
def test_dirichlet_draws_fit(concentration):
    fl.manual_seed(9)
    a = fl.tensor(concentration, dtype=fl.float64)
    draws = D.Dirichlet(a).sample((N,)).numpy()
    np.testing.assert_allclose(draws.sum(-1), 1)
    for i in range(3):
        mean = concentration[i] / sum(concentration)
        spread = np.sqrt(mean * (1 - mean) / (sum(concentration) + 1) / N)
        assert abs(draws[:, i].mean() - mean) < 4 * spread
        if concentration[i] > 0.1:
            assert st.kstest(draws[:, i], st.beta(concentration[i], sum(concentration) - concentration[i]).cdf).pvalue > 1e-3


def test_draws_are_the_same_bits_for_a_seed_and_differ_between_calls():
    d = D.Gamma(fl.tensor([0.3, 4.0]), 1.0)
    fl.manual_seed(3)
    a, b = d.sample((1000,)), d.sample((1000,))
    fl.manual_seed(3)
    assert fl.equal(a, d.sample((1000,))) and not fl.equal(a, b)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", list(SCIPY))
def test_log_prob_entropy_and_moments(name, seed):
    ours, law = pair(name, seed, (5,))
    x = law.rvs(size=(4, 5), random_state=seed)
    want = law.logpdf(x) if name in CONTINUOUS else law.logpmf(x)
    close(ours.log_prob(fl.tensor(np.asarray(x, dtype=np.float64))), want, 1e-8)
    for what in ("mean", "variance"):
        value = getattr(ours, what)
        if name == "VonMises":  # circular ones
            k = ours.concentration.numpy()
            close(value, ours.loc.numpy() if what == "mean" else 1 - sp.ive(1, k) / sp.ive(0, k))
            continue
        expected = {"mean": law.mean, "variance": law.var}[what]()
        finite = np.isfinite(expected) & ~(np.isnan(value.numpy()) | np.isinf(value.numpy()))
        assert finite.any() or name in ("Cauchy", "HalfCauchy", "StudentT", "FisherSnedecor", "Pareto", "InverseGamma")
        np.testing.assert_allclose(value.numpy()[finite], expected[finite], rtol=1e-7)
    try:
        entropy = ours.entropy()
    except NotImplementedError:
        return
    if name != "Poisson":
        close(entropy, law.entropy(), 1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [n for n in CONTINUOUS if n not in ("Beta", "FisherSnedecor", "StudentT", "VonMises")])
def test_distribution_functions_and_quantiles(name, seed):
    ours, law = pair(name, seed, (5,))
    q = np.random.default_rng(seed).uniform(0.001, 0.999, (4, 5))
    x = law.ppf(q)
    close(ours.cdf(fl.tensor(x)), q, 1e-8)
    try:
        quantiles = ours.icdf(fl.tensor(q))
    except NotImplementedError:
        assert name in ("Gamma", "Chi2", "InverseGamma")
        return
    np.testing.assert_allclose(quantiles.numpy(), x, rtol=1e-7, atol=1e-9)


def test_uniform_has_its_end_beside_it():
    d = D.Uniform(0.0, 1.0)
    assert d.log_prob(fl.tensor([0.0, 0.5])).tolist() == [0.0, 0.0] and d.log_prob(fl.tensor(1.0)).item() == -np.inf


def test_multivariate_normal_against_scipy():
    given = parameters("MultivariateNormal", (), 4, fl)
    d = D.MultivariateNormal(**given)
    law = st.multivariate_normal(given["loc"].numpy(), given["covariance_matrix"].numpy())
    x = law.rvs(6, random_state=0)
    close(d.log_prob(fl.tensor(x)), law.logpdf(x))
    close(d.entropy(), law.entropy())
    close(d.precision_matrix, np.linalg.inv(given["covariance_matrix"].numpy()))
    draws = d.sample((N,)).numpy()
    np.testing.assert_allclose(np.cov(draws.T), given["covariance_matrix"].numpy(), atol=0.1)
    whitened = np.linalg.solve(d.scale_tril.numpy(), (draws - given["loc"].numpy()).T)
    assert all(st.kstest(row, "norm").pvalue > 1e-3 for row in whitened)


def test_low_rank_is_multivariate_normal():
    d = D.LowRankMultivariateNormal(**parameters("LowRankMultivariateNormal", (2,), 1, fl))
    whole = D.MultivariateNormal(d.loc, d.covariance_matrix)
    x = fl.randn(4, 2, 3, dtype=fl.float64)
    close(d.log_prob(x), whole.log_prob(x).numpy())
    close(d.entropy(), whole.entropy().numpy())
    close(d.scale_tril, whole.scale_tril.numpy())
    close(d.precision_matrix, whole.precision_matrix.numpy())
    np.testing.assert_allclose(np.cov(d.sample((N,)).numpy()[:, 0].T), d.covariance_matrix[0].numpy(), atol=0.15)


@pytest.mark.slow
def test_wishart_against_scipy():
    given = parameters("Wishart", (), 3, fl)
    d = D.Wishart(**given)
    law = st.wishart(given["df"].item(), given["covariance_matrix"].numpy())
    x = law.rvs(5, random_state=1)
    close(d.log_prob(fl.tensor(x)), [law.logpdf(v) for v in x])
    close(d.entropy(), law.entropy())
    close(d.mean, law.mean())
    close(d.variance, law.var())
    np.testing.assert_allclose(d.sample((N,)).mean(0).numpy(), law.mean(), rtol=0.1, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("eta", [0.5, 1.0, 4.0])
def test_lkj_correlations_are_beta(eta):
    """A correlation r of an LKJ matrix [n, n] has (r + 1) / 2 ~ Beta(eta - 1 + n / 2, the same)."""
    lower = D.LKJCholesky(4, fl.tensor(eta, dtype=fl.float64)).sample((N,))
    matrices = (lower @ lower.mT).numpy()
    a = eta - 1 + 4 / 2
    for i, j in ((1, 0), (3, 0), (3, 2)):
        assert st.kstest((matrices[:, i, j] + 1) / 2, st.beta(a, a).cdf).pvalue > 1e-3


def test_lkj_density_integrates_to_one():
    """Of [2, 2] matrices: the factor is (r, sqrt(1 - r^2)), so the density of r has no other Jacobian."""
    r = np.linspace(-1, 1, 20_001)[1:-1]
    factors = np.zeros((len(r), 2, 2))
    factors[:, 0, 0], factors[:, 1, 0], factors[:, 1, 1] = 1, r, np.sqrt(1 - r * r)
    density = D.LKJCholesky(2, fl.tensor(2.5, dtype=fl.float64), validate_args=False).log_prob(fl.tensor(factors)).exp().numpy()
    assert np.trapezoid(density, r) == pytest.approx(1, abs=1e-3)


def test_categorical_counts_fit():
    probs = fl.tensor([[0.1, 0.0, 0.6, 0.3], [0.25, 0.25, 0.25, 0.25]], dtype=fl.float64)
    draws = D.Categorical(probs).sample((N,)).numpy()
    assert draws.shape == (N, 2) and draws.dtype == np.int64
    for i in range(2):
        observed, expected = np.bincount(draws[:, i], minlength=4), probs[i].numpy() * N
        kept = expected > 0
        assert observed[~kept].sum() == 0 and st.chisquare(observed[kept], expected[kept]).pvalue > 1e-3


def test_multinomial_against_scipy():
    probs = np.array([0.2, 0.5, 0.3])
    d, law = D.Multinomial(5, fl.tensor(probs)), st.multinomial(5, probs)
    x = law.rvs(10, random_state=0)
    close(d.log_prob(fl.tensor(x.astype(np.float64))), law.logpmf(x))
    close(d.entropy(), law.entropy(), 1e-7)
    draws = d.sample((N,))
    assert draws.sum(-1).unique().tolist() == [5.0]
    np.testing.assert_allclose(np.cov(draws.numpy().T), law.cov(), atol=0.05)


def test_mixture_of_normals():
    weights, loc, scale = np.array([0.2, 0.8]), np.array([-2.0, 1.0]), np.array([0.5, 1.5])
    d = D.MixtureSameFamily(D.Categorical(fl.tensor(weights)), D.Normal(fl.tensor(loc), fl.tensor(scale)))
    x = np.linspace(-4, 4, 9)
    close(d.log_prob(fl.tensor(x)), np.log((weights * st.norm(loc, scale).pdf(x[:, None])).sum(-1)))
    close(d.cdf(fl.tensor(x)), (weights * st.norm(loc, scale).cdf(x[:, None])).sum(-1))
    draws = d.sample((N,)).numpy()
    assert st.kstest(draws, lambda v: (weights * st.norm(loc, scale).cdf(np.asarray(v)[:, None])).sum(-1)).pvalue > 1e-3
    assert d.mean.item() == pytest.approx((weights * loc).sum())
    assert d.variance.item() == pytest.approx(draws.var(), rel=0.03)


def test_kumaraswamy_mode_is_where_the_density_is_largest():
    d = D.Kumaraswamy(fl.tensor(2.5, dtype=fl.float64), fl.tensor(4.0, dtype=fl.float64))
    x = fl.linspace(0.001, 0.999, 9999, dtype=fl.float64)
    assert d.mode.item() == pytest.approx(x[d.log_prob(x).argmax()].item(), abs=1e-3)


@pytest.mark.parametrize("name", list(PARAMETERS))
def test_expand_and_repr(name):
    d, _ = make(name, (2,), 0, fl)
    wide = d.expand((3, 2))
    assert wide.batch_shape == (3, 2) and wide.event_shape == d.event_shape and type(wide) is type(d)
    assert repr(d).startswith(type(d).__name__)
    assert wide.sample((4,)).shape == (4, 3, 2, *d.event_shape)
    assert d.sample((0,)).shape == (0, 2, *d.event_shape)


def test_a_subclass_with_an_init_must_expand_itself():
    class Odd(D.Normal):
        def __init__(self):
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match="Odd has an __init__ of its own, unlike its base Normal"):
        Odd().expand((2,))

    class Plain(D.Normal):
        pass

    assert type(Plain(0.0, 1.0).expand((2,))) is Plain


def test_a_base_that_fits_is_not_asked_to_expand():
    class Odd(D.Normal):
        def __init__(self, at):
            super().__init__(at, 1.0)

    base = Odd(fl.zeros(3))
    moved = D.TransformedDistribution(base, [D.AffineTransform(1.0, 2.0)])
    assert moved.base_dist is base and moved.batch_shape == (3,)
    with pytest.raises(NotImplementedError, match="expected an expand of its own"):
        D.TransformedDistribution(base, [D.AffineTransform(fl.zeros(2, 1), 2.0)])


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: D.Normal(0.0, fl.tensor([1.0, -1.0])), r"Expected parameter scale of shape \[2\] to satisfy the constraint GreaterThan\(lower_bound=0\.0\)"),
        (lambda: D.Normal(0.0, 1.0).log_prob(fl.tensor(float("nan"))), r"Expected value argument of shape \[\] to be within the support"),
        (lambda: D.Normal(fl.zeros(3), 1.0).log_prob(fl.zeros(2)), r"shape \[2\]; expected one that broadcasts with \[3\]"),
        (lambda: D.Normal(0.0, 1.0).log_prob(1.0), "The value argument to log_prob must be a Tensor"),
        (lambda: D.Normal(0.0, 1.0).enumerate_support(), "Normal does not define enumerate_support"),
        (lambda: D.Bernoulli(0.5, 0.0), "Either `probs` or `logits` must be specified"),
        (lambda: D.Dirichlet(fl.tensor(1.0)), "`concentration` parameter must be at least one-dimensional"),
        (lambda: D.Binomial(fl.tensor([1.0, 2.0]), 0.5).entropy(), "one count in all batches"),
        (lambda: D.Wishart(1.0, fl.eye(3)), r"Value of df=1\.0 expected to be greater than ndim - 1 = 2"),
        (lambda: D.LKJCholesky(1), r"Expected dim to be an integer greater than or equal to 2\. Found dim=1"),
        (lambda: D.LKJCholesky(1.5), r"Expected dim to be an integer greater than or equal to 2\. Found dim=1\.5"),
        (lambda: D.MultivariateNormal(fl.zeros(2), fl.eye(2), fl.eye(2)), "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified"),
        (lambda: D.Independent(D.Normal(0.0, 1.0), 1), "the base has 0 batch axes"),
        (lambda: D.MixtureSameFamily(D.Categorical(fl.ones(2)), D.Normal(fl.zeros(3), 1.0)), "`mixture_distribution component`"),
        (lambda: D.register_kl(3, D.Normal), "type_p = 3; expected a class of distributions"),
        (lambda: D.Distribution.set_default_validate_args("yes"), "expected True or False"),
        (lambda: D.GeneralizedPareto(0.0, -1.0, 0.0), "parameter scale"),
        (lambda: fl.binomial(fl.tensor([-1.0]), fl.tensor([0.5])), "count has an element -1"),
        (lambda: fl.binomial(fl.tensor([1.0]), fl.tensor([1.5])), r"between 0 and 1, but prob\[0\] = 1.5"),
        (lambda: fl.binomial(fl.tensor([1.0]), fl.tensor([0.5], dtype=fl.float64)), "expected one type"),
    ],
)
def test_what_is_refused(call, text):
    with pytest.raises((ValueError, NotImplementedError, TypeError), match=text):
        call()


def test_checks_can_be_turned_off():
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale.item() == -1
    finally:
        D.Distribution.set_default_validate_args(True)


def test_names_of_arguments_are_those_of_pytorch():
    half = fl.tensor(0.5)
    assert D.HalfNormal(1.0).icdf(prob=half).item() == pytest.approx(st.halfnorm.ppf(0.5), rel=1e-5)
    assert D.HalfCauchy(1.0).icdf(prob=half).item() == pytest.approx(1.0)
    two = D.MixtureSameFamily(D.Categorical(fl.ones(2)), D.Normal(fl.tensor([0.0, 0.0]), 1.0))
    assert two.cdf(x=fl.tensor(0.0)).item() == pytest.approx(0.5)
    assert two.log_prob(x=fl.tensor(0.0)).item() == pytest.approx(st.norm.logpdf(0.0), rel=1e-5)
    assert D.constraints.multinomial(3).check(x=fl.tensor([1.0, 2.0])).item()
    with pytest.raises(ValueError, match="depends on other variables"):
        D.constraints.dependent.check(x=half)
    transform, x = D.CorrCholeskyTransform(), fl.zeros(3)
    y = transform(x)
    assert transform.log_abs_det_jacobian(x, y, None).item() == transform.log_abs_det_jacobian(x, y).item()


def test_the_factors_under_pytorchs_names():
    """Subclasses of programs read and replace them."""
    a = fl.randn(3, 3, dtype=fl.float64)
    covariance = a @ a.mT + fl.eye(3, dtype=fl.float64)

    class Later(D.MultivariateNormal):
        @property
        def _unbroadcasted_scale_tril(self):
            return fl.linalg.cholesky(covariance)

        @_unbroadcasted_scale_tril.setter
        def _unbroadcasted_scale_tril(self, value):
            self.kept = value

    x, loc = fl.randn(5, 3, dtype=fl.float64), fl.zeros(3, dtype=fl.float64)
    plain = D.MultivariateNormal(loc, covariance)
    assert fl.allclose(plain._unbroadcasted_scale_tril, fl.linalg.cholesky(covariance))
    later = Later(loc, scale_tril=fl.eye(3, dtype=fl.float64))
    assert fl.allclose(later.log_prob(x), plain.log_prob(x)) and fl.equal(later.kept, fl.eye(3, dtype=fl.float64))
    wide = plain.expand((2, 5))
    assert wide._unbroadcasted_scale_tril is plain._unbroadcasted_scale_tril and fl.allclose(wide.log_prob(x), plain.log_prob(x).expand(2, 5))
    low = D.LowRankMultivariateNormal(loc, a[:, :2], fl.ones(3, dtype=fl.float64)).expand((4,))
    assert low._unbroadcasted_cov_factor.shape == (3, 2) and low._unbroadcasted_cov_diag.shape == (3,) and low._capacitance_tril.shape == (2, 2)
    assert D.Wishart(fl.tensor(4.0).double(), covariance)._unbroadcasted_scale_tril.shape == (3, 3)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: D.Dirichlet("x"), "Dirichlet: concentration is a str; expected a Tensor"),
        (lambda: D.Categorical([0.5, 0.5]), "Categorical: probs is a list; expected a Tensor"),
        (lambda: D.Categorical(logits=1.0), "Categorical: logits is a float"),
        (lambda: D.MultivariateNormal(0.0, fl.eye(2)), "MultivariateNormal: loc is a float"),
        (lambda: D.MultivariateNormal(fl.zeros(2), scale_tril=1.0), "MultivariateNormal: scale_tril is a float"),
        (lambda: D.LowRankMultivariateNormal(fl.zeros(2), fl.ones(2, 1), 1.0), "LowRankMultivariateNormal: cov_diag is a float"),
        (lambda: D.Wishart("x", fl.eye(2)), "Wishart: df is a str"),
        (lambda: D.Independent(3, 1), "Independent: base_distribution is a int; expected a Distribution"),
        (lambda: D.TransformedDistribution(3, []), "TransformedDistribution: base_distribution is a int"),
    ],
)
def test_what_is_no_tensor_or_distribution_is_named(call, text):
    for error in (TypeError, AttributeError):  # the second is what PyTorch raises
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: D.Independent(D.Normal(fl.zeros(2), 1.0), "x"), "Independent: reinterpreted_batch_ndims = 'x'; expected an int"),
        (lambda: D.LKJCholesky("x"), "LKJCholesky: dim = 'x' is a str; expected an int"),
        (lambda: D.Normal(0.0, 1.0).sample(3), "Normal: sample_shape = 3 is a int; expected a tuple of sizes"),
        (lambda: D.LogisticNormal(fl.zeros(3), fl.ones(3)).sample(1.0), "Independent: sample_shape = 1.0 is a float; expected a tuple of sizes"),
        (lambda: D.MixtureSameFamily(D.Categorical(fl.ones(3)), D.Normal(fl.zeros(3), 1)).sample(2), "MixtureSameFamily: sample_shape = 2 is a int"),
        (lambda: D.Categorical(fl.ones(3)).sample("a"), "Categorical: sample_shape = 'a' is a str; expected a tuple of sizes"),
        (lambda: D.Multinomial(2, fl.ones(3)).sample(1.0), "Multinomial: sample_shape = 1.0 is a float; expected a tuple of sizes"),
    ],
)
def test_numbers_and_shapes_of_other_types_are_named(call, text):
    with pytest.raises(TypeError, match=text):
        call()


def test_the_density_of_a_gamma_takes_numbers():
    assert D.Gamma(2.0, 3.0).log_prob(0.5).item() == pytest.approx(st.gamma.logpdf(0.5, 2, scale=1 / 3), rel=1e-5)
    assert D.Chi2(fl.tensor(3.0, dtype=fl.float64)).log_prob(2).item() == pytest.approx(st.chi2.logpdf(2, 3), rel=1e-12)
    with pytest.raises(ValueError, match="support"):
        D.Gamma(2.0, 3.0).log_prob(-1)


def test_values_of_another_float_type_than_the_parameters():
    x = fl.tensor([0.5, 2.0], dtype=fl.float64)
    assert D.Chi2(1).cdf(x).dtype is fl.float64  # as products are
    np.testing.assert_allclose(D.Chi2(1).cdf(x).numpy(), st.chi2.cdf([0.5, 2.0], 1), rtol=1e-6)
    for d, want in ((D.HalfCauchy(1.0), st.halfcauchy), (D.Gamma(1.0, 1.0), st.expon)):
        found = d.log_prob(x)
        assert found.dtype is fl.float32  # the parameters' type
        np.testing.assert_allclose(found.numpy(), want.logpdf([0.5, 2.0]), rtol=1e-6)
    assert D.HalfCauchy(1.0).log_prob(fl.tensor(True)).item() == pytest.approx(st.halfcauchy.logpdf(1), rel=1e-6)


@pytest.mark.slow
def test_arguments_are_checked_inside_of_vmap():
    loc, scale, x = fl.tensor([0.0, 1.0]), fl.tensor([1.0, 2.0]), fl.tensor([0.5, -1.0])
    found = fl.vmap(lambda m, s, v: D.Normal(m, s).log_prob(v))(loc, scale, x)
    np.testing.assert_allclose(found.numpy(), st.norm([0.0, 1.0], [1.0, 2.0]).logpdf([0.5, -1.0]), rtol=1e-6)
    table = fl.vmap(lambda s: fl.vmap(lambda v: D.Exponential(s).log_prob(v))(x.abs()))(scale)  # one level inside of another
    np.testing.assert_allclose(table.numpy(), st.expon(scale=[[1.0], [0.5]]).logpdf([[0.5, 1.0]]), rtol=1e-6)
    with pytest.raises(ValueError, match=r"parameter scale .*: scale\[1\] = -1 \(1 of 2\)"):
        fl.vmap(lambda s: D.Normal(0.0 * s, s).mean)(fl.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"value\[0\] = nan"):
        fl.vmap(lambda v: D.Normal(0.0, 1.0).log_prob(v))(fl.tensor([float("nan"), 1.0]))


def test_a_temperature_is_a_number_or_a_tensor():
    class Liar:
        def __float__(self):
            raise ValueError("no number")

    for kind in (D.RelaxedBernoulli, D.RelaxedOneHotCategorical):
        with pytest.raises(TypeError, match="temperature = .* is a Liar; expected a number or a Tensor"):
            kind(Liar(), probs=fl.tensor([0.4, 0.6]))
        assert kind(np.float32(0.5), probs=fl.tensor([0.4, 0.6])).rsample().shape == (2,)
