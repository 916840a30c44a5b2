"""Super-resolution: a small network makes pictures three times as large, and sharper than bicubic interpolation (Shi et al. 2016).

All of its layers work at the small size; the last gives nine channels, which `PixelShuffle` lays out as 3 x 3 pixels each. What it
learns is how far bicubic interpolation is off. The pictures are generated: stripes and discs of all directions, sizes and greys.

    python examples/super_resolution.py --steps 300
"""

import argparse
import math

import flambeau as fl

nn, F = fl.nn, fl.nn.functional
FACTOR = 3


def make_pictures(n, size):
    """Sharp pictures [n, 1, size, size] in 0..1: stripes under five discs with stripes of their own."""
    y, x = fl.meshgrid(fl.arange(size) / size, fl.arange(size) / size, indexing="ij")
    layers = 6
    angle, phase = math.pi * fl.rand(n, layers, 1, 1), 2 * math.pi * fl.rand(n, layers, 1, 1)
    waves = 2 + 5 * fl.rand(n, layers, 1, 1)
    stripes = fl.sin(2 * math.pi * waves * (x * angle.cos() + y * angle.sin()) + phase)
    low, high = fl.rand(n, layers, 1, 1), fl.rand(n, layers, 1, 1)
    greys = low + (high - low) * (8 * stripes).sigmoid()  # steep, but no stairs
    centre, radius = fl.rand(2, n, layers, 1, 1), 0.1 + 0.2 * fl.rand(n, layers, 1, 1)
    distance = ((x - centre[0]).square() + (y - centre[1]).square()).sqrt()
    inside = ((radius - distance) * size).sigmoid()  # the rim is about a pixel wide
    picture = greys[:, 0]
    for k in range(1, layers):
        picture = picture + inside[:, k] * (greys[:, k] - picture)
    return picture.unsqueeze(1)


def bicubic(small):
    return F.interpolate(small, scale_factor=FACTOR, mode="bicubic", align_corners=False)


class Enlarge(nn.Module):
    """Pictures [B, 1, H, W] to [B, 1, 3 H, 3 W]."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 5, padding=2),
            nn.PReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.PReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.PReLU(),
            nn.Conv2d(width, FACTOR**2, 3, padding=1),
            nn.PixelShuffle(FACTOR),
        )

    def forward(self, small):
        return bicubic(small) + self.layers(small)


def make_model(args):
    return Enlarge(args.width)


def train(model, args):
    """Returns the loss of every step."""
    optimizer = fl.optim.Adam(model.parameters(), lr=2e-3)
    schedule = fl.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    losses = []
    for step in range(1, args.steps + 1):
        sharp = make_pictures(args.batch_size, args.size)
        loss = F.mse_loss(model(F.avg_pool2d(sharp, FACTOR)), sharp)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 50 == 0 or step == args.steps:
            print(f"step {step}: loss {losses[-1]:.5f}")
    return losses


def psnr(made, sharp):
    """Peak signal to noise, in dB: [N]."""
    return -10 * (made - sharp).square().mean((1, 2, 3)).log10()


def draw(columns, path):
    """`columns`: a title and pictures [N, 1, H, W] each."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    figure = Figure(figsize=(7, 3.9), layout="constrained")
    for axes, (title, pictures) in zip(figure.subplots(2, len(columns)).T, columns):
        axes[0].set_title(title, fontsize=9)
        for axis, picture in zip(axes, pictures):
            axis.imshow(picture[0].numpy(), cmap="gray", vmin=0, vmax=1)
            axis.set_axis_off()
    figure.savefig(path, dpi=70)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=60, help="pixels along a side, a multiple of 3")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="super_resolution.png", help="where to draw; '' for nowhere")
    return parser


@fl.no_grad()
def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model = make_model(args)
    with fl.enable_grad():
        train(model, args)
    sharp = make_pictures(64, args.size)
    small = F.avg_pool2d(sharp, FACTOR)
    made, plain = model(small), bicubic(small)
    network, interpolation = psnr(made, sharp).mean().item(), psnr(plain, sharp).mean().item()
    print(f"PSNR of 64 new pictures: {network:.2f} dB, bicubic interpolation {interpolation:.2f} dB")
    if args.picture:
        titles = ("small", f"bicubic, {interpolation:.1f} dB", f"network, {network:.1f} dB", "truth")
        draw(list(zip(titles, (small, plain, made, sharp))), args.picture)


if __name__ == "__main__":
    main()
