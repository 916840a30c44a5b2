"""A diffusion model draws the digit that it is asked for, out of noise (Ho et al. 2020).

Noise is added to pictures in 50 steps until nothing is left of them; the network learns to say what the noise was. To draw, it begins
with noise and takes away what it says, step by step. It is asked twice, with the class and with "any digit", and the difference is
enlarged (guidance, Ho and Salimans 2022).

    python examples/diffusion.py --steps 1200
"""

import argparse
import math

import flambeau as fl
from flambeau.datasets import Digits

nn, F = fl.nn, fl.nn.functional
N_STEPS = 50
ANY = 10  # the class that stands for none in particular


def kept():
    """How much of a picture's variance is left after 0, 1, ... 50 steps (the cosine schedule of Nichol and Dhariwal 2021): [51]."""
    t = fl.linspace(0, 1, N_STEPS + 1)
    return (fl.cos((t + 0.008) / 1.008 * math.pi / 2).square()).clamp(1e-4, 0.9999)


class Block(nn.Module):
    """Two convolutions that are told step and class, beside a shortcut."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)
        self.conv1, self.conv2 = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.told = nn.Linear(width, width)

    def forward(self, x, condition):
        y = self.conv1(F.silu(self.norm1(x))) + self.told(condition)[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(y)))


class Denoiser(nn.Module):
    """Noisy pictures [B, 1, 8, 8], steps [B] and classes [B] to the noise in them."""

    def __init__(self, width, n_blocks):
        super().__init__()
        self.steps, self.classes = nn.Embedding(N_STEPS + 1, width), nn.Embedding(11, width)
        self.place = nn.Parameter(fl.zeros(1, width, 8, 8))
        self.enter, self.leave = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 1, 3, padding=1)
        self.blocks = nn.ModuleList(Block(width) for _ in range(n_blocks))
        self.norm = nn.GroupNorm(8, width)

    def forward(self, x, step, label):
        condition = F.silu(self.steps(step) + self.classes(label))
        x = self.enter(x) + self.place
        for block in self.blocks:
            x = block(x, condition)
        return self.leave(F.silu(self.norm(x)))


def make_model(args):
    return Denoiser(args.width, args.blocks)


def train(model, args):
    """Returns the loss of every step."""
    digits = Digits(train=True)
    pictures, labels = fl.from_dlpack(digits.data).unsqueeze(1) / 8.0 - 1.0, fl.from_dlpack(digits.targets)
    share = kept()
    optimizer = fl.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = fl.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    losses = []
    for step in range(1, args.steps + 1):
        at = fl.randint(0, len(pictures), (args.batch_size,))
        t = fl.randint(1, N_STEPS + 1, (args.batch_size,))
        left = share[t][:, None, None, None]
        noise = fl.randn(args.batch_size, 1, 8, 8)
        noisy = left.sqrt() * pictures[at] + (1 - left).sqrt() * noise
        told = fl.where(fl.rand(args.batch_size) < 0.15, ANY, labels[at])
        loss = F.mse_loss(model(noisy, t, told), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 100 == 0 or step == args.steps:
            print(f"step {step}: loss {losses[-1]:.4f}")
    return losses


@fl.no_grad()
def sample(model, labels, guidance=1.5):
    """One picture for each label; returns them after each step, from noise to pictures: [51, N, 1, 8, 8]."""
    share = kept()
    x = fl.randn(len(labels), 1, 8, 8)
    seen = [x]
    for t in range(N_STEPS, 0, -1):
        step = fl.full((len(labels),), t)
        plain = model(x, step, fl.full_like(labels, ANY))
        noise = plain + guidance * (model(x, step, labels) - plain)
        left, before = share[t], share[t - 1]
        picture = ((x - (1 - left).sqrt() * noise) / left.sqrt()).clamp(-1, 1)
        # The normal distribution of the step before, given this one and the picture (Ho et al., equations 6 and 7).
        alpha = left / before
        mean = (before.sqrt() * (1 - alpha) * picture + alpha.sqrt() * (1 - before) * x) / (1 - left)
        spread = ((1 - before) / (1 - left) * (1 - alpha)).sqrt()
        x = mean + spread * fl.randn_like(x) if t > 1 else picture
        seen.append(x)
    return fl.stack(seen)


def draw(seen, path):
    """`seen` [51, 10, 1, 8, 8]: a column for each digit, a row for some steps."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    rows = (0, 15, 25, 35, 42, 50)
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    for axes, k in zip(figure.subplots(len(rows), 11), rows):
        axes[0].text(1, 0.5, f"step {k}", ha="right", va="center", fontsize=9)
        for axis, picture in zip(axes[1:], seen[k, :, 0]):
            axis.imshow(picture.numpy(), cmap="gray_r", vmin=-1, vmax=1)
        for axis in axes:
            axis.set_axis_off()
    figure.savefig(path, dpi=72)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="diffusion.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model = make_model(args)
    losses = train(model, args)
    recent = losses[-50:]
    print(f"mean square of what is left of the noise: {losses[0]:.3f} -> {sum(recent) / len(recent):.3f}")
    if args.picture:
        draw(sample(model, fl.arange(10)), args.picture)


if __name__ == "__main__":
    main()
