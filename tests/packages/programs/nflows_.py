"""nflows: autoregressive and coupling transforms with splines, linear ones, trained by log densities and inverted."""
import json
import math

import torch
from nflows import distributions, transforms
from nflows.flows import Flow, MaskedAutoregressiveFlow
from nflows.nn.nets import ResidualNet
from torch import nn

torch.set_default_dtype(torch.float64)


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(math.prod(shape)) * k).reshape(shape)


def filled(model):
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(model.named_parameters())):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * (0.5 if p.ndim > 1 else 0.2))
    return model


def net(into, outof):
    return ResidualNet(into, outof, 8, context_features=2)


x, context, mask, out = wave(8, 4) * 0.9, wave(8, 2, k=0.8), torch.tensor([1, 0, 1, 0]), {}
for name, transform in {
    "affine_autoregressive": transforms.MaskedAffineAutoregressiveTransform(4, 8, context_features=2),
    "rational_autoregressive": transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(4, 8, context_features=2, num_bins=4, tails="linear", tail_bound=3.0),
    "cubic": transforms.PiecewiseCubicCouplingTransform(mask, net, num_bins=4, tails="linear"),
    "quadratic": transforms.PiecewiseQuadraticCouplingTransform(mask, net, num_bins=4, tails="linear"),
    "linear": transforms.PiecewiseLinearCouplingTransform(mask, net, num_bins=4, tails="linear"),
    "affine": transforms.AffineCouplingTransform(mask, net),
    "additive": transforms.AdditiveCouplingTransform(mask, net),
    "lu": transforms.LULinear(4),
    "qr": transforms.QRLinear(4, 3),
    "svd": transforms.SVDLinear(4, 4),
    "householder": transforms.HouseholderSequence(4, 3),
    "actnorm": transforms.ActNorm(4),
}.items():
    flow = filled(Flow(transforms.CompositeTransform([transform, transforms.ReversePermutation(4)]), distributions.StandardNormal([4])))
    step, losses = torch.optim.Adam(flow.parameters(), lr=1e-2), []
    for _ in range(3):
        step.zero_grad()
        loss = -flow.log_prob(x, context=context).mean()
        loss.backward()
        step.step()
        losses.append(loss.item())
    z, change = flow.eval()._transform(x, context)
    back, _ = flow._transform.inverse(z, context)
    out[name] = [losses, change.sum().item(), (back - x).abs().max().item() < 1e-4]
conditional = filled(distributions.ConditionalDiagonalNormal([4], context_encoder=nn.Linear(2, 8)))
out["conditional"] = [conditional.log_prob(x, context).tolist(), list(conditional.sample(3, context).shape)]
out["mixture"] = filled(distributions.MADEMoG(4, 8, 2, num_mixture_components=3)).log_prob(x, context).tolist()
out["ready"] = [filled(MaskedAutoregressiveFlow(4, 8, 2, 2)).log_prob(x).tolist()]
print(json.dumps(out))
