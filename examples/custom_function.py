"""A function with its own gradient: a rounding that can be trained through, and a fused swish.

`Swish` saves its input and computes the gradient by hand; `gradcheck` compares it with finite
differences. `RoundStraightThrough` has a gradient that is wrong on purpose (Bengio et al. 2013, the
straight-through estimator), so that a network with rounded activations can learn.

    python examples/custom_function.py
"""

import argparse

import flambeau as fl
from flambeau import nn
from flambeau.autograd import Function, gradcheck


class Swish(Function):
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


class RoundStraightThrough(Function):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    fl.manual_seed(args.seed)
    x = fl.randn(5, 3, dtype=fl.float64, requires_grad=True)
    print("gradcheck of Swish:", gradcheck(lambda t: Swish.apply(t, 1.5), (x,)))

    model = Rounded(32)
    optimizer = fl.optim.Adam(model.parameters(), lr=1e-2)
    inputs = fl.linspace(-2, 2, 64).reshape(-1, 1)
    targets = fl.sin(2 * inputs)
    first = None
    for _ in range(args.steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        first = first if first is not None else loss.item()
    print(f"a rounded network learned sin(2x): loss {first:.4f} -> {loss.item():.4f}")


if __name__ == "__main__":
    main()
