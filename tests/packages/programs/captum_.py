"""captum: attributions of a small convolutional network, by gradients, by perturbations and by rules."""
import json

import captum.attr as attr
import torch
from torch import nn


def wave(*shape, k=0.37):
    n = 1
    for size in shape:
        n *= size
    return torch.sin(torch.arange(n, dtype=torch.float64) * k).reshape(shape)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.act, self.pool, self.fc = nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Linear(27, 4)

    def forward(self, x):
        return self.fc(self.pool(self.act(self.conv(x))).flatten(1))


net = Net().double()
for i, p in enumerate(net.parameters()):
    p.data = wave(*p.shape, k=0.7 + i) * 0.4
x, zero = wave(2, 1, 8, 8), torch.zeros(2, 1, 8, 8).double()
mask = (torch.arange(64) // 8).view(1, 1, 8, 8)
found = {
    "integrated_gradients": attr.IntegratedGradients(net).attribute(x, zero, target=1, n_steps=10),
    "saliency": attr.Saliency(net).attribute(x.clone(), target=1),
    "deep_lift": attr.DeepLift(net).attribute(x, zero, target=1),
    "guided_backprop": attr.GuidedBackprop(net).attribute(x.clone(), target=1),
    "grad_cam": attr.LayerGradCam(net, net.conv).attribute(x, target=1),
    "occlusion": attr.Occlusion(net).attribute(x, (1, 3, 3), target=1, strides=(1, 2, 2)),
    "ablation": attr.FeatureAblation(net).attribute(x, target=1, feature_mask=mask),
    "lrp": attr.LRP(net).attribute(x, target=1),
    "conductance": attr.LayerConductance(net, net.conv).attribute(x, target=1, n_steps=5),
    "neuron": attr.NeuronConductance(net, net.fc).attribute(x, (1,), target=1, n_steps=5),
}
print(json.dumps({name: [*a.shape, a.sum().item(), a.abs().sum().item()] for name, a in found.items()}))
