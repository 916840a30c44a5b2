"""Fine-tuning: freeze, replace, count."""
import flambeau as fl
from flambeau import nn

backbone = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
for p in backbone.parameters():
    p.requires_grad = False
model = nn.Sequential(backbone, nn.Linear(8, 2))
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = fl.optim.Adam(trainable, lr=1e-3)
counts: dict[str, int] = {name: p.numel() for name, p in model.named_parameters()}
print(len(trainable), counts, model.requires_grad_(True).training)
