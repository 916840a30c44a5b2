"""opacus: gradients of single samples by hooks, by functorch and as norms alone; training with clipped ones; what privacy they keep."""
import json
import math
import warnings

import torch
from opacus import GradSampleModule, PrivacyEngine, layers
from opacus.accountants import GaussianAccountant, PRVAccountant, RDPAccountant
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.validators import ModuleValidator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(math.prod(shape), dtype=torch.float64) * k).reshape(shape).float()


def filled(model):
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(model.named_parameters())):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * (0.5 if p.ndim > 1 else 0.2))
    return model


out = {}
for name, module, *shapes in (
    ("linear", nn.Linear(4, 3), (5, 2, 4)), ("conv1d", nn.Conv1d(4, 6, 3, padding=1, stride=2), (5, 4, 9)), ("conv2d", nn.Conv2d(4, 6, 3, groups=2), (5, 4, 8, 8)),
    ("conv3d", nn.Conv3d(2, 3, 2), (5, 2, 4, 4, 4)), ("group_norm", nn.GroupNorm(2, 4), (5, 4, 6)), ("layer_norm", nn.LayerNorm(4), (5, 3, 4)),
    ("instance_norm", nn.InstanceNorm2d(4, affine=True), (5, 4, 6, 6)), ("lstm", layers.DPLSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True), (3, 6, 4)),
    ("gru", layers.DPGRU(4, 5, batch_first=True), (3, 6, 4)), ("attention", layers.DPMultiheadAttention(8, 2), *((4, 3, 8),) * 3),
):  # fmt: skip
    module = GradSampleModule(filled(module))
    y = module(*(wave(*shape) for shape in shapes))
    y = y[0] if isinstance(y, tuple) else y
    (y * wave(*y.shape, k=1.3)).sum().backward()
    out[name] = [[*p.grad_sample.shape, p.grad_sample.abs().sum().item()] for _, p in sorted(module.named_parameters())]
module = GradSampleModule(filled(nn.Embedding(10, 4)))
module(torch.tensor([[1, 2], [3, 1], [0, 9]])).square().sum().backward()
out["embedding"] = [p.grad_sample.sum((1, 2)).tolist() for p in module.parameters()]
for mode in ("hooks", "functorch", "ghost"):
    model = filled(nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)))
    criterion, step, losses = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
    loader = DataLoader(TensorDataset(wave(12, 1, 8, 8), torch.arange(12) % 3), batch_size=4)
    given = {"noise_multiplier": 0.0, "max_grad_norm": 1.0, "poisson_sampling": False, "grad_sample_mode": mode}
    made = PrivacyEngine(accountant="rdp").make_private(module=model, optimizer=step, data_loader=loader, criterion=criterion, **given)
    model, step, criterion, loader = made if mode == "ghost" else (made[0], made[1], criterion, made[2])
    for _ in range(2):
        for x, y in loader:
            step.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            step.step()
            losses.append(loss.item())
    out[mode] = [losses, sum(p.abs().sum().item() for p in model.parameters()), sorted(model.state_dict())]
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model, step, loader = PrivacyEngine().make_private_with_epsilon(
    module=model, optimizer=torch.optim.Adam(model.parameters(), lr=0.01), data_loader=DataLoader(TensorDataset(wave(32, 4), torch.arange(32) % 2), batch_size=8),
    target_epsilon=5.0, target_delta=1e-3, epochs=2, max_grad_norm=1.0,
)  # fmt: skip
with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=step) as parts:
    for x, y in parts:
        step.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        step.step()
out["noise"] = [step.noise_multiplier, type(loader.batch_sampler).__name__, all(p.isfinite().all().item() for p in model.parameters())]
for kind in (RDPAccountant, GaussianAccountant, PRVAccountant):
    account = kind()
    for _ in range(10):
        account.step(noise_multiplier=1.1, sample_rate=0.05)
    out[kind.__name__] = account.get_epsilon(1e-5)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.LSTM(4, 4), nn.MultiheadAttention(4, 2))
fixed = ModuleValidator.fix(model)
out["fixed"] = [len(ModuleValidator.validate(model)), ModuleValidator.is_valid(fixed), repr(fixed)]
print(json.dumps(out))
