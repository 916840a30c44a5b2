"""A function with its own gradient: a rounding that can be trained through, and a fused swish.

`Swish` saves its input and computes the gradient by hand; `gradcheck` compares it with finite
differences. `RoundStraightThrough` has a gradient that is wrong on purpose (Bengio et al. 2013, the
straight-through estimator), so that a network with rounded activations can learn.

    python examples/custom_function.py
"""

import argparse

import flambeau as fl

nn = fl.nn

class Swish(fl.autograd.Function):
    """x * sigmoid(beta x)."""

    @staticmethod
    def forward(ctx, x, beta):
        gate = fl.sigmoid(beta * x)
        ctx.save_for_backward(x, gate)
        ctx.beta = beta
        return x * gate

    @staticmethod
    def backward(ctx, grad):
        x, gate = ctx.saved_tensors
        # d/dx x g = g + x beta g (1 - g); beta is a plain number and gets None.
        return grad * (gate + ctx.beta * x * gate * (1 - gate)), None


class RoundStraightThrough(fl.autograd.Function):
    """Rounds forward, passes the gradient on as if it had not."""

    @staticmethod
    def forward(ctx, x):
        return fl.round(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Rounded(nn.Module):
    """A layer whose hidden values are whole numbers."""

    def __init__(self, n_hidden):
        super().__init__()
        self.inner = nn.Linear(1, n_hidden)
        self.outer = nn.Linear(n_hidden, 1)

    def forward(self, x):
        hidden = Swish.apply(self.inner(x), 1.5)
        return self.outer(RoundStraightThrough.apply(4 * hidden) / 4)


def make_model(args):
    return Rounded(args.width)


def make_data():
    inputs = fl.linspace(-2, 2, 64).reshape(-1, 1)
    return inputs, fl.sin(2 * inputs)


def train(model, args):
    """Returns the loss of every step."""
    optimizer = fl.optim.Adam(model.parameters(), lr=1e-2)
    inputs, targets = make_data()
    losses = []
    for step in range(1, args.steps + 1):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 0 or step == args.steps:
            print(f"step {step}: loss {losses[-1]:.4f}")
    return losses


@fl.no_grad()
def draw(model, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    inputs, targets = make_data()
    left.plot(inputs[:, 0].numpy(), targets[:, 0].numpy(), color="black", linewidth=1, label="sin(2x)")
    fine = fl.linspace(-2, 2, 800).reshape(-1, 1)
    left.plot(fine[:, 0].numpy(), model(fine)[:, 0].numpy(), linewidth=1, label="network of rounded values")
    left.set(xlabel="x")
    left.legend(fontsize=8)
    hidden = fl.round(4 * Swish.apply(model.inner(fine), 1.5)) / 4
    edges = (-2, 2, hidden.shape[1], 0)
    right.imshow(hidden.t().numpy(), aspect="auto", cmap="RdBu_r", vmin=-2, vmax=2, extent=edges, interpolation="nearest")
    right.set(xlabel="x", ylabel="hidden value")
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--width", type=int, default=32, help="hidden values")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="custom_function.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    x = fl.randn(5, 3, dtype=fl.float64, requires_grad=True)
    print("gradcheck of Swish:", fl.autograd.gradcheck(lambda t: Swish.apply(t, 1.5), (x,)))
    model = make_model(args)
    losses = train(model, args)
    print(f"a rounded network learned sin(2x): loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    if args.picture:
        draw(model, args.picture)


if __name__ == "__main__":
    main()
