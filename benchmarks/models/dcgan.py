"""DCGAN (Radford et al. 2016): a generator and a discriminator of 64x64, each with its Adam."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.program import Program, normal

N_LATENT = 100
WIDTH = 64


def init_weights(T: Any, model: Any) -> Any:
    """As in the paper."""
    nn = T.nn
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(module.weight, 0.0, 0.02)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.02)
            nn.init.zeros_(module.bias)
    return model


def generator(T: Any) -> Any:
    """[B, 100, 1, 1] to [B, 3, 64, 64]."""
    nn = T.nn
    layers: list[Any] = []
    n_in = N_LATENT
    for i, n_out in enumerate((8 * WIDTH, 4 * WIDTH, 2 * WIDTH, WIDTH)):
        stride, padding = (1, 0) if i == 0 else (2, 1)
        layers += [
            nn.ConvTranspose2d(n_in, n_out, 4, stride, padding, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(True),
        ]
        n_in = n_out
    layers += [nn.ConvTranspose2d(n_in, 3, 4, 2, 1, bias=False), nn.Tanh()]
    return init_weights(T, nn.Sequential(*layers))


def discriminator(T: Any) -> Any:
    """[B, 3, 64, 64] to [B] logits."""
    nn = T.nn
    layers = [nn.Conv2d(3, WIDTH, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    n_in = WIDTH
    for n_out in (2 * WIDTH, 4 * WIDTH, 8 * WIDTH):
        layers += [
            nn.Conv2d(n_in, n_out, 4, 2, 1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.LeakyReLU(0.2, inplace=True),
        ]
        n_in = n_out
    layers += [nn.Conv2d(n_in, 1, 4, 1, 0, bias=False), nn.Flatten(0)]
    return init_weights(T, nn.Sequential(*layers))


class Dcgan(Program):
    """The targets are the real pictures; the noise is the same in every step."""

    name = "dcgan"
    title = "DCGAN, 64x64, batch 32, Adam"
    item = "image"
    batch = 32
    images = True

    def networks(self) -> dict[str, Any]:
        return {"generator": generator(self.T), "discriminator": discriminator(self.T)}

    def data(self, rng: np.random.Generator, n: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        return (normal(rng, n, N_LATENT, 1, 1),), np.tanh(normal(rng, n, 3, 64, 64))

    def loss(self, output: Any, targets: Any) -> Any:
        return self.T.nn.functional.binary_cross_entropy_with_logits(output, targets)

    def optimizer(self, parameters: Any, **options: Any) -> Any:
        return self.T.optim.Adam(parameters, lr=2e-5, betas=(0.5, 0.999), **options)

    def step(self) -> Any:
        """The discriminator on real and on made pictures, then the generator."""
        net_g, net_d = self.modules["generator"], self.modules["discriminator"]
        (noise,), real = self.inputs, self.targets
        ones, zeros = real.new_ones(real.size(0)), real.new_zeros(real.size(0))

        net_d.zero_grad()
        with self.autocast():
            loss_real = self.loss(net_d(real), ones)
        loss_real.backward()
        with self.autocast():
            fake = net_g(noise)
            loss_fake = self.loss(net_d(fake.detach()), zeros)
        loss_fake.backward()
        self.optimizers["discriminator"].step()

        net_g.zero_grad()
        with self.autocast():
            loss_g = self.loss(net_d(fake), ones)
        loss_g.backward()
        self.optimizers["generator"].step()
        return loss_real.detach() + loss_fake.detach() + loss_g.detach()
