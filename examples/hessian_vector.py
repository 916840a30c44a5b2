"""The sharpest direction of a loss: the largest eigenvalue of its Hessian, by products with vectors alone.

A product of the Hessian with a vector is the derivative of the gradient along the vector: forward mode over reverse mode
(Pearlmutter 1994). Power iteration needs nothing else, so that the Hessian of thousands of parameters is never made.

    python examples/hessian_vector.py
"""

import argparse

import flambeau as fl
from flambeau.datasets import Digits

nn, func = fl.nn, fl.func

def make_model(args):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def make_loss(model):
    """The loss as a function of parameters, of 256 digits."""
    digits = Digits(train=True)
    x, y = fl.from_dlpack(digits.data)[:256] / 8.0 - 1.0, fl.from_dlpack(digits.targets)[:256]
    return lambda p: nn.functional.cross_entropy(func.functional_call(model, p, (x,)), y)


def dot(a, b):
    return sum((a[k] * b[k]).sum() for k in a)


def train(model, args, direction=None):
    """Trains nothing: returns the guess at the eigenvalue after every step; the last direction goes to `direction`."""
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    gradient = func.grad(make_loss(model))
    v = {k: fl.randn_like(p) for k, p in parameters.items()}
    eigenvalues = []
    for step in range(1, args.steps + 1):
        length = dot(v, v).sqrt()
        v = {k: t / length for k, t in v.items()}
        hv = func.jvp(gradient, (parameters,), (v,))[1]  # H v
        eigenvalues.append(dot(v, hv).item())
        if step % 10 == 0 or step == args.steps:
            print(f"step {step:3}: {eigenvalues[-1]:.4f}")
        if direction is not None:
            direction.update(v)
        v = hv
    return eigenvalues


@fl.no_grad()
def draw(model, eigenvalues, direction, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(range(1, len(eigenvalues) + 1), eigenvalues, marker=".")
    left.set(xlabel="step", ylabel="guess at the eigenvalue")
    loss = make_loss(model)
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    by_chance = {k: fl.randn_like(p) for k, p in parameters.items()}
    length = dot(by_chance, by_chance).sqrt()
    ways = {"the sharpest direction": direction, "one by chance": {k: t / length for k, t in by_chance.items()}}
    steps = [(k - 20) / 10 for k in range(41)]
    for name, way in ways.items():
        right.plot(steps, [loss({k: p + step * way[k] for k, p in parameters.items()}).item() for step in steps], label=name)
    right.set(xlabel="distance from the parameters", ylabel="loss")
    right.legend(fontsize=8)
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="hessian_vector.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model, direction = make_model(args), {}
    eigenvalues = train(model, args, direction)

    # The same of the last bias alone, whose Hessian is small enough to be looked at.
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    loss = make_loss(model)
    block = func.hessian(lambda b: loss({**parameters, "3.bias": b}))(parameters["3.bias"])
    print(f"the Hessian of the last bias is symmetric up to {(block - block.t()).abs().max().item():.1e}")
    n_parameters = sum(p.numel() for p in parameters.values())
    print(f"largest eigenvalue of the Hessian of {n_parameters} parameters: {eigenvalues[-1]:.4f}")
    if args.picture:
        draw(model, eigenvalues, direction, args.picture)


if __name__ == "__main__":
    main()
