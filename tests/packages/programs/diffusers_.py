"""diffusers: small UNets, an autoencoder and a transformer with fixed weights, trained; schedulers; a pipeline; averaged weights."""
import json
import tempfile
import warnings

import torch
from diffusers import (
    AutoencoderKL, DDIMPipeline, DDIMScheduler, DDPMScheduler, DEISMultistepScheduler, DPMSolverMultistepScheduler,
    DPMSolverSinglestepScheduler, EulerDiscreteScheduler, FlowMatchEulerDiscreteScheduler, HeunDiscreteScheduler,
    KDPM2DiscreteScheduler, LMSDiscreteScheduler, PNDMScheduler, UNet2DConditionModel, UNet2DModel, UniPCMultistepScheduler, VQModel,
    ControlNetModel, DiTTransformer2DModel, SD3Transformer2DModel, FluxTransformer2DModel, AutoencoderTiny,
)  # fmt: skip
from diffusers.models.attention_processor import AttnProcessor
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel, compute_snr
from diffusers.utils import logging

warnings.simplefilter('ignore')
logging.set_verbosity_error()


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).view(shape).float()


def fix(model, scale=0.1):
    with torch.no_grad():
        for i, (name, p) in enumerate(model.named_parameters()):
            one = 'norm' in name and name.endswith('weight')
            p.copy_((torch.sin(torch.arange(p.numel()).double() * (1.37 + 0.01 * i) + i) * scale).view(p.shape) + one)
    return model


def gradient(model):
    return sum(p.grad.double().abs().sum().item() for p in model.parameters() if p.grad is not None)


out = {}
unet = fix(UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8,
                       down_block_types=('DownBlock2D', 'AttnDownBlock2D'), up_block_types=('AttnUpBlock2D', 'UpBlock2D'), attention_head_dim=8))  # fmt: skip
noising = DDPMScheduler(num_train_timesteps=100, beta_schedule='squaredcos_cap_v2')
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3)
rates = get_scheduler('cosine', optimizer, num_warmup_steps=2, num_training_steps=6)
average = EMAModel(unet.parameters(), decay=0.9, use_ema_warmup=True)
losses = []
for step in range(4):
    clean, noise, t = wave(4, 3, 16, 16, k=0.1 + step), wave(4, 3, 16, 16, k=0.7), torch.arange(4) * 20 + step
    predicted = unet(noising.add_noise(clean, noise, t), t, return_dict=False)[0]
    weights = torch.stack([compute_snr(noising, t), torch.full((4,), 5.0)], dim=1).min(dim=1)[0] / compute_snr(noising, t)
    loss = (torch.nn.functional.mse_loss(predicted, noise, reduction='none').mean((1, 2, 3)) * weights).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step(), rates.step(), optimizer.zero_grad()
    average.step(unet.parameters())
    losses.append([loss.item(), rates.get_last_lr()[0]])
out['unet'] = losses
average.store(unet.parameters()), average.copy_to(unet.parameters())
out['averaged'] = sum(p.double().abs().sum().item() for p in unet.parameters())
average.restore(unet.parameters())

pipeline = DDIMPipeline(unet.eval(), DDIMScheduler(num_train_timesteps=100))
pipeline.set_progress_bar_config(disable=True)
with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
    pipeline.save_pretrained(folder)
    again = DDIMPipeline.from_pretrained(folder)
    out['same'] = all(torch.equal(a, b) for a, b in zip(unet.state_dict().values(), again.unet.state_dict().values()))
out['pictures'] = list(pipeline(batch_size=2, num_inference_steps=3, generator=torch.Generator().manual_seed(0), output_type='np').images.shape)

for kind, options in ((DDIMScheduler, {}), (PNDMScheduler, {}), (LMSDiscreteScheduler, {}), (EulerDiscreteScheduler, {}), (HeunDiscreteScheduler, {}),
                      (DPMSolverMultistepScheduler, {}), (DPMSolverMultistepScheduler, {'use_karras_sigmas': True}), (DPMSolverSinglestepScheduler, {}),
                      (UniPCMultistepScheduler, {}), (DEISMultistepScheduler, {}), (KDPM2DiscreteScheduler, {}), (FlowMatchEulerDiscreteScheduler, {}),
                      (EulerDiscreteScheduler, {'use_karras_sigmas': True, 'prediction_type': 'v_prediction'})):  # fmt: skip
    scheduler = kind(num_train_timesteps=100, **options)
    scheduler.set_timesteps(6)
    sample = wave(2, 3, 8, 8) * float(getattr(scheduler, 'init_noise_sigma', 1.0))
    for t in scheduler.timesteps[:5]:
        given = scheduler.scale_model_input(sample, t) if hasattr(scheduler, 'scale_model_input') else sample
        sample = scheduler.step(given * 0.3 + 0.01 * torch.cos(given), t, sample).prev_sample
    out[f'{kind.__name__} {sorted(options)}'] = [sample.abs().mean().item(), scheduler.timesteps.tolist()]

