"""The sharpest direction of a loss: the largest eigenvalue of its Hessian, by products with vectors alone.

A product of the Hessian with a vector is the derivative of the gradient along the vector: forward mode over reverse mode
(Pearlmutter 1994). Power iteration needs nothing else, so that the Hessian of thousands of parameters is never made.

    python examples/hessian_vector.py
"""

import argparse

import flambeau as fl
from flambeau import nn
from flambeau.datasets import Digits
from flambeau.func import functional_call, grad, hessian, jvp


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    fl.manual_seed(args.seed)
    digits = Digits(train=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    x, y = digits.data[:256] / 8.0 - 1.0, digits.targets[:256]

    def loss(p):
        return nn.functional.cross_entropy(functional_call(model, p, (x,)), y)

    def product(v):
        """H v."""
        return jvp(grad(loss), (parameters,), (v,))[1]

    def dot(a, b):
        return sum((a[k] * b[k]).sum() for k in a)

    v = {k: fl.randn_like(p) for k, p in parameters.items()}
    for step in range(args.steps):
        length = dot(v, v).sqrt()
        v = {k: t / length for k, t in v.items()}
        hv = product(v)
        eigenvalue = dot(v, hv)
        if step % 10 == 0:
            print(f"step {step:3}: {eigenvalue.item():.4f}")
        v = hv

    # The same of the last bias alone, whose Hessian is small enough to be looked at.
    block = hessian(lambda b: loss({**parameters, "3.bias": b}))(parameters["3.bias"])
    print(f"the Hessian of the last bias is symmetric up to {(block - block.t()).abs().max().item():.1e}")
    print(f"largest eigenvalue of the Hessian of {sum(p.numel() for p in parameters.values())} parameters: {eigenvalue.item():.4f}")


if __name__ == "__main__":
    main()
