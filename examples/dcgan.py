"""A small generative adversarial network draws handwritten digits (DCGAN, Radford et al. 2016, at 8 x 8 pixels).

Two models with two optimizers are updated in turn: the discriminator learns to tell real pictures from drawn ones, the generator to draw
pictures that pass (Goodfellow et al. 2014, with the non-saturating loss of section 3).

    python examples/dcgan.py --steps 3000
"""

import argparse

import flambeau as fl
from flambeau.datasets import Digits

nn, F = fl.nn, fl.nn.functional
N_NOISE = 32


def make_generator():
    """Noise [B, 32] -> pictures [B, 1, 8, 8] in -1..1."""
    return nn.Sequential(
        nn.Linear(N_NOISE, 64 * 2 * 2),
        nn.Unflatten(1, (64, 2, 2)),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),  # [B, 32, 4, 4]
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),  # [B, 1, 8, 8]
        nn.Tanh(),
    )


def make_discriminator():
    """Pictures [B, 1, 8, 8] -> one logit each, positive for "real"."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 4, stride=2, padding=1),  # [B, 32, 4, 4]
        nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, stride=2, padding=1),  # [B, 64, 2, 2]
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(256, 1),
        nn.Flatten(0),
    )


def make_model(args):
    return nn.ModuleDict({"generator": make_generator(), "discriminator": make_discriminator()})


def train(model, args, watch=None):
    """Returns the sum of both losses of every step; `watch` is called with the number of each step."""
    generator, discriminator = model["generator"], model["discriminator"]
    real_pictures = fl.from_dlpack(Digits(train=True).data).unsqueeze(1) / 8.0 - 1.0  # 0..16 -> -1..1
    optimizer_g = fl.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    optimizer_d = fl.optim.Adam(discriminator.parameters(), lr=5e-4, betas=(0.5, 0.999))
    ones, zeros = fl.ones(args.batch_size), fl.zeros(args.batch_size)
    losses = []
    for step in range(1, args.steps + 1):
        real = real_pictures[fl.randint(0, len(real_pictures), (args.batch_size,))]
        drawn = generator(fl.randn(args.batch_size, N_NOISE))

        # The discriminator: real pictures up, drawn ones down. `detach` keeps the generator out.
        optimizer_d.zero_grad()
        loss_d = F.binary_cross_entropy_with_logits(discriminator(real), 0.9 * ones)
        loss_d = loss_d + F.binary_cross_entropy_with_logits(discriminator(drawn.detach()), zeros)
        loss_d.backward()
        optimizer_d.step()

        # The generator: what it drew should count as real.
        optimizer_g.zero_grad()
        loss_g = F.binary_cross_entropy_with_logits(discriminator(drawn), ones)
        loss_g.backward()
        optimizer_g.step()

        losses.append(loss_d.item() + loss_g.item())
        if step % 500 == 0 or step == args.steps:
            print(f"step {step}: discriminator {loss_d.item():.3f}, generator {loss_g.item():.3f}")
        if watch:
            watch(step)
    return losses


@fl.no_grad()
def draw_from(generator, noise):
    """Pictures as an array [N, 8, 8]."""
    generator.eval()
    pictures = generator(noise).squeeze(1).numpy()
    generator.train()
    return pictures


def draw(rows, path):
    """`rows`: a title and pictures [N, 8, 8] each."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    n = len(rows[0][1])
    figure = Figure(figsize=(8, 0.64 * len(rows)), layout="constrained")
    for axes, (title, pictures) in zip(figure.subplots(len(rows), n + 1), rows):
        axes[0].text(1, 0.5, title, ha="right", va="center", fontsize=9)
        for axis, picture in zip(axes[1:], pictures):
            axis.imshow(picture, cmap="gray_r", vmin=-1, vmax=1)
        for axis in axes:
            axis.set_axis_off()
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="dcgan.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model = make_model(args)
    noise = fl.randn(12, N_NOISE)  # the same for all rows: one sees pictures become digits
    rows = [("step 0", draw_from(model["generator"], noise))]

    def watch(step):
        if step in (args.steps // 20, args.steps // 5, args.steps):
            rows.append((f"step {step}", draw_from(model["generator"], noise)))

    losses = train(model, args, watch)
    print(f"both losses together: {losses[0]:.3f} -> {losses[-1]:.3f}")
    if args.picture:
        real = Digits(train=True).data[:12] / 8.0 - 1.0
        draw([*rows, ("real", real.numpy())], args.picture)


if __name__ == "__main__":
    main()
