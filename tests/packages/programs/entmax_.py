"""entmax: sparse softmaxes and their losses, with gradients."""
import json

import torch
from entmax import Entmax15Loss, SparsemaxLoss, entmax15, entmax_bisect, sparsemax, sparsemax_bisect

x = (torch.sin(torch.arange(24).double() * 1.7) * 2).view(4, 6).requires_grad_()
weight = torch.cos(torch.arange(24).double()).view(4, 6)
out = {}
for name, f in (('sparsemax', lambda v: sparsemax(v, -1)), ('entmax15', lambda v: entmax15(v, -1)), ('bisect 1.3', lambda v: entmax_bisect(v, 1.3)),
                ('sparsemax bisect', sparsemax_bisect)):  # fmt: skip
    y = f(x)
    (dx,) = torch.autograd.grad((y * weight).sum(), x)
    out[name] = [y.flatten().tolist(), dx.flatten().tolist()]
target = torch.tensor([0, 3, 5, 2])
for loss in (SparsemaxLoss(), Entmax15Loss()):
    value = loss(x, target)
    (dx,) = torch.autograd.grad(value, x)
    out[type(loss).__name__] = [value.item(), dx.flatten().tolist()]
print(json.dumps(out))
