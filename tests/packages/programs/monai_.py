"""monai: networks with gradients, losses, metrics, transforms of volumes with their places in space, windows that slide over pictures."""
import io
import json
import math
import warnings

import torch
import torch.nn.functional as F
from monai import data, inferers, losses, metrics, transforms
from monai.networks import layers, nets
from torch import nn

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(math.prod(shape)) * k).reshape(shape)


def filled(model):
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(model.named_parameters())):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * (0.5 / max(1, p[0].numel()) ** 0.5 if p.ndim > 1 else 0.2))
    return model


x, out = wave(1, 1, 32, 32), {}
for name, net in {
    "unet": nets.UNet(2, 1, 2, (4, 8, 16), (2, 2), num_res_units=2),
    "basic": nets.BasicUNet(2, 1, 2, features=(4, 4, 8, 8, 8, 4)),
    "dynamic": nets.DynUNet(2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2], filters=[4, 8, 8]),
    "residual": nets.SegResNet(2, 8, 1, 2, blocks_down=(1, 1), blocks_up=(1,)),
    "transformer": nets.UNETR(1, 2, (32, 32), feature_size=4, hidden_size=16, mlp_dim=16, num_heads=2, spatial_dims=2),
    "attention": nets.AttentionUnet(2, 1, 2, (4, 8, 16), (2, 2)),
    "dense": nets.DenseNet(2, 1, 3, 8, 4, (2, 2)),
    "encoder": nets.AutoEncoder(2, 1, 1, (4, 8), (2, 2)),
    "diffusion": nets.DiffusionModelUNet(2, 1, 1, channels=(8, 8), attention_levels=(False, True), num_res_blocks=1, num_head_channels=8, norm_num_groups=4),
}.items():
    y = filled(net).eval()(x, *((torch.tensor([3]),) if name == "diffusion" else ()))
    y = y[0] if isinstance(y, tuple) else y
    y.square().mean().backward()
    out[name] = [*y.shape, y.abs().sum().item(), sum(p.grad.abs().sum().item() for p in net.parameters() if p.grad is not None)]
wanted = F.one_hot(torch.arange(2 * 144).reshape(2, 12, 12) // 17 % 3, 3).permute(0, 3, 1, 2).double()
for loss in (losses.DiceLoss(softmax=True), losses.GeneralizedDiceLoss(softmax=True), losses.DiceCELoss(softmax=True), losses.TverskyLoss(sigmoid=True), losses.FocalLoss(gamma=1.5),
             losses.HausdorffDTLoss(softmax=True), losses.LocalNormalizedCrossCorrelationLoss(2, 3), losses.GlobalMutualInformationLoss(), losses.SSIMLoss(2)):  # fmt: skip
    given = wave(2, 3, 12, 12).requires_grad_()
    value = loss(given, wanted)
    value.sum().backward()
    out[type(loss).__name__] = [value.sum().item(), given.grad.abs().sum().item()]
found = F.one_hot(wave(2, 3, 12, 12).argmax(1), 3).permute(0, 3, 1, 2).double()
for metric in (metrics.DiceMetric(), metrics.MeanIoU(), metrics.HausdorffDistanceMetric(), metrics.SurfaceDistanceMetric(), metrics.ConfusionMatrixMetric(metric_name="f1 score")):
    metric(found, wanted)
    value = metric.aggregate()
    out[type(metric).__name__] = (value[0] if isinstance(value, list) else value).tolist()
volume = data.MetaTensor(wave(1, 20, 18, 10), affine=torch.diag(torch.tensor([2.0, 1.0, 1.0, 1.0])))
for change in (transforms.Spacing((1.0, 1.0, 2.0)), transforms.Orientation("LPS"), transforms.Resize((10, 10, 10)), transforms.Rotate((0.3, 0.1, 0.2)), transforms.Zoom(1.3),
               transforms.Flip(1), transforms.CenterSpatialCrop((8, 8, 8)), transforms.DivisiblePad(8), transforms.ScaleIntensity(), transforms.NormalizeIntensity(),
               transforms.GaussianSmooth(1.0), transforms.AdjustContrast(1.5), transforms.CropForeground(), transforms.GibbsNoise(0.5)):  # fmt: skip
    y = change(volume)
    back = change.inverse(y) if isinstance(change, transforms.InvertibleTransform) else y
    out[type(change).__name__] = [type(y).__name__, *y.shape, y.double().abs().sum().item(), list(back.shape)]
file = io.BytesIO()
torch.save(volume, file)
file.seek(0)
with torch.serialization.safe_globals([data.MetaTensor]):
    again = torch.load(file, weights_only=False)
batch = next(iter(data.DataLoader(data.Dataset([{"image": volume, "label": i} for i in range(2)]), batch_size=2)))
out["place"] = [type(again).__name__, again.affine.tolist(), type(batch["image"]).__name__, list(batch["image"].shape), batch["label"].tolist()]
conv = filled(nn.Conv2d(1, 2, 3, padding=1))
out["windows"] = [inferers.sliding_window_inference(x, (16, 16), 2, conv, overlap=0.5, mode="gaussian").sum().item(),
                  inferers.SlidingWindowInferer((16, 16), 2)(x, conv).abs().sum().item()]  # fmt: skip
out["filters"] = [f(x).abs().sum().item() for f in (layers.GaussianFilter(2, 1.0), layers.HilbertTransform(), layers.SavitzkyGolayFilter(5, 2), layers.MedianFilter(1))]
print(json.dumps(out))
