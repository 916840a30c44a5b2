"""Gradients of each sample by vmap over functional_call."""
import flambeau as fl
from flambeau import nn
from flambeau.func import functional_call, grad, vmap

model = nn.Linear(3, 1)
params = {name: p.detach() for name, p in model.named_parameters()}


def loss(params: dict[str, fl.Tensor], x: fl.Tensor, y: fl.Tensor) -> fl.Tensor:
    out: fl.Tensor = functional_call(model, params, (x.unsqueeze(0),))
    return ((out.squeeze() - y) ** 2).mean()


each = vmap(grad(loss), in_dims=(None, 0, 0))(params, fl.randn(5, 3), fl.randn(5))
print({name: g.shape for name, g in each.items()})
