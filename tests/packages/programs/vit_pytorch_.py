"""vit-pytorch: one model of each of its families with fixed weights: loss, gradients; what attention says."""
import importlib
import json

import torch
from vit_pytorch import ViT
from vit_pytorch.extractor import Extractor
from vit_pytorch.recorder import Recorder


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).view(shape).float()


def fix(model, scale=0.1):
    with torch.no_grad():
        for i, (name, p) in enumerate(model.named_parameters()):
            one = p.ndim == 1 and float(p.abs().sum()) == p.numel()
            p.copy_((torch.sin(torch.arange(p.numel()).double() * (1.37 + 0.01 * i) + i) * scale).view(p.shape) + one)
    return model


out = {}
picture, line, film = wave(2, 3, 32, 32), wave(2, 3, 32), wave(2, 3, 4, 32, 32)
size = dict(num_classes=10, dim=32, depth=2, heads=2, mlp_dim=48)
plain = dict(size, image_size=32, patch_size=8)
films = dict(size, image_size=32, image_patch_size=8, frames=4, frame_patch_size=2)
families = {
    'simple_vit.SimpleViT': (plain, picture), 'simple_vit_with_register_tokens.SimpleViT': (plain, picture), 'simple_vit_with_qk_norm.SimpleViT': (plain, picture),
    'simple_vit_with_fft.SimpleViT': (dict(plain, freq_patch_size=8), picture), 'simple_vit_1d.SimpleViT': (dict(size, seq_len=32, patch_size=4), line), 'simple_vit_3d.SimpleViT': (films, film),
    'vit_3d.ViT': (films, film), 'deepvit.DeepViT': (plain, picture), 'cait.CaiT': (dict(plain, cls_depth=1), picture), 'parallel_vit.ViT': (dict(plain, num_parallel_branches=2), picture),
    't2t.T2TViT': (dict(size, image_size=32, t2t_layers=((7, 4), (3, 2))), picture), 'pit.PiT': (dict(plain, depth=(1, 1)), picture), 'xcit.XCiT': (dict(plain, cls_depth=1), picture),
    'levit.LeViT': (dict(image_size=32, num_classes=10, stages=2, dim=(32, 48), depth=1, heads=(2, 3), mlp_mult=2), picture), 'normalized_vit.nViT': (plain, picture),
    'cross_vit.CrossViT': (dict(image_size=32, num_classes=10, depth=1, sm_dim=16, sm_patch_size=8, sm_enc_depth=1, sm_enc_heads=2, sm_enc_mlp_dim=32, lg_dim=24, lg_patch_size=16, lg_enc_depth=1,
                                lg_enc_heads=2, lg_enc_mlp_dim=32, cross_attn_depth=1, cross_attn_heads=2), picture),
    'cvt.CvT': (dict(num_classes=10, s1_emb_dim=16, s1_heads=1, s1_depth=1, s2_emb_dim=24, s2_heads=1, s2_depth=1, s3_emb_dim=32, s3_heads=2, s3_depth=1), picture),
    'max_vit.MaxViT': (dict(num_classes=10, dim_conv_stem=16, dim=16, dim_head=8, depth=(1, 1), window_size=4, mbconv_expansion_rate=2, dropout=0.0), wave(1, 3, 64, 64)),
    'nest.NesT': (dict(image_size=32, patch_size=4, dim=16, heads=2, num_hierarchies=3, block_repeats=(1, 1, 1), num_classes=10), picture), 'vit_for_small_dataset.ViT': (plain, picture),
    'mobile_vit.MobileViT': (dict(image_size=(64, 64), dims=[16, 24, 32], channels=[8, 8, 8, 8, 16, 16, 24, 24, 32, 32, 48], num_classes=10), wave(2, 3, 64, 64)), 'rvt.RvT': (plain, picture),
    'look_vit.LookViT': (dict(dim=32, num_classes=10, image_size=32, depth=1, heads=2, patch_size=8, highres_patch_size=4), picture), 'simple_uvit.SimpleUViT': (plain, picture),
    'na_vit.NaViT': (dict(plain, token_dropout_prob=None), [[wave(3, 32, 16), wave(3, 16, 16)], [wave(3, 32, 32)]]),
}  # fmt: skip
for name, (options, given) in families.items():
    module, _, kind = name.partition('.')
    model = fix(getattr(importlib.import_module(f'vit_pytorch.{module}'), kind)(**options)).eval()
    loss = model(given).square().mean()
    loss.backward()
    out[name] = [loss.item(), sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None)]
said, attention = Recorder(fix(ViT(**plain)).eval())(picture)
out['recorded'] = [said.sum().item(), attention.abs().sum().item(), list(attention.shape)]
said, embedded = Extractor(fix(ViT(**plain)).eval())(picture)
out['extracted'] = [said.sum().item(), embedded.abs().sum().item()]
print(json.dumps(out))
