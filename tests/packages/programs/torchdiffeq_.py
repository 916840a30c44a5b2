"""torchdiffeq: neural differential equations by several solvers, gradients through them and by the adjoint."""
import json

import torch
from torchdiffeq import odeint, odeint_adjoint


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(2, 8).double(), torch.nn.Linear(8, 2).double()

    def forward(self, t, y):
        return self.outer(torch.tanh(self.inner(y))) * torch.cos(t)


field = Field()
with torch.no_grad():
    for k, p in enumerate(field.parameters()):
        p.copy_((torch.sin(torch.arange(p.numel()).double() + k) * 0.5).view(p.shape))
start, times = torch.tensor([[1.0, -0.5]]).double(), torch.linspace(0, 2, 5).double()
out = {}
for method in ('dopri5', 'rk4', 'midpoint'):
    for name, solve in (('direct', odeint), ('adjoint', odeint_adjoint)):
        field.zero_grad()
        y = solve(field, start, times, method=method, rtol=1e-5, atol=1e-7)
        y.square().sum().backward()
        out[f'{method} {name}'] = [*y[-1].flatten().tolist(), *[p.grad.abs().sum().item() for p in field.parameters()]]
print(json.dumps(out))
