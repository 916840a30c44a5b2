"""vector-quantize-pytorch: codebooks of each kind with fixed codes: which codes are taken, losses, gradients, how codebooks move."""
import json

import torch
import vector_quantize_pytorch as vq


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).view(shape).float()


out = {}
kinds = {
    'plain': lambda: vq.VectorQuantize(dim=16, codebook_size=32, decay=0.8, commitment_weight=1.0), 'cosine': lambda: vq.VectorQuantize(dim=16, codebook_size=32, use_cosine_sim=True),
    'rotation': lambda: vq.VectorQuantize(dim=16, codebook_size=32, codebook_dim=8, rotation_trick=True),
    'learnt': lambda: vq.VectorQuantize(dim=16, codebook_size=32, learnable_codebook=True, ema_update=False),
    'heads': lambda: vq.VectorQuantize(dim=16, codebook_size=32, heads=2, codebook_dim=8, separate_codebook_per_head=True),
    'residual': lambda: vq.ResidualVQ(dim=16, num_quantizers=3, codebook_size=32), 'groups': lambda: vq.GroupedResidualVQ(dim=16, num_quantizers=2, groups=2, codebook_size=16),
    'sim': lambda: vq.SimVQ(dim=16, codebook_size=32), 'residual sim': lambda: vq.ResidualSimVQ(dim=16, num_quantizers=2, codebook_size=32),
    'finite': lambda: vq.FSQ(levels=[8, 5, 5, 5], dim=16), 'residual finite': lambda: vq.ResidualFSQ(dim=16, levels=[8, 5, 5], num_quantizers=3),
    'lookup free': lambda: vq.LFQ(codebook_size=64, dim=16, entropy_loss_weight=0.1), 'sphere': lambda: vq.LFQ(codebook_size=64, dim=16, spherical=True),
    'residual lookup free': lambda: vq.ResidualLFQ(dim=16, codebook_size=64, num_quantizers=2), 'latent': lambda: vq.LatentQuantize(levels=[5, 5, 8], dim=16),
}  # fmt: skip
for name, make in kinds.items():
    model = make()
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_((torch.sin(torch.arange(p.numel()).double() * (1.37 + 0.01 * i) + i) * 0.3).view(p.shape))
        for key, held in model.named_buffers():
            if key.endswith('initted'):
                held.fill_(True)
            elif any(part in key for part in ('embed', 'cluster', 'codebook')) and held.is_floating_point() and held.numel() > 1 and 'lookup' not in name and name not in ('sphere', 'finite'):
                held.copy_(wave(*held.shape, k=0.77))
    x = (wave(2, 16, 24) if name == 'latent' else wave(2, 24, 16)).requires_grad_()
    losses = []
    for _ in range(2):
        codes, taken, *rest = model(x)
        losses = [r.sum() for r in rest if torch.is_tensor(r)]
    loss = codes.square().mean() + sum(losses)
    loss.backward()
    moved = sum(b.double().abs().sum().item() for b in model.buffers() if b.is_floating_point())
    out[name] = [loss.item(), codes.sum().item(), taken.tolist(), x.grad.abs().sum().item(), moved]
print(json.dumps(out))
