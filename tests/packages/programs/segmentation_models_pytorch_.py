"""segmentation_models_pytorch: architectures over a dilated or plain ResNet, losses with gradients, metrics."""
import json
import warnings

import segmentation_models_pytorch as smp
import torch

warnings.simplefilter('ignore')
x = (torch.sin(torch.arange(2 * 3 * 64 * 64) * 0.37)).view(2, 3, 64, 64)
target = (torch.arange(2 * 64 * 64) // 97 % 3).view(2, 64, 64)
out = {}
for make in (smp.Unet, smp.FPN, smp.DeepLabV3Plus, smp.Linknet, smp.PSPNet):
    model = make('resnet18', encoder_weights=None, classes=3)
    with torch.no_grad():
        for k, (_, p) in enumerate(sorted(model.named_parameters())):
            p.copy_((torch.sin(torch.arange(p.numel()).double() * (1.0 + 0.01 * k)) / max(1, p[0].numel()) ** 0.5 + (p.ndim == 1)).view(p.shape))
    model.eval()
    y = model(x)
    loss = smp.losses.DiceLoss('multiclass')(y, target) + smp.losses.FocalLoss('multiclass')(y, target)
    loss.backward()
    out[make.__name__] = [*y.shape, loss.item(), sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None)]
scores = smp.metrics.get_stats(target.clamp(max=1), (target + 1) % 2, mode='multiclass', num_classes=2)
out['iou'] = smp.metrics.iou_score(*scores, reduction='macro').item()
print(json.dumps(out))
