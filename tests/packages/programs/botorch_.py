"""botorch: Gaussian processes fitted by L-BFGS, acquisition functions with gradients and their maxima, several objectives."""
import json
import math
import warnings

import torch
from botorch import acquisition as acq
from botorch import test_functions
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.acquisition.multi_objective import qExpectedHypervolumeImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import KroneckerMultiTaskGP, MixedSingleTaskGP, ModelListGP, SingleTaskGP, SingleTaskMultiFidelityGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.multi_objective import Hypervolume, is_non_dominated
from botorch.utils.multi_objective.box_decompositions import DominatedPartitioning, FastNondominatedPartitioning
from botorch.utils.probability import MVNXPB
from gpytorch.mlls import ExactMarginalLogLikelihood

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(math.prod(shape)) * k).reshape(shape)


X = (wave(12, 2) + 1) / 2
Y = (X[:, :1] * 6).sin() + X[:, 1:] ** 2
both, bounds, out = torch.cat([Y, (X.sum(1, keepdim=True) * 2).cos()], 1), torch.tensor([[0.0, 0.0], [1.0, 1.0]]), {}
model = SingleTaskGP(X, Y, input_transform=Normalize(2), outcome_transform=Standardize(1))
mll = ExactMarginalLogLikelihood(model.likelihood, model)
before = mll(model(*model.train_inputs), model.train_targets).item()
fit_gpytorch_mll(mll)
model.train()
out["fit"] = [before, mll(model(*model.train_inputs), model.train_targets).item()]
model.eval()
said = model.posterior(wave(4, 2, k=1.1).abs())
out["said"] = [round(v, 2) for v in said.mean.flatten().tolist()]

model, best = SingleTaskGP(X, Y, outcome_transform=Standardize(1)).eval(), Y.max().item()


def given(sampler, count):
    """Normal numbers that both libraries have."""
    sampler.register_buffer("base_samples", wave(16, 1, count, k=1.7) * 1.4)
    return sampler


draws = {q: given(SobolQMCNormalSampler(torch.Size([16]), seed=1), q) for q in (2, 3)}
for name, function, q in (
    ("ei", acq.ExpectedImprovement(model, best), 1), ("log_ei", acq.LogExpectedImprovement(model, best), 1), ("ucb", acq.UpperConfidenceBound(model, 0.2), 1),
    ("pi", acq.ProbabilityOfImprovement(model, best), 1), ("q_ei", acq.qExpectedImprovement(model, best, draws[3]), 3),
    ("q_log_ei", qLogExpectedImprovement(model, best, draws[3]), 3), ("q_ucb", acq.qUpperConfidenceBound(model, 0.2, draws[2]), 2),
    ("variance", acq.qNegIntegratedPosteriorVariance(model, mc_points=X), 2),
):  # fmt: skip
    x = wave(3, q, 2, k=0.9).abs().requires_grad_()
    value = function(x)
    out[name] = [value.tolist(), torch.autograd.grad(value.sum(), x)[0].abs().sum().item()]
start = wave(2, 1, 2, k=0.6).abs()
place, value = optimize_acqf(acq.LogExpectedImprovement(model, best), bounds, q=1, num_restarts=2, batch_initial_conditions=start)
out["maximum"] = [[round(v, 3) for v in place.flatten().tolist()], round(value.item(), 3)]
start = wave(1, 2, 2, k=0.5).abs() / 2
place, value = optimize_acqf(qLogExpectedImprovement(model, best, draws[2]), bounds, q=2, num_restarts=1, batch_initial_conditions=start, options={"maxiter": 5},
                             inequality_constraints=[(torch.tensor([0, 1]), torch.tensor([-1.0, -1.0]), -1.5)])  # fmt: skip
out["constrained"] = [list(place.shape), bool((place.sum(-1) < 1.5 + 1e-6).all())]
kinds = (torch.arange(12) % 2)[:, None].double()
for name, made, width in (
    ("two", SingleTaskGP(X, both), 2), ("list", ModelListGP(SingleTaskGP(X, Y), SingleTaskGP(X, both[:, 1:])), 2), ("noise", SingleTaskGP(X, Y, torch.full_like(Y, 0.01)), 2),
    ("mixed", MixedSingleTaskGP(torch.cat([X, kinds], 1), Y, cat_dims=[2]), 3), ("fidelity", SingleTaskMultiFidelityGP(X, Y, data_fidelities=[1]), 2),
    ("tasks", KroneckerMultiTaskGP(X, both), 2),
):  # fmt: skip
    if name == "tasks":
        made.covar_module.task_covar_module.covar_factor.data, made.covar_module.task_covar_module.raw_var.data = wave(2, 2, k=0.8), wave(2)
    place = wave(4, width, k=0.6).abs()
    said = made.eval().posterior(place.round() if name == "mixed" else place)
    out[name] = [said.mean.sum().item(), said.variance.sum().item(), list(said.rsample(torch.Size([3])).shape)]
least = torch.tensor([-1.0, -1.0])
sampler = SobolQMCNormalSampler(torch.Size([8]), seed=1)
sampler.register_buffer("base_samples", wave(8, 1, 2, 2, k=1.3))
improvement = qExpectedHypervolumeImprovement(SingleTaskGP(X, both).eval(), least, FastNondominatedPartitioning(least, both), sampler)
x = wave(3, 2, 2, k=0.9).abs().requires_grad_()
value, front = improvement(x), is_non_dominated(both)
out["objectives"] = [value.tolist(), torch.autograd.grad(value.sum(), x)[0].abs().sum().item(), front.tolist(), Hypervolume(least).compute(both[front]),
                     DominatedPartitioning(least, both).compute_hypervolume().item()]  # fmt: skip
out["box"] = MVNXPB(torch.eye(3) * 1.2 + 0.3, torch.stack([-torch.ones(3), torch.ones(3) * 0.7], -1)).solve().item()
out["functions"] = [f(wave(3, f.dim, k=0.7).abs()).tolist() for f in (test_functions.Branin(), test_functions.Hartmann(6), test_functions.DTLZ2(4))]
print(json.dumps(out))
