"""torchsde: solvers over a given path of noise, gradients through them and by the adjoint."""
import json

import torch
import torchsde


def wave(*shape, k=0.37):
    n = 1
    for size in shape:
        n *= size
    return torch.sin(torch.arange(n, dtype=torch.float64) * k).reshape(shape)


class Equation(torch.nn.Module):
    def __init__(self, noise_type, sde_type):
        super().__init__()
        self.noise_type, self.sde_type = noise_type, sde_type
        self.drift, self.spread = (torch.nn.Linear(3, n).double() for n in (3, 6 if noise_type == "general" else 3))
        for i, p in enumerate(self.parameters()):
            p.data = wave(*p.shape, k=0.7 + i) * 0.4

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        spread = self.spread(y).sigmoid()
        return spread.view(-1, 3, 2) if self.noise_type == "general" else spread


class Path(torchsde.BaseBrownian):
    """Noise whose value at each twentieth is known."""

    levy_area_approximation, dtype, device, shape = "space-time", torch.float64, torch.device("cpu"), None

    def __init__(self, size):
        self.shape, self.values = (4, size), torch.cumsum(wave(21, 4, size, k=0.77) * 0.2, 0)

    def __call__(self, ta, tb=None, return_U=False, return_A=False):
        w = self.values[round(float(tb) * 20)] - self.values[round(float(ta) * 20)]
        return (w, w * 0.1) if return_U else w

    def __repr__(self):
        return "Path"


out = {}
for noise, kind, method in (("diagonal", "ito", "euler"), ("diagonal", "ito", "milstein"), ("diagonal", "ito", "srk"), ("diagonal", "stratonovich", "midpoint"),
                            ("general", "stratonovich", "heun"), ("diagonal", "stratonovich", "reversible_heun")):  # fmt: skip
    sde, y0 = Equation(noise, kind), wave(4, 3).requires_grad_()
    ys = torchsde.sdeint(sde, y0, torch.linspace(0, 1, 5).double(), bm=Path(2 if noise == "general" else 3), method=method, dt=0.05)
    ys.square().mean().backward()
    out[method] = [ys[-1].sum().item(), y0.grad.sum().item(), *(p.grad.abs().sum().item() for p in sde.parameters())]
sde, y0 = Equation("diagonal", "stratonovich"), wave(4, 3).requires_grad_()
ys = torchsde.sdeint_adjoint(sde, y0, torch.linspace(0, 1, 3).double(), bm=Path(3), method="midpoint", dt=0.05, adjoint_method="midpoint")
ys.square().mean().backward()
out["adjoint"] = [ys[-1].sum().item(), y0.grad.sum().item(), *(p.grad.abs().sum().item() for p in sde.parameters())]
print(json.dumps(out))
