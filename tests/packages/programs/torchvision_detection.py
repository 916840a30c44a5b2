"""torchvision: detection models with fixed weights: what they find, and a training step; operators of the extension on their own."""
import json
import sys
import warnings

import torch
from torchvision import ops
from torchvision.models import detection, resnet18
from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor

warnings.simplefilter('ignore')
SMALL = dict(weights=None, weights_backbone=None, num_classes=5, min_size=64, max_size=64)


def maskrcnn():
    backbone = _resnet_fpn_extractor(resnet18(weights=None, norm_layer=ops.misc.FrozenBatchNorm2d), 5)
    few = dict(box_batch_size_per_image=16, box_detections_per_img=8, rpn_post_nms_top_n_train=100, rpn_post_nms_top_n_test=100)
    return detection.MaskRCNN(backbone, num_classes=5, min_size=64, max_size=64, **few)


MODELS = {
    'fasterrcnn': lambda: detection.fasterrcnn_mobilenet_v3_large_320_fpn(**SMALL),
    'maskrcnn': maskrcnn,
    'retinanet': lambda: detection.RetinaNet(_resnet_fpn_extractor(resnet18(weights=None), 5, [2, 3, 4], ops.feature_pyramid_network.LastLevelP6P7(256, 256)),
                                             5, min_size=64, max_size=64),
    'ssdlite': lambda: detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5),
    'fcos': lambda: detection.FCOS(_resnet_fpn_extractor(resnet18(weights=None), 5, [2, 3, 4], ops.feature_pyramid_network.LastLevelP6P7(256, 256)), 5,
                                   min_size=64, max_size=64),
}
out = {}
for name in sys.argv[1:] or MODELS:
    torch.manual_seed(0)
    model = MODELS[name]()
    pictures = [torch.sin(torch.arange(3 * 64 * 64).float() * 0.01 * (i + 1)).view(3, 64, 64).abs() for i in range(2)]
    boxes = torch.tensor([[4.0, 5.0, 30.0, 40.0], [20.0, 22.0, 60.0, 50.0]])
    masks = torch.zeros(2, 64, 64, dtype=torch.uint8)
    masks[0, 5:40, 4:30] = 1
    targets = [{'boxes': boxes, 'labels': torch.tensor([1, 2]), 'masks': masks} for _ in pictures]
    model.train()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 1e-3)
    steps = []
    for step in range(2):
        losses = model(pictures, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.append(loss.item())
    with torch.no_grad():
        found = model.eval()(pictures)
    out[name] = {'losses': sorted(losses), 'steps': steps, 'grad': sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None),
                 'found': [[len(f['boxes']), sorted(f)] for f in found]}

rois = [torch.tensor([[1.0, 1.0, 9.0, 9.0]])]
x = torch.sin(torch.arange(2 * 16 * 16).float()).view(1, 2, 16, 16).requires_grad_()
with torch.autocast('cpu', torch.bfloat16):
    pooled = ops.roi_align(x.bfloat16(), [r.bfloat16() for r in rois], 2)
    kept = ops.nms(torch.cat(rois * 2).bfloat16(), torch.tensor([0.5, 0.7]).bfloat16(), 0.5)
out['autocast'] = [str(pooled.dtype), kept.tolist()]
ops.roi_align(x, rois, 2).sum().backward()
out['gradient'] = x.grad.sum().item()
out['meta'] = list(ops.roi_align(x.to('meta'), torch.zeros(3, 5, device='meta'), 2).shape)
try:
    x.grad = None
    y = ops.roi_align(x, rois, 2).square().sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    g.sum().backward()
except RuntimeError as error:
    out['twice'] = str(error)
layer = ops.DeformConv2d(2, 3, 3, padding=1)
out['deform'] = list(layer(x, torch.zeros(1, 18, 16, 16)).shape)
plain = torch.nn.functional.conv2d(x, layer.weight, layer.bias, padding=1)
out['same'] = bool(torch.allclose(layer(x, torch.zeros(1, 18, 16, 16)), plain, atol=1e-5))
print(json.dumps(out))
