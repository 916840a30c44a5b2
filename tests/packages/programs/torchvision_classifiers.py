"""torchvision: each of its classification models with fixed weights, two small pictures: outputs, and gradients of the weights.

`python torchvision_classifiers.py all` takes the largest ones, too (5 GB of memory), and names take those.
"""
import json
import sys
import warnings

import torch
from torchvision import models

warnings.simplefilter('ignore')
LARGE = '''convnext_base convnext_large efficientnet_b5 efficientnet_b6 efficientnet_b7 efficientnet_v2_m efficientnet_v2_l regnet_x_16gf regnet_x_32gf regnet_y_16gf regnet_y_32gf
           regnet_y_128gf resnet152 resnext101_32x8d resnext101_64x4d swin_b swin_v2_b vgg11 vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn vit_b_16 vit_h_14 vit_l_16 vit_l_32
           wide_resnet101_2'''.split()
SIZES = {'inception_v3': 96, 'maxvit_t': 224, 'vit_h_14': 56}
# Options of those that ask for a size, and of those that compute initial weights for minutes.
OPTIONS = {'googlenet': dict(init_weights=False), 'inception_v3': dict(init_weights=False)}

known = sorted(models.list_models(module=models))
chosen = sys.argv[1:] or [name for name in known if name not in LARGE]
out = {}
for name in known if chosen == ['all'] else chosen:
    size = SIZES.get(name, 64)
    options = dict(image_size=size) if name.startswith('vit') else OPTIONS.get(name, {})
    model = models.get_model(name, weights=None, num_classes=5, **options).eval()
    with torch.no_grad():
        for i, (key, p) in enumerate(sorted(model.named_parameters())):
            value = torch.sin(torch.arange(10007, dtype=torch.float64) * 1.37 + i).float().repeat(p.numel() // 10007 + 1)[: p.numel()].view(p.shape)
            if p.ndim > 1:
                p.copy_(value * (3.0 / p[0].numel()) ** 0.5)
            else:
                p.copy_(value * 0.05 + (1 if key.endswith('weight') else 0))
    x = torch.sin(torch.arange(6 * size * size).float() * 0.01).view(2, 3, size, size)
    y = model(x)
    y.square().sum().backward()
    grads = [p.grad.double() for p in model.parameters() if p.grad is not None]
    out[name] = [y[0].tolist(), sum(g.abs().sum().item() for g in grads), sum(g.square().sum().item() for g in grads) ** 0.5]
print(json.dumps(out))
