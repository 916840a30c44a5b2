"""Schedules, alone and put together."""
import flambeau as fl
from flambeau.optim.lr_scheduler import (
    CosineAnnealingLR,
    LambdaLR,
    LinearLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)

w = fl.zeros(1, requires_grad=True)
optimizer = fl.optim.SGD([w], lr=0.1)
warm = LinearLR(optimizer, start_factor=0.1, total_iters=2)
cosine = CosineAnnealingLR(optimizer, T_max=10)
schedule = SequentialLR(optimizer, [warm, cosine], milestones=[2])
for _ in range(3):
    optimizer.step()
    schedule.step()
rates: list[float] = schedule.get_last_lr()
plateau = ReduceLROnPlateau(optimizer, patience=2)
plateau.step(1.0)
others = [StepLR(optimizer, 3), LambdaLR(optimizer, lambda epoch: 0.9**epoch), OneCycleLR(optimizer, max_lr=0.1, total_steps=9)]
print(rates, len(others))
