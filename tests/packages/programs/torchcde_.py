"""torchcde: paths through points with gaps, equations driven by them, gradients by the adjoint and through the solver."""
import json
import math

import torch
import torchcde

torch.set_default_dtype(torch.float64)


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(math.prod(shape)) * k).reshape(shape)


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(5, 15)
        for i, p in enumerate(self.parameters()):
            p.data = wave(*p.shape, k=0.7 + i) * 0.4

    def forward(self, t, z):
        return self.linear(z).tanh().view(*z.shape[:-1], 5, 3)


x, out = wave(4, 7, 3), {}
x[1, 2, 0] = x[2, 4, 1] = float("nan")
times = torch.linspace(0, 1, 7)
paths = {
    "linear": (torchcde.linear_interpolation_coeffs(x), torchcde.LinearInterpolation),
    "hermite": (torchcde.hermite_cubic_coefficients_with_backward_differences(x), torchcde.CubicSpline),
    "natural": (torchcde.natural_cubic_coeffs(x), torchcde.CubicSpline),
}
for name, (coefficients, kind) in paths.items():
    path = kind(coefficients)
    out[name] = [coefficients.sum().item(), path.evaluate(torch.tensor(0.4)).sum().item(), path.derivative(torch.tensor(2.3)).sum().item()]
    for adjoint, options in ((True, {"method": "midpoint", "options": {"step_size": 0.5}}), (False, {"method": "rk4", "options": {"step_size": 0.5}})):
        field, z0 = Field(), wave(4, 5, k=0.9).requires_grad_()
        z = torchcde.cdeint(X=path, func=field, z0=z0, t=path.interval, adjoint=adjoint, **options)
        z[:, -1].square().sum().backward()
        out[f"{name}, {adjoint}"] = [z.sum().item(), z0.grad.sum().item(), *(p.grad.abs().sum().item() for p in field.parameters())]
seen = torch.cat([times.expand(4, 7)[..., None], x], -1)
out["steps"] = torchcde.linear_interpolation_coeffs(seen, rectilinear=0).nan_to_num().sum().item()
out["uneven"] = torchcde.natural_cubic_coeffs(x, times**2).sum().item()
print(json.dumps(out))
