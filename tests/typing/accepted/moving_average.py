"""An average of weights beside training."""
import copy

import flambeau as fl
from flambeau import nn


class Ema:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @fl.no_grad()
    def update(self, model: nn.Module) -> None:
        for mine, theirs in zip(self.model.parameters(), model.parameters()):
            mine.lerp_(theirs, 1 - self.decay)


model = nn.Linear(2, 2)
ema = Ema(model, 0.9)
ema.update(model)
print(ema.model)
