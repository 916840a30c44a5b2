"""Private training: every sample's gradient is clipped and noise is added (Abadi et al. 2016, DP-SGD).

`vmap` of `grad` computes the gradients of all samples of a batch at once. They are scaled to a norm of at most one, summed, and
Gaussian noise hides what any one sample adds.

    python examples/per_sample_gradients.py
"""

import argparse

import flambeau as fl
from flambeau import nn
from flambeau.datasets import Digits
from flambeau.func import functional_call, grad_and_value, vmap


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--noise", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    fl.manual_seed(args.seed)
    train, test = Digits(train=True), Digits(train=False)
    x, y = train.data / 8.0 - 1.0, train.targets
    x_test, y_test = test.data / 8.0 - 1.0, test.targets
    model = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 64), nn.ReLU(), nn.Linear(64, 10))
    parameters = dict(model.named_parameters())
    optimizer = fl.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)

    def loss(p, picture, label):
        return nn.functional.cross_entropy(functional_call(model, p, (picture[None],)), label[None])

    of_samples = vmap(grad_and_value(loss), in_dims=(None, 0, 0))

    for step in range(args.steps):
        at = fl.randint(0, len(x), (args.batch,))
        gradients, losses = of_samples({k: p.detach() for k, p in parameters.items()}, x[at], y[at])
        norms = fl.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
        scale = (1 / norms).clamp(max=1)
        for name, g in gradients.items():
            clipped = fl.tensordot(scale, g, dims=1)
            parameters[name].grad = (clipped + args.noise * fl.randn_like(clipped)) / args.batch
        optimizer.step()
        if step % 50 == 0:
            low, high = norms.min().item(), norms.max().item()
            print(f"step {step:4}: loss {losses.mean().item():.3f}, norms of gradients {low:.2f} to {high:.2f}")
    with fl.no_grad():
        accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    print(f"test accuracy {100 * accuracy:.1f} % with noise of {args.noise}")


if __name__ == "__main__":
    main()
