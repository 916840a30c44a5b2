"""torchvision: transforms of tensors and pictures, boxes, and classification models forward and backward."""
import json
import sys
import warnings

import numpy as np
import torch
from PIL import Image
from torchvision import models, ops, transforms, utils
from torchvision.transforms import v2

warnings.simplefilter('ignore')
out = {}
pixels = (np.arange(40 * 48 * 3).reshape(40, 48, 3) * 7 % 256).astype(np.uint8)
picture = Image.fromarray(pixels)
tensor = transforms.ToTensor()(picture)
out['to_tensor'] = [list(tensor.shape), tensor.double().sum().item()]
normal = transforms.Normalize([0.5] * 3, [0.2, 0.3, 0.4])
chain = transforms.Compose([transforms.Resize(32), transforms.CenterCrop(24), transforms.ToTensor(), normal])
out['picture'] = chain(picture).double().sum().item()
out['crop'] = transforms.CenterCrop(20)(tensor).double().sum().item()
out['resize'] = transforms.Resize((20, 24), antialias=True)(tensor).double().sum().item()
out['bicubic'] = transforms.Resize((55, 21), transforms.InterpolationMode.BICUBIC, antialias=True)(tensor).double().sum().item()
out['bytes'] = v2.functional.resize(torch.from_numpy(pixels).permute(2, 0, 1), [20, 24], antialias=True).double().mean().item()
out['grey'] = transforms.functional.rgb_to_grayscale(tensor).double().sum().item()
out['jitter'] = [transforms.functional.adjust_brightness(tensor, 1.3).double().sum().item(), transforms.functional.adjust_contrast(tensor, 0.7).double().sum().item(),
                 transforms.functional.adjust_saturation(tensor, 1.4).double().sum().item(), transforms.functional.adjust_hue(tensor, 0.1).double().sum().item()]
out['blur'] = transforms.functional.gaussian_blur(tensor, [5, 5], [1.0, 1.0]).double().sum().item()
out['rotate'] = transforms.functional.rotate(tensor, 30.0).double().sum().item()
out['affine'] = transforms.functional.affine(tensor, 10.0, [2, 3], 1.2, [5.0, 0.0]).double().sum().item()
out['perspective'] = transforms.functional.perspective(tensor, [[0, 0], [47, 0], [47, 39], [0, 39]], [[2, 3], [45, 0], [47, 37], [0, 39]]).double().sum().item()
torch.manual_seed(0)
augmented = v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip(1.0), v2.RandomResizedCrop(16), v2.ToDtype(torch.float32, scale=True), v2.RandomErasing(1.0)])(picture)
out['v2'] = list(augmented.shape)
out['v2_fixed'] = v2.Compose([v2.ToImage(), v2.Resize((30, 30)), v2.CenterCrop(24), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3)])(
    picture).double().sum().item()
boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [2.0, 2.0, 12.0, 9.0], [20.0, 5.0, 30.0, 15.0]])
out['boxes'] = [ops.box_iou(boxes, boxes).tolist(), ops.generalized_box_iou(boxes, boxes).tolist(), ops.box_convert(boxes, 'xyxy', 'cxcywh').tolist(), ops.box_area(boxes).tolist()]
out['focal'] = ops.sigmoid_focal_loss(boxes, (boxes > 5).float(), reduction='mean').item()
out['grid'] = list(utils.make_grid(tensor[None].repeat(5, 1, 1, 1), nrow=3).shape)
for name in sys.argv[1:] or ['resnet18', 'mobilenet_v3_small', 'shufflenet_v2_x0_5', 'squeezenet1_1', 'mnasnet0_5', 'regnet_y_400mf', 'convnext_tiny', 'vit_b_32', 'swin_t']:
    model = models.get_model(name, num_classes=5).eval()
    with torch.no_grad():
        for i, (key, p) in enumerate(sorted(model.named_parameters())):
            scale = (3.0 / max(p[0].numel(), 1)) ** 0.5 if p.ndim > 1 else 0.05
            value = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * 1.37 + i).view(p.shape) * scale
            p.copy_(value + (1 if p.ndim == 1 and key.endswith('weight') else 0))
    x = torch.sin(torch.arange(3 * 64 * 64).float() * 0.01).view(1, 3, 64, 64)
    if name.startswith('vit'):
        x = torch.nn.functional.interpolate(x, size=224)
    y = model(x)
    y.square().sum().backward()
    out[name] = [y[0].tolist(), sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None)]
print(json.dumps(out))
