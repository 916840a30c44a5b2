"""timm: models with fixed weights: outputs and gradients; a training step with its optimizer and schedule."""
import json
import sys
import warnings

import timm
import torch
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3

warnings.simplefilter('ignore')
out = {}
for name in sys.argv[1:] or ['resnet18', 'mobilenetv3_small_100', 'efficientnet_b0', 'regnety_002', 'convnext_atto', 'vit_tiny_patch16_224', 'mixer_s32_224', 'repvgg_a0',
                             'lcnet_050', 'mobilevit_xxs', 'ghostnet_100', 'edgenext_xx_small']:
    model = timm.create_model(name, num_classes=5).eval()
    with torch.no_grad():
        for i, (key, p) in enumerate(sorted(model.named_parameters())):
            if p.ndim > 1:
                value = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * 1.37 + i).view(p.shape)
                p.copy_(value * (4.0 / p[0].numel()) ** 0.5)
            else:
                p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + i).view(p.shape) * 0.1 + (0 if key.endswith('bias') else 1))
    size = min(model.default_cfg['input_size'][-1], 224)
    x = torch.sin(torch.arange(3 * size * size).float() * 0.01).view(1, 3, size, size)
    y = model(x)
    (y * 1e3).sum().backward()
    out[name] = [y[0].tolist(), sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None)]

model = timm.create_model('test_resnet', num_classes=5).double()
with torch.no_grad():
    for i, (key, p) in enumerate(sorted(model.named_parameters())):
        if p.ndim > 1:
            p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float64) * 1.37 + i).view(p.shape) * (2.0 / p[0].numel()) ** 0.5)
        elif key.endswith('bias'):
            p.zero_()
optimizer = create_optimizer_v2(model, opt='adamw', lr=1e-3, weight_decay=0.05)
scheduler = CosineLRScheduler(optimizer, t_initial=5, warmup_t=1, warmup_lr_init=1e-4)
ema = ModelEmaV3(model, decay=0.9)
x = torch.sin(torch.arange(4 * 3 * 32 * 32).double() * 0.01).view(4, 3, 32, 32)
target = torch.tensor([0, 1, 2, 3])
losses = []
for step in range(4):
    loss = torch.nn.functional.cross_entropy(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step(step + 1)
    ema.update(model)
    losses.append(loss.item())
out['training'] = [losses, optimizer.param_groups[0]['lr']]
print(json.dumps(out))
