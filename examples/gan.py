"""A small generative adversarial network draws handwritten digits.

Two models with two optimizers are updated in turn: the discriminator learns to tell real pictures
from drawn ones, the generator to draw pictures that pass (Goodfellow et al. 2014, with the
non-saturating loss of section 3).

    python examples/gan.py --steps 2000
"""

import argparse

import flambeau as fl
from flambeau import nn
from flambeau.datasets import Digits
from flambeau.utils.data import DataLoader, TensorDataset

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


def endless(loader):
    """Batches without end."""
    while True:
        yield from loader


def show(pictures):
    """Prints pictures [N, 1, 8, 8] side by side as text."""
    shades = " .:-=+*#%@"
    rows = ((pictures.squeeze(1) + 1) / 2 * (len(shades) - 1)).round().tolist()
    for y in range(8):
        print("  ".join("".join(shades[int(v)] * 2 for v in picture[y]) for picture in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    fl.manual_seed(args.seed)
    digits = Digits(train=True)
    real_pictures = digits.data.unsqueeze(1) / 8.0 - 1.0  # 0..16 -> -1..1
    loader = DataLoader(
        TensorDataset(real_pictures), batch_size=args.batch_size, shuffle=True, drop_last=True
    )
    generator, discriminator = make_generator(), make_discriminator()
    optimizer_g = fl.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    optimizer_d = fl.optim.Adam(discriminator.parameters(), lr=5e-4, betas=(0.5, 0.999))
    loss_fn = nn.BCEWithLogitsLoss()
    ones = fl.ones(args.batch_size)
    zeros = fl.zeros(args.batch_size)

    for step, (real,) in zip(range(1, args.steps + 1), endless(loader)):
        drawn = generator(fl.randn(args.batch_size, N_NOISE))

        # The discriminator: real pictures up, drawn ones down. `detach` keeps the generator out.
        optimizer_d.zero_grad()
        loss_d = loss_fn(discriminator(real), 0.9 * ones)
        loss_d = loss_d + loss_fn(discriminator(drawn.detach()), zeros)
        loss_d.backward()
        optimizer_d.step()

        # The generator: what it drew should count as real.
        optimizer_g.zero_grad()
        loss_g = loss_fn(discriminator(drawn), ones)
        loss_g.backward()
        optimizer_g.step()

        if step % 250 == 0 or step == args.steps:
            print(f"step {step}: discriminator {loss_d.item():.3f}, generator {loss_g.item():.3f}")

    generator.eval()
    with fl.no_grad():
        show(generator(fl.randn(4, N_NOISE)))


if __name__ == "__main__":
    main()
