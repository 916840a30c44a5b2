"""A U-Net finds shapes in noise, pixel by pixel (Ronneberger et al. 2015).

Pictures are made as they are wanted: a disc, a square and a triangle each, of different grey, one over the other, in noise. The network
goes down to coarse pictures with many channels and up again; what it saw on the way down is handed over at each size.

    python examples/unet.py --steps 500
"""

import argparse

import flambeau as fl

nn, F = fl.nn, fl.nn.functional
NAMES = ("ground", "disc", "square", "triangle")


def make_pictures(n, size):
    """Pictures [n, 1, size, size] and what each pixel shows, [n, size, size]."""
    y, x = fl.meshgrid(fl.arange(size) / size, fl.arange(size) / size, indexing="ij")
    radius = 0.1 + 0.12 * fl.rand(n, 3, 1, 1)
    centre = 0.2 + 0.6 * fl.rand(2, n, 3, 1, 1)
    dx, dy = x - centre[0], y - centre[1]  # [n, 3, size, size]
    inside = fl.stack(
        [
            (dx.square() + dy.square() < radius.square())[:, 0],
            (fl.maximum(dx.abs(), dy.abs()) < 0.9 * radius)[:, 1],
            ((dy < 0.7 * radius) & (2 * dx.abs() < dy + 1.2 * radius))[:, 2],
        ]
    )
    shown = fl.zeros(n, size, size, dtype=fl.int64)
    for k in range(3):
        shown = fl.where(inside[k], k + 1, shown)  # later ones cover earlier ones
    greys = fl.cat([fl.zeros(n, 1), 0.4 + 0.6 * fl.rand(n, 3)], dim=1)  # a grey each; the ground is black
    pictures = greys.gather(1, shown.flatten(1)).view(n, 1, size, size)
    return pictures + 0.15 * fl.randn(n, 1, size, size), shown


class Convolutions(nn.Sequential):
    """Two convolutions that keep the size."""

    def __init__(self, n_in, n_out):
        layers = []
        for channels in (n_in, n_out):
            layers += [nn.Conv2d(channels, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU()]
        super().__init__(*layers)


class UNet(nn.Module):
    """Pictures [B, 1, H, W] to logits [B, 4, H, W]; H and W are multiples of 8."""

    def __init__(self, width):
        super().__init__()
        w = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(Convolutions(a, b) for a, b in zip([1, *w[:2]], w[:3]))
        self.bottom = Convolutions(w[2], w[3])
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(w[2::-1], w[:0:-1]))
        self.up = nn.ModuleList(Convolutions(2 * a, a) for a in w[2::-1])
        self.head = nn.Conv2d(width, len(NAMES), 1)

    def forward(self, x):
        seen = []
        for block in self.down:
            seen.append(block(x))
            x = F.max_pool2d(seen[-1], 2)
        x = self.bottom(x)
        for grow, block in zip(self.grow, self.up):
            x = block(fl.cat([grow(x), seen.pop()], dim=1))
        return self.head(x)


def make_model(args):
    return UNet(args.width)


def train(model, args):
    """Returns the loss of every step."""
    optimizer = fl.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = fl.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    losses = []
    model.train()
    for step in range(1, args.steps + 1):
        pictures, shown = make_pictures(args.batch_size, args.size)
        loss = F.cross_entropy(model(pictures), shown)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 50 == 0 or step == args.steps:
            print(f"step {step}: loss {losses[-1]:.4f}")
    return losses


@fl.no_grad()
def overlaps(model, pictures, shown):
    """What the model says of each pixel, and intersection over union of each kind."""
    model.eval()
    said = model(pictures).argmax(1)
    shares = []
    for k in range(len(NAMES)):
        either = ((said == k) | (shown == k)).sum().item()
        shares.append(((said == k) & (shown == k)).sum().item() / max(either, 1))
    return said, shares


def draw(pictures, shown, said, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    rows = (("picture", pictures[:, 0], "gray", None), ("truth", shown, "viridis", 3), ("found", said, "viridis", 3))
    for axes, (title, values, colours, highest) in zip(figure.subplots(3, 6), rows):
        axes[0].set_title(title, fontsize=9, loc="left")
        for axis, value in zip(axes, values):
            axis.imshow(value.numpy(), cmap=colours, vmin=None if highest is None else 0, vmax=highest)
            axis.set_axis_off()
    figure.savefig(path, dpi=70)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=32, help="pixels along a side, a multiple of 8")
    parser.add_argument("--width", type=int, default=12, help="channels of the finest size")
    parser.add_argument("--lr", type=float, default=4e-3, help="learning rate at the beginning")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="unet.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model = make_model(args)
    train(model, args)
    pictures, shown = make_pictures(64, args.size)
    said, shares = overlaps(model, pictures, shown)
    print("intersection over union: " + ", ".join(f"{name} {share:.3f}" for name, share in zip(NAMES, shares)))
    if args.picture:
        draw(pictures, shown, said, args.picture)


if __name__ == "__main__":
    main()