vae = fix(AutoencoderKL(in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(16, 32), norm_num_groups=8, sample_size=16,
                        down_block_types=('DownEncoderBlock2D',) * 2, up_block_types=('UpDecoderBlock2D',) * 2))  # fmt: skip
posterior = vae.encode(wave(2, 3, 16, 16)).latent_dist
decoded = vae.decode(posterior.mode()).sample
loss = torch.nn.functional.mse_loss(decoded, wave(2, 3, 16, 16)) + 1e-3 * posterior.kl().mean()
loss.backward()
out['vae'] = [loss.item(), gradient(vae)]
vae.enable_tiling(), vae.enable_slicing()
with torch.no_grad():
    out['tiled'] = vae.decode(wave(2, 4, 8, 8)).sample.abs().mean().item()

conditional = fix(UNet2DConditionModel(sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8, cross_attention_dim=12,
                                       attention_head_dim=4, down_block_types=('CrossAttnDownBlock2D', 'DownBlock2D'), up_block_types=('UpBlock2D', 'CrossAttnUpBlock2D')))  # fmt: skip
conditional.enable_gradient_checkpointing()
loss = conditional(wave(2, 4, 8, 8), torch.tensor([3, 30]), encoder_hidden_states=wave(2, 5, 12)).sample.square().mean()
loss.backward()
out['conditional'] = [loss.item(), gradient(conditional)]
conditional.set_attn_processor(AttnProcessor())
out['processor'] = conditional(wave(2, 4, 8, 8), torch.tensor([3, 30]), encoder_hidden_states=wave(2, 5, 12)).sample.square().mean().item()
control = fix(ControlNetModel.from_unet(conditional, conditioning_channels=3))
down, mid = control(wave(2, 4, 8, 8), 7, encoder_hidden_states=wave(2, 5, 12), controlnet_cond=wave(2, 3, 64, 64), return_dict=False)
out['control'] = [sum(d.abs().sum().item() for d in down), mid.abs().mean().item()]
others = {
    'vq': (VQModel(in_channels=3, out_channels=3, block_out_channels=(16,), down_block_types=('DownEncoderBlock2D',), up_block_types=('UpDecoderBlock2D',), latent_channels=3,
                   num_vq_embeddings=16, norm_num_groups=8), (wave(2, 3, 8, 8),), {}),
    'dit': (DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8, patch_size=2, num_embeds_ada_norm=10, norm_num_groups=1),
            (wave(2, 4, 8, 8), torch.tensor([1, 5])), {'class_labels': torch.tensor([1, 2])}),
    'sd3': (SD3Transformer2DModel(sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=12, caption_projection_dim=16,
                                  pooled_projection_dim=10, out_channels=4, pos_embed_max_size=8),
            (wave(2, 4, 8, 8), wave(2, 5, 12), wave(2, 10), torch.tensor([1, 5])), {}),
    'flux': (FluxTransformer2DModel(patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=12, pooled_projection_dim=10,
                                    axes_dims_rope=(4, 4, 8)),
             (), {'hidden_states': wave(1, 16, 4), 'encoder_hidden_states': wave(1, 5, 12), 'pooled_projections': wave(1, 10), 'timestep': torch.tensor([0.5]),
                  'txt_ids': torch.zeros(5, 3), 'img_ids': torch.arange(48.0).view(16, 3) % 4}),
    'tiny': (AutoencoderTiny(encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1)), (wave(2, 3, 8, 8),), {}),
}  # fmt: skip
for name, (model, given, named) in others.items():
    if name == 'dit':
        model.double()
        given = (given[0].double(), given[1])
    y = fix(model)(*given, **named, return_dict=False)[0]
    y.square().mean().backward()
    out[name] = [y.abs().mean().item(), gradient(model)]
print(json.dumps(out))
