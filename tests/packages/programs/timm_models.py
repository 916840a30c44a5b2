"""timm: one small model of each of many architectures, with fixed weights: outputs, and gradients of the weights.

Two pictures each: PyTorch 2.13's gradient of batch norm in evaluation mode is wrong for one picture whose gradient comes transposed (LeViT, EfficientFormer).
"""
import json
import sys
import warnings

import timm
import torch

warnings.simplefilter('ignore')

# Pictures of 64 x 64, where the model takes any size.
ANY = '''resnet10t seresnet18 skresnet18 resnest14d res2net50d resnetv2_18 nf_resnet26 eca_nfnet_l0 test_nfnet regnetx_002 tf_efficientnetv2_b0 mobilenetv2_050
         mobilenetv4_conv_small_050 mixnet_s tinynet_e rexnet_100 convnextv2_atto inception_next_atto poolformer_s12 poolformerv2_s12 caformer_s18 convformer_s18
         focalnet_tiny_srf densenet121 dla46_c dpn48b hrnet_w18_small ghostnetv2_100 repghostnet_050 repvit_m0_9 mobileone_s0 fastvit_t8 fasternet_t0 starnet_s050
         mobilevitv2_050 efficientvit_b0 efficientvim_m1 shvit_s1 iformer_t lowformer_b0 mambaout_femto tiny_vit_5m_224 davit_tiny pvt_v2_b0 rdnet_tiny hgnetv2_b0
         ese_vovnet19b_dw selecsls42 cspresnet50 darknet17 gernet_s tresnet_m lambda_resnet26t'''.split()
# Those that want another size, or are cut to fewer layers: (size, options).
SMALL = dict(img_size=64)
SHORT = dict(img_size=64, depth=3)
OTHERS = {
    'inception_v3': (96, {}), 'inception_v4': (96, {}), 'legacy_xception': (64, {}),
    'vit_tiny_patch16_224': (64, SMALL), 'deit3_small_patch16_224': (64, SHORT), 'vit_relpos_small_patch16_224': (64, SHORT),
    'beit_base_patch16_224': (64, dict(SHORT, embed_dim=96, num_heads=3)), 'eva02_tiny_patch14_224': (56, dict(img_size=56, depth=3)),
    'cait_xxs24_224': (64, SHORT), 'convit_tiny': (64, SHORT), 'volo_d1_224': (64, SMALL),
    'naflexvit_base_patch16_gap': (64, dict(depth=2, embed_dim=96, num_heads=3)), 'samvit_base_patch16_224': (64, dict(SHORT, embed_dim=96, num_heads=3)),
    'swin_tiny_patch4_window7_224': (56, dict(img_size=56, depths=(1, 2, 1, 1))), 'swinv2_tiny_window8_256': (64, dict(img_size=64, depths=(1, 2, 1, 1))),
    'swinv2_cr_tiny_224': (64, dict(img_size=64, depths=(1, 2, 1, 1))), 'test_maxvit': (160, {}), 'test_coatnet': (160, {}),
    'gcvit_xxtiny': (224, {}), 'mvitv2_tiny': (64, SMALL), 'hiera_tiny_224': (64, dict(img_size=64, stages=(1, 1, 2, 1))),
    'nest_tiny': (128, dict(img_size=128)), 'twins_svt_small': (64, dict(img_size=64, depths=(1, 2, 2, 1))),
    'gmlp_ti16_224': (64, SMALL), 'resmlp_12_224': (64, SMALL), 'xcit_nano_12_p16_224': (64, dict(depth=3)),
    'sequencer2d_s': (56, dict(img_size=56, layers=(1, 1, 2, 1))), 'convmixer_768_32': (56, {}),
    'levit_128s': (224, {}), 'efficientformer_l1': (224, {}), 'efficientformerv2_s0': (224, {}), 'swiftformer_xs': (224, {}),
    'coat_lite_tiny': (64, SMALL), 'crossvit_tiny_240': (240, {}), 'pit_ti_224': (224, {}), 'visformer_tiny': (64, SMALL),
    'tnt_s_patch16_224': (64, SHORT), 'vitamin_small_224': (64, SMALL), 'botnet26t_256': (64, SMALL), 'halonet26t': (256, {}),
}
# With these weights their numbers grow to 1e5 and more, and rounding with them: in float64.
DOUBLE = {'convformer_s18', 'convmixer_768_32', 'repvit_m0_9'}
MODELS = {**{name: (64, {}) for name in ANY}, **OTHERS}

out = {}
for name in sys.argv[1:] or MODELS:
    size, options = MODELS[name]
    model = timm.create_model(name, num_classes=5, **options).eval()
    with torch.no_grad():
        for i, (key, p) in enumerate(sorted(model.named_parameters())):
            value = torch.sin(torch.arange(p.numel(), dtype=torch.float64) * 1.37 + i).view(p.shape)
            if p.ndim > 1:
                p.copy_(value * (4.0 / p[0].numel()) ** 0.5)
            else:
                p.copy_(value * 0.1 + (0 if key.endswith('bias') else 1))
    x = torch.sin(torch.arange(6 * size * size).float() * 0.01).view(2, 3, size, size)
    y = model.double()(x.double()) if name in DOUBLE else model(x)
    (y * 1e3).sum().backward()
    grads = [p.grad.double() for p in model.parameters() if p.grad is not None]
    out[name] = [y[0].tolist(), sum(g.abs().sum().item() for g in grads), sum(g.square().sum().item() for g in grads) ** 0.5]
print(json.dumps(out))
