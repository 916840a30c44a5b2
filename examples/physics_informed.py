"""A physics-informed network: it solves a differential equation by being trained to fulfil it (Raissi et al. 2019).

u(t, x) is a network; Burgers' equation u_t + u u_x = nu u_xx is a loss, with derivatives of the network by its inputs at random
points: gradients by `grad`, the second by `jvp` of `grad`, for one point, and `vmap` over all points. The values at t = 0 and at the
borders are a second loss.

    python examples/physics_informed.py
"""

import argparse
import math

import flambeau as fl

nn, func = fl.nn, fl.func
NU = 0.05


def make_model(args):
    w = args.width
    return nn.Sequential(nn.Linear(2, w), nn.Tanh(), nn.Linear(w, w), nn.Tanh(), nn.Linear(w, 1))


def train(model, args):
    """Returns the loss of every step."""
    parameters = dict(model.named_parameters())
    optimizer = fl.optim.Adam(model.parameters(), lr=2e-2)
    schedule = fl.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)

    def u(p, t, x):
        return func.functional_call(model, p, (fl.stack([t, x]),))[0]

    def residual(p, t, x):
        """How far one point is from the equation."""
        u_t = func.grad(u, argnums=1)(p, t, x)
        u_x, u_xx = func.jvp(lambda z: func.grad(u, argnums=2)(p, t, z), (x,), (fl.ones_like(x),))
        return u_t + u(p, t, x) * u_x - NU * u_xx

    everywhere = func.vmap(residual, in_dims=(None, 0, 0))
    values = func.vmap(u, in_dims=(None, 0, 0))

    def loss(p, t, x, border_x):
        zero = fl.zeros_like(border_x)
        inside = everywhere(p, t, x)
        begin = values(p, zero, border_x) + fl.sin(math.pi * border_x)
        left, right = (values(p, t, zero + side) for side in (-1, 1))
        return inside.square().mean() + begin.square().mean() + (left.square() + right.square()).mean()

    whole = func.grad_and_value(loss)
    losses = []
    for step in range(1, args.steps + 1):
        t, x, border = fl.rand(args.points), fl.rand(args.points) * 2 - 1, fl.rand(args.points) * 2 - 1
        gradients, value = whole({k: p.detach() for k, p in parameters.items()}, t, x, border)
        for name, parameter in parameters.items():
            parameter.grad = gradients[name]
        optimizer.step()
        schedule.step()
        losses.append(value.item())
        if step % 100 == 0 or step == args.steps:
            print(f"step {step:4}: {losses[-1]:.4f}")
    return losses


@fl.no_grad()
def solve(n_x=201, n_t=4000):
    """The equation by finite differences, to compare with: [n_t + 1, n_x] for t in 0..1 and x in -1..1."""
    dx, dt = 2 / (n_x - 1), 1 / n_t
    u = [-fl.sin(math.pi * fl.linspace(-1, 1, n_x))]
    for _ in range(n_t):
        v = u[-1]
        slope, bend = (v[2:] - v[:-2]) / (2 * dx), (v[2:] - 2 * v[1:-1] + v[:-2]) / dx**2
        u.append(fl.cat([v[:1], v[1:-1] + dt * (NU * bend - v[1:-1] * slope), v[-1:]]))
    return fl.stack(u)


@fl.no_grad()
def evaluate(model, n_x=201, n_t=101):
    """The network at the same places, [n_t, n_x]."""
    t, x = fl.meshgrid(fl.linspace(0, 1, n_t), fl.linspace(-1, 1, n_x), indexing="ij")
    return model(fl.stack([t, x], dim=-1))[..., 0]


def draw(said, truth, path):
    """Both [101, 201]."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    shown = left.imshow(said.t().numpy(), aspect="auto", cmap="RdBu_r", extent=(0, 1, 1, -1))
    left.set(xlabel="t", ylabel="x", title="u, by the network")
    figure.colorbar(shown, ax=left)
    x = fl.linspace(-1, 1, truth.shape[1]).numpy()
    for k, colour in zip((0, 25, 50, 100), ("C0", "C1", "C2", "C3")):
        right.plot(x, truth[k].numpy(), color="black", linewidth=0.8, linestyle=":")
        right.plot(x, said[k].numpy(), color=colour, linewidth=1.2, label=f"t = {k / 100}")
    right.set(xlabel="x", title="dotted: finite differences")
    right.legend(fontsize=8)
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--points", type=int, default=256)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="physics_informed.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model = make_model(args)
    losses = train(model, args)
    print(f"loss of the equation and its borders {losses[0]:.4f} -> {losses[-1]:.4f}")
    said, truth = evaluate(model), solve()[::40]
    print(f"mean distance from finite differences {(said - truth).abs().mean().item():.4f}")
    if args.picture:
        draw(said, truth, args.picture)


if __name__ == "__main__":
    main()
