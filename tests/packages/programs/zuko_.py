"""zuko: seven flows and a mixture, trained by their log densities; what is drawn has its shape."""
import json
import math

import torch
import zuko


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(math.prod(shape), dtype=torch.float64) * k).reshape(shape)


torch.set_default_dtype(torch.float64)
x, context, out = wave(6, 3) * 0.5, wave(6, 2, k=0.9), {}
for flow in (
    zuko.flows.MAF(3, 2, transforms=2, hidden_features=(8,)),
    zuko.flows.NSF(3, 2, transforms=2, hidden_features=(8,)),
    zuko.flows.NICE(3, 2, transforms=2, hidden_features=(8,)),
    zuko.flows.SOSPF(3, 2, transforms=2, hidden_features=(8,)),
    zuko.flows.NAF(3, 2, transforms=1, hidden_features=(8,)),
    zuko.flows.UNAF(3, 2, transforms=1, hidden_features=(8,)),
    zuko.flows.CNF(3, 2, hidden_features=(8,)),
    zuko.mixtures.GMM(3, 2, components=3),
):
    for i, (_, p) in enumerate(sorted(flow.named_parameters())):
        p.data = wave(*p.shape, k=0.7 + 0.1 * i) * 0.3
    if not isinstance(flow, zuko.mixtures.GMM):  # order of a mask
        for module in flow.modules():
            if hasattr(module, "order"):
                module.order = torch.arange(3)
    step, losses = torch.optim.Adam(flow.parameters(), lr=1e-2), []
    for _ in range(3):
        step.zero_grad()
        loss = -flow(context).log_prob(x).mean()
        loss.backward()
        step.step()
        losses.append(loss.item())
    out[type(flow).__name__] = [losses, list(flow(context[0]).sample((4,)).shape)]
print(json.dumps(out))
