"""A variational autoencoder."""
import flambeau as fl
import flambeau.nn.functional as F
from flambeau import nn


class Vae(nn.Module):
    def __init__(self, n: int, latent: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(n, 2 * latent)
        self.decoder = nn.Linear(latent, n)

    def forward(self, x: fl.Tensor) -> tuple[fl.Tensor, fl.Tensor, fl.Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        z = mean + fl.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(z), mean, log_variance


def loss_of(x: fl.Tensor, y: fl.Tensor, mean: fl.Tensor, log_variance: fl.Tensor) -> fl.Tensor:
    kl = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(-1)
    return (F.binary_cross_entropy_with_logits(y, x, reduction="none").sum(-1) + kl).mean()


x = fl.rand(4, 6)
loss = loss_of(x, *Vae(6, 2)(x))
loss.backward()
print(loss.item() > 0)
