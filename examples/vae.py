"""A variational autoencoder with a plane inside: handwritten digits become points, and points digits (Kingma and Welling 2014).

The encoder gives a normal distribution over the plane for each picture, the decoder a chance of ink for each pixel of a point. The loss
is what a picture costs to describe: its pixels, given the point, and the point, given the standard normal distribution.

    python examples/vae.py --steps 3000
"""

import argparse

import flambeau as fl
from flambeau.datasets import Digits

nn, F = fl.nn, fl.nn.functional


class VAE(nn.Module):
    """Pictures [B, 64] in 0..1 to logits of the same shape, and mean and logarithm of the variance of the points, [B, 2] each."""

    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
        self.decoder = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 64))

    def forward(self, pictures):
        mean, log_var = self.encoder(pictures).chunk(2, dim=1)
        points = mean + (log_var / 2).exp() * fl.randn_like(mean)  # a draw that gradients pass
        return self.decoder(points), mean, log_var


def loss_fn(logits, pictures, mean, log_var):
    """Nats a picture."""
    pixels = F.binary_cross_entropy_with_logits(logits, pictures, reduction="sum")
    divergence = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum()
    return (pixels + divergence) / len(pictures)


def make_model(args):
    return VAE(args.width)


def train(model, args):
    """Returns the loss of every step."""
    pictures = fl.from_dlpack(Digits(train=True).data).flatten(1) / 16.0
    optimizer = fl.optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    for step in range(1, args.steps + 1):
        batch = pictures[fl.randint(0, len(pictures), (args.batch_size,))]
        logits, mean, log_var = model(batch)
        loss = loss_fn(logits, batch, mean, log_var)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 250 == 0 or step == args.steps:
            print(f"step {step}: loss {losses[-1]:.2f}")
    return losses


@fl.no_grad()
def draw(model, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    digits = Digits(train=False)
    _, mean, _ = model(fl.from_dlpack(digits.data).flatten(1) / 16.0)
    n = 14
    # Points of equal chance: the standard normal distribution's quantiles along both axes.
    ticks = fl.special.ndtri(fl.linspace(0.02, 0.98, n))
    plane = fl.stack([ticks.repeat(n), ticks.flip(0).repeat_interleave(n)], dim=1)
    drawn = model.decoder(plane).sigmoid().view(n, n, 8, 8).transpose(1, 2).reshape(8 * n, 8 * n)
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    dots = left.scatter(mean[:, 0], mean[:, 1], c=digits.targets.numpy(), cmap="tab10", s=7)
    figure.colorbar(dots, ax=left, ticks=range(10))
    left.set_title("held-out digits in the plane", fontsize=9)
    right.imshow(drawn.numpy(), cmap="gray_r")
    right.set_title("what points of the plane look like", fontsize=9)
    right.set_axis_off()
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="vae.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model = make_model(args)
    losses = train(model, args)
    print(f"nats a picture: {losses[0]:.2f} -> {losses[-1]:.2f}")
    if args.picture:
        draw(model, args.picture)


if __name__ == "__main__":
    main()
