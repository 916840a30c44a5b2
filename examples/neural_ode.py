"""A neural ODE: the network is the speed at which a point moves (Chen et al. 2018).

A spiral dz/dt = A z^3 is seen at some moments; a network f(z) is trained so that solutions of dz/dt = f(z), by the classical
Runge-Kutta method, pass through what was seen. The method is written for one point: `vmap` starts it everywhere at once. The divergence
of the trained field, its Jacobian's trace, says how fast areas shrink along the way.

    python examples/neural_ode.py
"""

import argparse

import flambeau as fl
from flambeau import nn
from flambeau.func import functional_call, grad_and_value, jacfwd, vmap


def solve(f, z, dt, count):
    """The points z(0), z(dt), ... of dz/dt = f(z): [count, *z.shape]."""
    points = [z]
    for _ in range(count - 1):
        k1 = f(z)
        k2 = f(z + dt / 2 * k1)
        k3 = f(z + dt / 2 * k2)
        k4 = f(z + dt * k3)
        z = z + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        points.append(z)
    return fl.stack(points)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    fl.manual_seed(args.seed)
    spiral = fl.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    dt, seen = 0.05, 10
    truth = solve(lambda z: spiral @ z**3, fl.tensor([2.0, 0.0]), dt, 200)
    starts = truth[:-seen]
    targets = fl.stack([truth[i : i + seen] for i in range(len(starts))])

    model = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 2))
    parameters = dict(model.named_parameters())
    optimizer = fl.optim.Adam(model.parameters(), lr=1e-2)

    def loss(p, start, target):
        """How far the solution from one point is from what was seen."""
        return (solve(lambda z: functional_call(model, p, (z**3,)), start, dt, seen) - target).abs().mean()

    whole = grad_and_value(lambda p, a, b: vmap(loss, in_dims=(None, 0, 0))(p, a, b).mean())
    first = None
    for step in range(args.steps):
        at = fl.randint(0, len(starts), (32,))
        gradients, value = whole({k: p.detach() for k, p in parameters.items()}, starts[at], targets[at])
        for name, parameter in parameters.items():
            parameter.grad = gradients[name]
        optimizer.step()
        first = value.item() if first is None else first
        if step % 50 == 0:
            print(f"step {step:4}: {value.item():.4f}")
    with fl.no_grad():
        jacobians = vmap(jacfwd(lambda z: model(z**3)))(truth)  # [200, 2, 2]
    divergence = jacobians.diagonal(0, 1, 2).sum(1).mean().item()
    print(f"mean divergence along the spiral {divergence:.3f}")
    print(f"mean distance {first:.4f} -> {value.item():.4f}")


if __name__ == "__main__":
    main()
