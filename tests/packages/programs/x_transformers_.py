"""x-transformers: a decoder trained for 50 steps, then generation; an encoder."""
import json

import torch
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper


def fixed(model):
    with torch.no_grad():
        for i, (name, p) in enumerate(sorted(model.named_parameters())):
            if name.endswith('bias'):
                p.zero_()
            elif p.ndim > 1:
                p.copy_(torch.sin(torch.arange(p.numel()).double() * 1.37 + i).view(p.shape) * (1.5 / p.shape[-1]) ** 0.5)
    return model


net = TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True, attn_flash=True))
model = fixed(AutoregressiveWrapper(net)).double()  # 50 steps magnify what float32 rounds away
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.arange(4 * 33).view(4, 33) * 3 % 50
losses = []
for _ in range(50):
    loss = model(x)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    losses.append(loss.item())
encoder = fixed(TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=Encoder(dim=32, depth=2, heads=2, alibi_pos_bias=True, use_rmsnorm=True, ff_glu=True)))
tokens = model.generate(x[:1, :5], 8, temperature=0.0)
print(json.dumps({'losses': losses, 'tokens': tokens.tolist(), 'encoder': encoder(x[:, :20]).double().abs().sum().item()}))
