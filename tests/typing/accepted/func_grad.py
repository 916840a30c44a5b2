"""Transformations keep the arguments of the function."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau.func import grad, hessian, jacrev, jvp, vjp, vmap


def energy(x: fl.Tensor, k: float) -> fl.Tensor:
    return 0.5 * k * (x**2).sum()


assert_type(grad(energy)(fl.ones(3), 2.0), fl.Tensor)


def dot(a: fl.Tensor, b: fl.Tensor) -> fl.Tensor:
    return (a * b).sum()


pair = grad(dot, argnums=(0, 1))(fl.ones(2), fl.ones(2))
assert_type(pair, tuple[fl.Tensor, ...])
value, pullback = vjp(lambda x: x.sin(), fl.ones(2))
print(jacrev(fl.sin)(fl.ones(2)).shape, hessian(lambda x: (x**3).sum())(fl.ones(2)).shape, value, jvp(fl.sin, (fl.ones(2),), (fl.ones(2),)))
print(vmap(fl.dot)(fl.ones(3, 2), fl.ones(3, 2)))
