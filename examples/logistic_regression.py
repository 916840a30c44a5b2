"""Logistic regression on digits by L-BFGS: a convex problem, solved to its minimum in some dozens of evaluations.

L-BFGS guesses the curvature from the last gradients, and its line search asks for the loss as often as it likes: `step` takes a
function that computes it (a closure). Gradient descent beside it gets as many evaluations and is far from the minimum. The weights that
come out can be looked at: ink where a class wants it, and where it forbids it.

    python examples/logistic_regression.py --steps 12
"""

import argparse

import flambeau as fl
from flambeau.datasets import Digits

nn, F = fl.nn, fl.nn.functional


def load(train):
    """Pixels [N, 64] in 0..1 and labels [N]."""
    digits = Digits(train=train)
    return fl.from_dlpack(digits.data).flatten(1) / 16.0, fl.from_dlpack(digits.targets)


def loss_fn(model, pixels, labels, penalty):
    return F.cross_entropy(model(pixels), labels) + penalty * model.weight.square().sum()


def make_model(args):
    model = nn.Linear(64, 10)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model


def train(model, args, evaluations=None):
    """Returns the loss before every step of L-BFGS, each of up to five iterations; that of each evaluation goes to `evaluations`."""
    pixels, labels = load(train=True)
    optimizer = fl.optim.LBFGS(model.parameters(), max_iter=5, history_size=20, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = loss_fn(model, pixels, labels, args.penalty)
        loss.backward()
        if evaluations is not None:
            evaluations.append(loss.item())
        return loss

    losses = []
    for step in range(1, args.steps + 1):
        losses.append(optimizer.step(closure).item())
        print(f"step {step}: loss {losses[-1]:.8f}")
    return losses


def descend(model, args, count):
    """The same by gradient descent with momentum; returns the loss of every evaluation."""
    pixels, labels = load(train=True)
    optimizer = fl.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = loss_fn(model, pixels, labels, args.penalty)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def draw(weight, curves, path):
    """`weight` [10, 64]; `curves`: the losses of each way."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    figure = Figure(figsize=(8.5, 2.9), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.5))
    least = min(min(curve) for curve in curves.values())
    axis = left.subplots()
    for name, curve in curves.items():
        axis.semilogy([max(loss - least, 1e-7) for loss in curve], label=name)
    axis.set(xlabel="evaluations", ylabel="loss above the least")
    axis.legend(fontsize=8)
    highest = weight.abs().max().item()
    for digit, axis in enumerate(right.subplots(2, 5).flat):
        axis.imshow(weight[digit].view(8, 8).numpy(), cmap="RdBu_r", vmin=-highest, vmax=highest)
        axis.set_title(str(digit), fontsize=8)
        axis.set_axis_off()
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--penalty", type=float, default=1e-3, help="of the squares of the weights")
    parser.add_argument("--seed", type=int, default=0, help="of nothing here: no step draws a number")
    parser.add_argument("--picture", default="logistic_regression.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model, evaluations = make_model(args), []
    train(model, args, evaluations)
    beside = descend(make_model(args), args, len(evaluations))
    pixels, labels = load(train=False)
    with fl.no_grad():
        right = (model(pixels).argmax(1) == labels).sum().item() / len(labels)
    print(f"loss after {len(evaluations)} evaluations: {evaluations[-1]:.6f}, by gradient descent {beside[-1]:.6f}")
    print(f"test accuracy {100 * right:.2f} %")
    if args.picture:
        draw(model.weight.detach(), {"L-BFGS": evaluations, "gradient descent": beside}, args.picture)


if __name__ == "__main__":
    main()
