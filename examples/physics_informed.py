"""A physics-informed network: it solves a differential equation by being trained to fulfil it (Raissi et al. 2019).

u(t, x) is a network; Burgers' equation u_t + u u_x = nu u_xx is a loss, with derivatives of the network by its inputs at random
points: gradients by `grad`, the second by `jvp` of `grad`, for one point, and `vmap` over all points. The values at t = 0 and at the
borders are a second loss.

    python examples/physics_informed.py
"""

import argparse
import math

import flambeau as fl
from flambeau import nn
from flambeau.func import functional_call, grad, grad_and_value, jvp, vmap

NU = 0.05


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--points", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    fl.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    parameters = dict(model.named_parameters())
    optimizer = fl.optim.Adam(model.parameters(), lr=3e-3)

    def u(p, t, x):
        return functional_call(model, p, (fl.stack([t, x]),))[0]

    def residual(p, t, x):
        """How far one point is from the equation."""
        u_t = grad(u, argnums=1)(p, t, x)
        u_x, u_xx = jvp(lambda z: grad(u, argnums=2)(p, t, z), (x,), (fl.ones_like(x),))
        return u_t + u(p, t, x) * u_x - NU * u_xx

    def loss(p, t, x, border_x):
        inside = vmap(residual, in_dims=(None, 0, 0))(p, t, x)
        zero = fl.zeros_like(border_x)
        begin = vmap(u, in_dims=(None, 0, 0))(p, zero, border_x) + fl.sin(math.pi * border_x)
        left, right = (vmap(u, in_dims=(None, 0, 0))(p, t, zero + side) for side in (-1, 1))
        return inside.square().mean() + begin.square().mean() + (left.square() + right.square()).mean()

    whole = grad_and_value(loss)
    first = None
    for step in range(args.steps):
        t, x, border = fl.rand(args.points), fl.rand(args.points) * 2 - 1, fl.rand(args.points) * 2 - 1
        gradients, value = whole({k: p.detach() for k, p in parameters.items()}, t, x, border)
        for name, parameter in parameters.items():
            parameter.grad = gradients[name]
        optimizer.step()
        first = value.item() if first is None else first
        if step % 50 == 0:
            print(f"step {step:4}: {value.item():.4f}")
    print(f"loss of the equation and its borders {first:.4f} -> {value.item():.4f}")


if __name__ == "__main__":
    main()
