"""pyro: models fitted by guides of points, latent classes summed out, densities, flows, Gaussian processes, chains of samples."""
import json
import math

import pyro
import pyro.contrib.gp as gp
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.distributions import transforms
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate, infer_discrete
from pyro.infer.autoguide import AutoDelta, AutoIAFNormal, AutoLaplaceApproximation, AutoMultivariateNormal, init_to_value
from pyro.nn import PyroModule, PyroParam, PyroSample
from pyro.ops import stats

torch.set_default_dtype(torch.float64)


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(math.prod(shape)) * k).reshape(shape)


x, y, out = wave(20, 2), wave(20, k=0.9) * 2, {}
start = {"w": torch.ones(2), "b": torch.tensor(0.3), "s": torch.tensor(0.8)}


def line(x, y=None):
    w = pyro.sample("w", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    b, s = pyro.sample("b", dist.Normal(0.0, 5.0)), pyro.sample("s", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("seen", dist.Normal(x @ w + b, s), obs=y)


point = AutoDelta(line, init_loc_fn=init_to_value(values=start))
svi = SVI(line, point, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
out["points"] = [[svi.step(x, y) for _ in range(6)], {key: value.tolist() for key, value in point.median().items()}]
trace = poutine.trace(poutine.condition(line, start)).get_trace(x, y)
out["trace"] = [trace.log_prob_sum().item(), trace.format_shapes()]
for guide in (AutoMultivariateNormal(line), AutoIAFNormal(line), AutoLaplaceApproximation(line)):  # draws differ, shapes do not
    pyro.clear_param_store()
    svi = SVI(line, guide, pyro.optim.Adam({"lr": 0.01}), Trace_ELBO())
    fine = all(math.isfinite(svi.step(x, y)) for _ in range(2))
    drawn = {key: list(value.shape) for key, value in Predictive(line, guide=guide, num_samples=3)(x).items()}
    out[type(guide).__name__] = [fine, drawn, sorted(pyro.get_param_store().keys())]


@config_enumerate
def mixture(values):
    share = pyro.param("share", torch.tensor([0.3, 0.7]), constraint=dist.constraints.simplex)
    places = pyro.param("places", torch.tensor([-1.0, 2.0]))
    with pyro.plate("data", len(values)):
        which = pyro.sample("which", dist.Categorical(share))
        pyro.sample("seen", dist.Normal(places[which], 1.0), obs=values)


@config_enumerate
def chain(values):
    moves = pyro.param("moves", torch.tensor([[0.7, 0.3], [0.2, 0.8]]), constraint=dist.constraints.simplex)
    state = 0
    for t in pyro.markov(range(len(values))):
        state = pyro.sample(f"state{t}", dist.Categorical(moves[state]))
        pyro.sample(f"seen{t}", dist.Normal(torch.tensor([-0.5, 0.5])[state], 1.0), obs=values[t])


pyro.clear_param_store()
svi = SVI(mixture, lambda v: None, pyro.optim.ClippedAdam({"lr": 0.05}), TraceEnum_ELBO(max_plate_nesting=1))
out["mixture"] = [[svi.step(y) for _ in range(4)], pyro.param("share").tolist()]
likely = poutine.trace(infer_discrete(mixture, first_available_dim=-2, temperature=0)).get_trace(y)
svi = SVI(chain, lambda v: None, pyro.optim.Adam({"lr": 0.05}), TraceEnum_ELBO(max_plate_nesting=0))
out["classes"] = [likely.nodes["which"]["value"].tolist(), [svi.step(y[:6]) for _ in range(3)]]
for made, value in (
    (dist.BetaBinomial(2.0, 3.0, 10), torch.tensor([2.0, 7.0])), (dist.GammaPoisson(2.0, 3.0), torch.tensor([0.0, 3.0])), (dist.LKJ(3, 2.0), torch.eye(3)),
    (dist.ZeroInflatedPoisson(2.0, gate=torch.tensor(0.3)), torch.tensor([0.0, 3.0])), (dist.SkewLogistic(1.0, 2.0, 3.0), torch.tensor([0.3, 1.5])),
    (dist.MultivariateStudentT(torch.tensor(5.0), torch.zeros(3), torch.eye(3) + wave(3, 3).tril() * 0.3), wave(2, 3)), (dist.VonMises(1.0, 2.0), torch.tensor([0.3])),
    (dist.MixtureOfDiagNormals(wave(2, 3), wave(2, 3, k=0.7).abs() + 0.2, torch.zeros(2)), wave(4, 3)), (dist.ProjectedNormal(torch.tensor([1.0, 2.0])), torch.tensor([0.6, 0.8])),
    (dist.OrderedLogistic(torch.tensor(0.3), torch.tensor([-1.0, 0.0, 1.0])), torch.tensor([0, 2])), (dist.SpanningTree(wave(6)), torch.tensor([[0, 1], [1, 2], [1, 3]])),
    (dist.GaussianHMM(dist.Normal(0, 1).expand([2]).to_event(1), torch.eye(2) * 0.9, dist.Normal(0, 0.5).expand([5, 2]).to_event(1), torch.ones(2, 1),
                      dist.Normal(0, 1).expand([5, 1]).to_event(1)), wave(5, 1)), (dist.Normal(0.0, 1.0).mask(torch.tensor([True, False])), torch.tensor([0.3, 1.5])),
):  # fmt: skip
    out[type(made).__name__] = [made.log_prob(value).tolist(), list(made.sample().shape)]
for name in ("spline", "planar", "radial", "householder", "sylvester", "matrix_exponential", "affine_coupling"):
    flow = getattr(transforms, name)(*((4, [8]) if name == "affine_coupling" else (3,)))
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(flow.named_parameters())):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * 0.3)
    before = wave(5, 4 if name == "affine_coupling" else 3) * 0.5
    after = flow(before)
    out[name] = [after.sum().item(), flow.log_abs_det_jacobian(before, after).sum().item()]
process = gp.models.GPRegression(x, y, gp.kernels.Sum(gp.kernels.RBF(2, torch.tensor(1.5)), gp.kernels.Matern32(2)), noise=torch.tensor(0.5))
losses, (mean, cov) = gp.util.train(process, num_steps=3), process(wave(4, 2, k=1.3), full_cov=True)
out["process"] = [losses, mean.tolist(), cov.sum().item()]


class Layer(PyroModule):
    def __init__(self):
        super().__init__()
        self.linear = PyroModule[torch.nn.Linear](2, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 2]).to_event(2))
        self.linear.bias = PyroSample(dist.Normal(0.0, 1.0).expand([1]).to_event(1))
        self.scale = PyroParam(torch.tensor(0.5), constraint=dist.constraints.positive)

    def forward(self, x, y=None):
        mean = self.linear(x).squeeze(-1)
        with pyro.plate("data", len(x)):
            return pyro.sample("seen", dist.Normal(mean, self.scale), obs=y)


pyro.clear_param_store()
layer, values = Layer(), {"linear.weight": torch.ones(1, 2), "linear.bias": torch.zeros(1)}
svi = SVI(layer, AutoDelta(layer, init_loc_fn=init_to_value(values=values)), pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
out["layer"] = [[svi.step(x, y) for _ in range(4)], layer.scale.item(), repr(layer), sorted(layer.state_dict())]
chains = MCMC(NUTS(line), num_samples=6, warmup_steps=4, disable_progbar=True)
chains.run(x, y)
out["chains"] = {key: list(value.shape) for key, value in chains.get_samples().items()}
out["stats"] = [stats.effective_sample_size(wave(4, 50)).tolist(), stats.hpdi(wave(50), 0.8).tolist(), stats.crps_empirical(wave(10, 5), wave(5, k=0.8)).tolist()]
print(json.dumps(out))
