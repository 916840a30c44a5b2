"""Parameter groups with options of their own."""
import flambeau as fl
from flambeau import nn

model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
optimizer = fl.optim.AdamW(
    [{"params": model[0].parameters(), "lr": 1e-4}, {"params": model[1].parameters()}], lr=1e-3, weight_decay=0.01, betas=(0.9, 0.99)
)
for group in optimizer.param_groups:
    group["lr"] *= 0.5
optimizer.add_param_group({"params": [fl.zeros(1, requires_grad=True)]})
print([group["lr"] for group in optimizer.param_groups])
