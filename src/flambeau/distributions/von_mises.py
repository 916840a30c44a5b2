"""`VonMises`: angles around one."""

from __future__ import annotations

import math
from typing import Any

import flambeau as fl
from flambeau import Tensor
from flambeau._C import ops
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import Shape, broadcast_all, lazy_property


class VonMises(Distribution):
    """Angles in radians around `loc`; the larger the `concentration`, the nearer. The variance is the circular one.

    Example:
        >>> import flambeau as fl
        >>> from flambeau.distributions import VonMises
        >>> VonMises(0.0, 1.0).log_prob(fl.tensor(0.0))
        tensor(-1.0738)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        k = self.concentration.double()
        return (1 - (_log_bessel(k, 1) - _log_bessel(k, 0)).exp()).to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        # k cos - log I0(k), with k taken out of both: they cancel where k is large
        half = ((value - self.loc) / 2).sin().square()
        scaled = (_log_bessel(self.concentration.double(), 0) - self.concentration.double()).to(self.loc.dtype)
        return -2 * self.concentration * half - math.log(2 * math.pi) - scaled

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draws by rejection from a wrapped Cauchy distribution (Best and Fisher, Applied Statistics 28, 1979).

        A concentration above 1e8 is drawn as the normal distribution that it tends to; the two differ by about 1 part in the
        concentration.
        """
        shape = self._extended_shape(sample_shape)
        with fl.no_grad():
            k = self.concentration.double()
            tau = 1 + (1 + 4 * k.square()).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = ops.where(k < 1e-5, 1 / k + k, (1 + rho.square()) / (2 * rho)).expand(shape).reshape(-1)
            k = k.expand(shape).reshape(-1)
            angles = ops.zeros_like(k)
            sharp = k > 1e8
            if sharp.any():
                angles[sharp] = ops.randn_like(k[sharp]) / k[sharp].sqrt()
            open_ = ops.nonzero(~sharp)[:, 0]
            while open_.shape[0] > 0:
                u = ops.rand((3, open_.shape[0]), dtype=fl.float64)
                z = ops.cos(math.pi * u[0])
                f = (1 + r[open_] * z) / (r[open_] + z)
                c = k[open_] * (r[open_] - f)
                taken = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0) | c.isnan()
                angles[open_] = ops.where(taken, (u[2] - 0.5).sign() * f.clamp(-1, 1).acos(), angles[open_])
                open_ = open_[~taken]
            angles = angles.reshape(shape) + self.loc.double()
            return ((angles + math.pi) % (2 * math.pi) - math.pi).to(self.loc.dtype)


def _log_bessel(x: Tensor, order: int) -> Tensor:
    """log of the modified Bessel function I0 or I1 of positive x: by the function, and its expansion for large x."""
    small = x.clamp(max=50.0)
    value = ops.i0(small) if order == 0 else ops.i1(small)
    # I_n(x) ~ exp(x) / sqrt(2 pi x) sum_k (-1)^k (4 n^2 - 1) (4 n^2 - 9) .. / (k! (8 x)^k)
    large = x.clamp(min=50.0)
    term, total = ops.ones_like(x), ops.ones_like(x)
    for k in range(1, 15):
        term = term * -(4 * order**2 - (2 * k - 1) ** 2) / (k * 8 * large)
        total = total + term
    return ops.where(x <= 50, value.log(), large - 0.5 * ops.log(2 * math.pi * large) + total.log())
