"""peft: low-rank adapters of a small Llama, trained, merged."""
import json

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=37, vocab_size=99)
model = get_peft_model(LlamaForCausalLM(config), LoraConfig(r=4, target_modules=['q_proj', 'v_proj'], task_type='CAUSAL_LM', lora_dropout=0.0))
with torch.no_grad():
    for k, (_, p) in enumerate(sorted(model.named_parameters())):
        p.copy_((torch.sin(torch.arange(p.numel()).double() * (1.0 + 0.01 * k)) * 0.2).view(p.shape))
tokens = torch.arange(20).view(2, 10) * 3 % 99
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
out = {'trained': sorted(n for n, p in model.named_parameters() if p.requires_grad), 'losses': []}
for _ in range(4):
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    out['losses'].append(loss.item())
model.eval()
before = model(tokens).logits
merged = model.merge_and_unload()
out['merged'] = bool(torch.allclose(merged(tokens).logits, before, atol=1e-4))
out['logits'] = before.abs().mean().item()
print(json.dumps(out))
