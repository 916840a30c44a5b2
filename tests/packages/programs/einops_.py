"""einops: functions, layers and einsum of tensors, with gradients."""
import json

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

x = torch.sin(torch.arange(2 * 3 * 8 * 8).double()).view(2, 3, 8, 8).requires_grad_()
out = {}
out['patches'] = rearrange(x, 'b c (h p) (w q) -> b (h w) (c p q)', p=4, q=4).sum(-1).flatten().tolist()
out['pool'] = reduce(x, 'b c (h p) (w q) -> b c h w', 'max', p=4, q=4).flatten().tolist()
out['repeat'] = list(repeat(x[:, 0, 0], 'b w -> b w r', r=3).shape)
packed, shapes = pack([x, x[:, 0]], 'b * w')
out['pack'] = [list(packed.shape), [list(s) for s in shapes], list(unpack(packed, shapes, 'b * w')[1].shape)]
out['einsum'] = einsum(x, x, 'b c h w, b c h v -> b w v').sum().item()
net = torch.nn.Sequential(Rearrange('b c h w -> b (c h w)'), torch.nn.Linear(192, 12).double(), Rearrange('b (h d) -> b h d', h=3), Reduce('b h d -> b d', 'mean'))
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.cos(torch.arange(p.numel()).double()).view(p.shape) * 0.1)
loss = net(x).square().sum()
loss.backward()
out['layers'] = [loss.item(), x.grad.abs().sum().item()]
mix = EinMix('b t c -> b t d', weight_shape='c d', bias_shape='d', c=8, d=4)
out['mix'] = list(mix(torch.ones(2, 5, 8)).shape)
print(json.dumps(out))
