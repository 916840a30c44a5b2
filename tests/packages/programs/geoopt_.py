"""geoopt: parameters on manifolds, their optimizers, distances with gradients."""
import json

import geoopt
import torch


def wave(*shape, k=0.37):
    n = 1
    for size in shape:
        n *= size
    return torch.sin(torch.arange(n, dtype=torch.float64) * k).reshape(shape)


out = {}
for name, manifold, rule in (
    ("stiefel", geoopt.Stiefel(), lambda p: geoopt.optim.RiemannianAdam(p, lr=0.02)),
    ("euclidean_stiefel", geoopt.EuclideanStiefel(), lambda p: geoopt.optim.RiemannianSGD(p, lr=0.02, momentum=0.9)),
    ("sphere", geoopt.Sphere(), lambda p: geoopt.optim.RiemannianAdam(p, lr=0.02, amsgrad=True)),
):
    point = geoopt.ManifoldParameter(manifold.projx(wave(6, 3) + torch.eye(6, 3)), manifold=manifold)
    step, losses = rule([point]), []
    for _ in range(10):
        step.zero_grad()
        loss = (point - wave(6, 3, k=0.9)).square().sum()
        loss.backward()
        step.step()
        losses.append(loss.item())
    out[name] = [losses, manifold.check_point_on_manifold(point), repr(point).splitlines()[0], point.sum().item()]


class Embedding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ball = geoopt.PoincareBall(c=1.0, learnable=True)
        self.points = geoopt.ManifoldParameter(self.ball.expmap0(wave(5, 4) * 0.3), manifold=self.ball)

    def forward(self):
        return self.ball.dist(self.points[:, None], self.points[None]).square()[torch.ones(5, 5).triu(1) > 0].mean()


model = Embedding()
step, losses = geoopt.optim.RiemannianAdam(model.parameters(), lr=1e-2, stabilize=2), []
for _ in range(6):
    step.zero_grad()
    loss = model()
    loss.backward()
    step.step()
    losses.append(loss.item())
out["poincare"] = [losses, sorted(model.state_dict()), model.points.sum().item()]
x, y = (model.ball.expmap0(wave(5, 4, k=k) * 0.4).detach().requires_grad_() for k in (0.7, 1.1))
distance = model.ball.dist(x, y)
out["distance"] = [distance.sum().item(), torch.autograd.grad(distance.sum(), x)[0].abs().sum().item(), model.ball.mobius_add(x, y).sum().item()]
both = geoopt.ProductManifold((geoopt.Sphere(), 3), (geoopt.PoincareBall(), 2), (geoopt.Euclidean(1), 4))
out["product"] = [both.dist2(both.projx(wave(2, 9)), both.projx(wave(2, 9, k=1.3) * 0.5)).sum().item()]
print(json.dumps(out))
