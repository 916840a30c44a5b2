"""gpytorch: exact regression, its parameters fitted, prediction with variances."""
import json

import gpytorch
import torch


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


x = torch.linspace(0, 1, 30).double()
y = torch.sin(6 * x) + 0.1 * torch.cos(40 * x)
likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
model = Model(x, y, likelihood).double()
model.train(), likelihood.train()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
losses = []
for _ in range(15):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
model.eval(), likelihood.eval()
with torch.no_grad():
    said = likelihood(model(torch.linspace(0, 1.2, 7).double()))
print(json.dumps({'losses': losses, 'mean': said.mean.tolist(), 'variance': said.variance.tolist()}))
