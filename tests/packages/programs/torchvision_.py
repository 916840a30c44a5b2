"""torchvision: transforms of tensors and pictures, and boxes. Its classification models are in torchvision_classifiers.py."""
import json
import warnings

import numpy as np
import torch
from PIL import Image
from torchvision import ops, transforms, utils
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
print(json.dumps(out))
