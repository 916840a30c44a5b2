"""transformers: small models of many families with fixed weights: loss, gradients, and generation with a cache."""
import json
import sys
import warnings

import torch
import transformers

warnings.simplefilter('ignore')
transformers.logging.set_verbosity_error()

SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, vocab_size=99)
GROUPED = dict(SMALL, num_key_value_heads=2)
BOTH = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, vocab_size=99)
PICTURE = dict(image_size=16, patch_size=4)
FAMILIES = {
    'gpt2': ('GPT2LMHeadModel', 'GPT2Config', dict(n_embd=32, n_layer=2, n_head=4, vocab_size=99, n_positions=64)),
    'bert': ('BertForMaskedLM', 'BertConfig', SMALL),
    'llama': ('LlamaForCausalLM', 'LlamaConfig', GROUPED),
    't5': ('T5ForConditionalGeneration', 'T5Config', dict(d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, vocab_size=99, decoder_start_token_id=0)),
    'vit': ('ViTForImageClassification', 'ViTConfig', dict(SMALL, **PICTURE, num_labels=5)),
    'mistral': ('MistralForCausalLM', 'MistralConfig', dict(GROUPED, sliding_window=8)),
    'qwen2': ('Qwen2ForCausalLM', 'Qwen2Config', GROUPED),
    'gemma': ('GemmaForCausalLM', 'GemmaConfig', dict(GROUPED, head_dim=8)),
    'opt': ('OPTForCausalLM', 'OPTConfig', dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=37, vocab_size=99, word_embed_proj_dim=32,
                                                max_position_embeddings=64)),
    'gpt_neox': ('GPTNeoXForCausalLM', 'GPTNeoXConfig', SMALL),
    'bloom': ('BloomForCausalLM', 'BloomConfig', dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=99)),
    'roberta': ('RobertaForMaskedLM', 'RobertaConfig', dict(SMALL, max_position_embeddings=64)),
    'distilbert': ('DistilBertForMaskedLM', 'DistilBertConfig', dict(dim=32, n_layers=2, n_heads=4, hidden_dim=37, vocab_size=99)),
    'electra': ('ElectraForMaskedLM', 'ElectraConfig', dict(SMALL, embedding_size=16)),
    'albert': ('AlbertForMaskedLM', 'AlbertConfig', dict(SMALL, embedding_size=16)),
    'deberta_v2': ('DebertaV2ForMaskedLM', 'DebertaV2Config', SMALL),
    'bart': ('BartForConditionalGeneration', 'BartConfig', dict(BOTH, max_position_embeddings=64)),
    'whisper': ('WhisperForConditionalGeneration', 'WhisperConfig', dict(BOTH, num_mel_bins=8, max_source_positions=20, max_target_positions=64, pad_token_id=0,
                                                                         bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)),
    'mamba': ('MambaForCausalLM', 'MambaConfig', dict(hidden_size=32, num_hidden_layers=2, state_size=4, vocab_size=99)),
    'mamba2': ('Mamba2ForCausalLM', 'Mamba2Config', dict(hidden_size=32, num_hidden_layers=2, state_size=4, vocab_size=99, num_heads=8, head_dim=8, n_groups=2,
                                                         chunk_size=4)),
    'phi': ('PhiForCausalLM', 'PhiConfig', SMALL),
    'clip': ('CLIPModel', 'CLIPConfig', dict(text_config=dict(SMALL, max_position_embeddings=64), vision_config=dict(SMALL, **PICTURE), projection_dim=16)),
    'resnet': ('ResNetForImageClassification', 'ResNetConfig', dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=5)),
    'convnext': ('ConvNextForImageClassification', 'ConvNextConfig', dict(hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], num_labels=5, patch_size=4)),
    'swin': ('SwinForImageClassification', 'SwinConfig', dict(embed_dim=8, depths=[1, 1], num_heads=[2, 2], image_size=16, patch_size=2, window_size=4, num_labels=5)),
    'segformer': ('SegformerForImageClassification', 'SegformerConfig', dict(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2],
                                                                             decoder_hidden_size=16, num_labels=5)),
    'wav2vec2': ('Wav2Vec2ForCTC', 'Wav2Vec2Config', dict(SMALL, vocab_size=32, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_conv_pos_embeddings=16,
                                                          num_conv_pos_embedding_groups=2, mask_time_length=2)),
}
GENERATE = ('gpt2', 'llama', 't5', 'bart', 'whisper', 'mamba', 'mamba2', 'bloom')


def wave(*shape):
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count).float() * 0.37).view(shape)


def inputs(name):
    ids = (torch.arange(2 * 12) * 7 % 90 + 3).view(2, 12)
    labels = ids[:, :7].contiguous()
    if name in ('vit', 'swin'):
        return dict(pixel_values=wave(2, 3, 16, 16), labels=torch.tensor([1, 3]))
    if name in ('resnet', 'convnext', 'segformer'):
        return dict(pixel_values=wave(2, 3, 32, 32), labels=torch.tensor([1, 3]))
    if name == 'clip':
        return dict(input_ids=ids, pixel_values=wave(2, 3, 16, 16), return_loss=True)
    if name == 'whisper':
        return dict(input_features=wave(2, 8, 40), labels=labels)
    if name == 'wav2vec2':
        return dict(input_values=wave(2, 400), labels=torch.tensor([[3, 4, 5], [6, 7, 8]]))
    if name in ('t5', 'bart'):
        return dict(input_ids=ids, labels=labels)
    return dict(input_ids=ids, labels=ids)


out = {}
for name in sys.argv[1:] or FAMILIES:
    model_class, config_class, options = FAMILIES[name]
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**options)).eval()
    with torch.no_grad():
        for i, (key, p) in enumerate(sorted(model.named_parameters())):
            value = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * 1.37 + i).view(p.shape) * 0.2
            p.copy_(value + (1 if 'norm' in key.lower() and key.endswith('weight') else 0))
    given = inputs(name)
    loss = model(**given).loss
    loss.backward()
    out[name] = [loss.item(), sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None)]
    if name in GENERATE:
        given.pop('labels')
        given = {key: value[:1] for key, value in given.items()}
        out[name].append(model.generate(**given, max_new_tokens=6, do_sample=False)[0].tolist())
        out[name].append(model.generate(**given, max_new_tokens=6, do_sample=False, num_beams=3)[0].tolist())
        torch.manual_seed(0)
        sampled = model.generate(**given, max_new_tokens=4, do_sample=True, top_k=5)
        assert int(sampled.max()) < 99
print(json.dumps(out))
