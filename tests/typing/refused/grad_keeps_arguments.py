import flambeau as fl
from flambeau.func import grad


def f(x: fl.Tensor, k: float) -> fl.Tensor:
    return (x * k).sum()


grad(f)(fl.ones(2))  # error: Too few arguments
grad(f)(fl.ones(2), "k")  # error: expected "float"
