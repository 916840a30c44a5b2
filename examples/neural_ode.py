"""A neural ODE: the network is the speed at which a point moves (Chen et al. 2018).

A spiral dz/dt = A z^3 is seen at some moments; a network f(z) is trained so that solutions of dz/dt = f(z), by the classical
Runge-Kutta method, pass through what was seen. The method is written for one point: `vmap` starts it everywhere at once. The divergence
of the trained field, its Jacobian's trace, says how fast areas shrink along the way.

    python examples/neural_ode.py
"""

import argparse

import flambeau as fl

nn, func = fl.nn, fl.func
DT, SEEN = 0.05, 10


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


def make_spiral(count=200):
    """What is to be learned: points [count, 2]."""
    turn = fl.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    return solve(lambda z: turn @ z**3, fl.tensor([1.6, 0.0]), DT, count)


def make_model(args):
    return nn.Sequential(nn.Linear(2, args.width), nn.Tanh(), nn.Linear(args.width, 2))


def train(model, args):
    """Returns the loss of every step."""
    truth = make_spiral()
    starts = truth[:-SEEN]
    targets = fl.stack([truth[i : i + SEEN] for i in range(len(starts))])
    parameters = dict(model.named_parameters())
    optimizer = fl.optim.Adam(model.parameters(), lr=1e-2)
    schedule = fl.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)

    def loss(p, start, target):
        """How far the solution from one point is from what was seen."""
        return (solve(lambda z: func.functional_call(model, p, (z**3,)), start, DT, SEEN) - target).abs().mean()

    whole = func.grad_and_value(lambda p, a, b: func.vmap(loss, in_dims=(None, 0, 0))(p, a, b).mean())
    losses = []
    for step in range(1, args.steps + 1):
        at = fl.randint(0, len(starts), (args.batch_size,))
        gradients, value = whole({k: p.detach() for k, p in parameters.items()}, starts[at], targets[at])
        for name, parameter in parameters.items():
            parameter.grad = gradients[name]
        optimizer.step()
        schedule.step()
        losses.append(value.item())
        if step % 100 == 0 or step == args.steps:
            print(f"step {step:4}: {losses[-1]:.4f}")
    return losses


@fl.no_grad()
def draw(model, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    truth = make_spiral().numpy()
    learned = solve(lambda z: model(z**3), fl.tensor([1.6, 0.0]), DT, 200).numpy()
    ticks = fl.linspace(-1.8, 1.8, 18)
    x, y = fl.meshgrid(ticks, ticks, indexing="xy")
    speeds = model(fl.stack([x, y], dim=-1) ** 3).numpy()
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.3))
    left.streamplot(ticks.numpy(), ticks.numpy(), speeds[..., 0], speeds[..., 1], color="silver", linewidth=0.6, density=0.9, arrowsize=0.6)
    left.plot(*truth.T, ".", markersize=2.5, color="black", label="seen")
    left.plot(*learned.T, linewidth=1, color="C0", label="learned")
    left.set(aspect="equal")
    left.legend(fontsize=8, loc="upper right")
    for k, colour in enumerate(("C0", "C1")):
        right.plot(truth[:, k], ".", markersize=2.5, color="black")
        right.plot(learned[:, k], linewidth=1, color=colour)
    right.set(xlabel="moment", ylabel="both coordinates, from the first point alone")
    figure.savefig(path, dpi=72)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="neural_ode.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model = make_model(args)
    losses = train(model, args)
    with fl.no_grad():
        jacobians = func.vmap(func.jacfwd(lambda z: model(z**3)))(make_spiral())  # [200, 2, 2]
    divergence = jacobians.diagonal(0, 1, 2).sum(1).mean().item()
    print(f"mean divergence along the spiral {divergence:.3f}")
    last = losses[-20:]
    print(f"mean distance {losses[0]:.4f} -> {sum(last) / len(last):.4f}")
    if args.picture:
        draw(model, args.picture)


if __name__ == "__main__":
    main()
