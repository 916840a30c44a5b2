"""no_grad in a with, as a decorator, with and without brackets."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn


@fl.no_grad()
def evaluate(model: nn.Module, x: fl.Tensor) -> float:
    return float(model(x).mean())


@fl.no_grad
def double(x: fl.Tensor) -> fl.Tensor:
    return x * 2


@fl.inference_mode()
def predict(model: nn.Linear, x: fl.Tensor) -> fl.Tensor:
    return model(x)


assert_type(evaluate(nn.Linear(2, 1), fl.ones(1, 2)), float)
assert_type(double(fl.ones(2)), fl.Tensor)
assert_type(predict(nn.Linear(2, 1), fl.ones(1, 2)), fl.Tensor)
with fl.enable_grad(), fl.set_grad_enabled(False):
    print(fl.is_grad_enabled())
