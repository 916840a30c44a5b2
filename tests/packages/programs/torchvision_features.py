"""torchvision's feature extractors and timm's, which are made of traced graphs: names of nodes, features, gradients, code."""
import copy
import hashlib
import json
import warnings

import timm
import torch
from torchvision import models
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

warnings.simplefilter('ignore')
out = {}


def fill(model):
    with torch.no_grad():
        for i, (key, p) in enumerate(sorted(model.named_parameters())):
            scale = (3.0 / max(p[0].numel(), 1)) ** 0.5 if p.ndim > 1 else 0.05
            value = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * 1.37 + i).view(p.shape) * scale
            p.copy_(value + (1 if p.ndim == 1 and key.endswith('weight') else 0))
    return model.eval()


def vit(num_classes):
    return models.VisionTransformer(32, 16, 2, 2, 16, 32, num_classes=num_classes)


x = torch.sin(torch.arange(3 * 32 * 32).float() * 0.01).view(1, 3, 32, 32)
for name, make, nodes in (('resnet18', models.resnet18, ['layer1', 'layer3.0.relu', 'avgpool']), ('mobilenet_v3_small', models.mobilenet_v3_small, ['features.4', 'features.12', 'flatten']),
                          ('vit', vit, {'encoder.layers.encoder_layer_0.add_1': 'first', 'heads': 'last'})):
    model = fill(make(num_classes=5))
    train, evaluate = get_graph_node_names(model)
    features = create_feature_extractor(model, nodes).eval()
    found = features(x)
    text = features.code.replace('torch.nn.functional', 'torch').replace('torch._C._nn', 'torch')
    out[name] = [train == evaluate, len(evaluate), evaluate[::7], {key: [list(v.shape), v.double().abs().sum().item()] for key, v in found.items()}]
    out[name].append(hashlib.sha256(text.encode()).hexdigest())
    sum(v.square().mean() for v in found.values()).backward()
    out[name].append(sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None))
    copied = copy.deepcopy(features).eval()
    out[name].append(sum(v.double().abs().sum().item() for v in copied(x).values()))
for name, more in (('resnet18', {'feature_cls': 'fx'}), ('efficientnet_b0', {'feature_cls': 'fx'}), ('vgg11', {'feature_cls': 'fx'})):
    model = fill(timm.create_model(name, features_only=True, out_indices=(1, 3), **more))
    out[f'timm {name}'] = [type(model).__name__, [[list(v.shape), v.double().abs().sum().item()] for v in model(x)]]
from timm.models import FeatureGraphNet, GraphExtractNet

model = fill(timm.create_model('vit_tiny_patch16_224', img_size=32, depth=2, embed_dim=24, num_heads=2, num_classes=5))
extract = GraphExtractNet(model, {'blocks.0': 'first', 'norm': 'norm'}, squeeze_out=False)
result = extract(x)
out['timm vit'] = [sorted(result) if isinstance(result, dict) else len(result), [v.double().abs().sum().item() for v in (result.values() if isinstance(result, dict) else result)]]
print(json.dumps(out))
