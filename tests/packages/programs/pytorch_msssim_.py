"""pytorch_msssim: similarity of pictures at one and at several scales, with gradients."""
import json

import torch
from pytorch_msssim import MS_SSIM, ms_ssim, ssim

x = (torch.sin(torch.arange(3 * 200 * 200) * 0.013) * 0.5 + 0.5).view(1, 3, 200, 200).requires_grad_()
y = (torch.sin(torch.arange(3 * 200 * 200) * 0.0131 + 0.3) * 0.5 + 0.5).view(1, 3, 200, 200)
out = {}
for name, f in (('ssim', ssim), ('ms_ssim', ms_ssim)):
    value = f(x, y, data_range=1.0)
    (dx,) = torch.autograd.grad(value, x)
    out[name] = [value.item(), dx.abs().sum().item()]
out['module'] = MS_SSIM(data_range=1.0, channel=3)(x, y).item()
print(json.dumps(out))
