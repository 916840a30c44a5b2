"""kornia: filters, colours, geometry of pictures, with gradients."""
import json

import kornia
import torch

x = (torch.sin(torch.arange(2 * 3 * 24 * 24).double() * 0.37) * 0.5 + 0.5).view(2, 3, 24, 24).requires_grad_()
matrix = torch.tensor([[[0.9, 0.1, 1.0], [-0.1, 1.1, -2.0]]]).double().expand(2, 2, 3)
out = {}
for name, f in {
    'gaussian': lambda v: kornia.filters.gaussian_blur2d(v, (5, 5), (1.5, 1.5)),
    'sobel': kornia.filters.sobel,
    'median': lambda v: kornia.filters.median_blur(v, (3, 3)),
    'hsv': kornia.color.rgb_to_hsv,
    'lab': kornia.color.rgb_to_lab,
    'grayscale': kornia.color.rgb_to_grayscale,
    'affine': lambda v: kornia.geometry.warp_affine(v, matrix, (20, 22)),
    'resize': lambda v: kornia.geometry.resize(v, (12, 30)),
    'dilation': lambda v: kornia.morphology.dilation(v, torch.ones(3, 3).double()),
    'laplacian': lambda v: kornia.filters.laplacian(v, 3),
}.items():
    y = f(x)
    (dx,) = torch.autograd.grad(y.square().sum(), x)
    out[name] = [*y.shape, y.sum().item(), dx.abs().sum().item()]
print(json.dumps(out))
