"""open_clip: small CLIP models with transformers and convolutions, their losses and gradients; its tokenizer and transforms."""
import json

import numpy as np
import open_clip
import torch
from open_clip.loss import ClipLoss, SigLipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg, CustomTextCLIP
from PIL import Image


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).view(shape).float()


def fix(model, scale=0.05):
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            one = p.ndim == 1 and float(p.abs().sum()) == p.numel()
            p.copy_((torch.sin(torch.arange(p.numel()).double() * (1.37 + 0.01 * i) + i) * scale).view(p.shape) + one)
    return model


out = {}
eyes = dict(image_size=32, patch_size=8, width=32, layers=2, head_width=16)
text = CLIPTextCfg(context_length=16, vocab_size=99, width=32, heads=2, layers=2)
pictures, tokens = wave(4, 3, 32, 32), torch.arange(64).view(4, 16) % 98 + 1
for name, model in {
    'plain': CLIP(16, CLIPVisionCfg(**eyes), text), 'custom': CustomTextCLIP(16, CLIPVisionCfg(**eyes), text), 'resnet': CLIP(16, CLIPVisionCfg(image_size=32, layers=[1, 1, 1, 1], width=16), text),
    'pooled': CLIP(16, CLIPVisionCfg(**eyes, attentional_pool=True, attn_pooler_heads=2), text, quick_gelu=True), 'sigmoid': CLIP(16, CLIPVisionCfg(**eyes), text, init_logit_bias=-10.0),
}.items():  # fmt: skip
    said = fix(model)(pictures, tokens)
    loss = SigLipLoss()(*said) if name == 'sigmoid' else ClipLoss()(*said[:3])
    loss.backward()
    out[name] = [loss.item(), sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None)]
    model.set_grad_checkpointing(), model.lock_image_tower(), model.eval()
    with torch.no_grad():
        out[f'{name} features'] = (model.encode_image(pictures, normalize=True) @ model.encode_text(tokens, normalize=True).T).tolist()
out['tokens'] = open_clip.get_tokenizer('ViT-B-32')(['a photo of a cat', 'Hello, wörld!'])[:, :9].tolist()
picture = Image.fromarray((np.arange(40 * 50 * 3) % 255).astype('uint8').reshape(40, 50, 3))
out['transformed'] = open_clip.image_transform(32, is_train=False)(picture).sum().item()
print(json.dumps(out))
