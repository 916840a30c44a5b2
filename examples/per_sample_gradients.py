"""Private training: every sample's gradient is clipped and noise is added (Abadi et al. 2016, DP-SGD).

`vmap` of `grad` computes the gradients of all samples of a batch at once. They are scaled to a norm of at most one, summed, and
Gaussian noise hides what any one sample adds.

    python examples/per_sample_gradients.py
"""

import argparse

import flambeau as fl
from flambeau.datasets import Digits

nn, func = fl.nn, fl.func

def load(train):
    """Pictures [N, 8, 8] in -1..1 and labels [N]."""
    digits = Digits(train=train)
    return fl.from_dlpack(digits.data) / 8.0 - 1.0, fl.from_dlpack(digits.targets)


def make_model(args):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def train(model, args, norms_of_steps=None):
    """Returns the loss of every step; the norms of the samples' gradients go to `norms_of_steps`, [batch] each."""
    x, y = load(train=True)
    parameters = dict(model.named_parameters())
    optimizer = fl.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)

    def loss(p, picture, label):
        return nn.functional.cross_entropy(func.functional_call(model, p, (picture[None],)), label[None])

    of_samples = func.vmap(func.grad_and_value(loss), in_dims=(None, 0, 0))

    mean_losses = []
    for step in range(1, args.steps + 1):
        at = fl.randint(0, len(x), (args.batch_size,))
        gradients, losses = of_samples({k: p.detach() for k, p in parameters.items()}, x[at], y[at])
        norms = fl.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
        scale = (1 / norms).clamp(max=1)
        for name, g in gradients.items():
            clipped = fl.tensordot(scale, g, dims=1)
            parameters[name].grad = (clipped + args.noise * fl.randn_like(clipped)) / args.batch_size
        optimizer.step()
        mean_losses.append(losses.mean().item())
        if norms_of_steps is not None:
            norms_of_steps.append(norms)
        if step % 50 == 0 or step == args.steps:
            low, high = norms.min().item(), norms.max().item()
            print(f"step {step:4}: loss {mean_losses[-1]:.3f}, norms of gradients {low:.2f} to {high:.2f}")
    return mean_losses


def draw(losses, norms, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(losses, linewidth=1)
    left.set(xlabel="step", ylabel="loss")
    parts = fl.stack(norms).sort(dim=1).values  # [steps, batch]
    n = parts.shape[1]
    for low, high, shade in ((0, n - 1, 0.15), (n // 10, n * 9 // 10, 0.25), (n // 4, n * 3 // 4, 0.35)):
        right.fill_between(range(len(parts)), parts[:, low].numpy(), parts[:, high].numpy(), color="C0", alpha=shade, linewidth=0)
    right.plot(parts[:, n // 2].numpy(), linewidth=1.5, label="the samples' gradients, median and shares")
    right.axhline(1, color="firebrick", linestyle="--", label="clipped to")
    right.set(xlabel="step", ylabel="norm", yscale="log")
    right.legend(fontsize=8)
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--noise", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="per_sample_gradients.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model, norms = make_model(args), []
    losses = train(model, args, norms)
    x, y = load(train=False)
    with fl.no_grad():
        accuracy = (model(x).argmax(1) == y).float().mean().item()
    print(f"test accuracy {100 * accuracy:.1f} % with noise of {args.noise}")
    if args.picture:
        draw(losses, norms, args.picture)


if __name__ == "__main__":
    main()
