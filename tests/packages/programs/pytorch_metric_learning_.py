"""pytorch-metric-learning: losses with gradients, miners, a memory of batches, a training, accuracies."""
import json

import torch
from pytorch_metric_learning import distances, losses, miners, reducers, regularizers
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).reshape(shape).float()


def filled(module):
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i))
    return module


kinds = torch.tensor([0, 0, 1, 1, 2, 2, 0, 1])
classes = {"num_classes": 3, "embedding_size": 8}
LOSSES = {
    **{name: getattr(losses, name)() for name in (
        "TripletMarginLoss ContrastiveLoss NTXentLoss MultiSimilarityLoss CircleLoss SupConLoss AngularLoss FastAPLoss LiftedStructureLoss GeneralizedLiftedStructureLoss "
        "IntraPairVarianceLoss SignalToNoiseRatioContrastiveLoss TupletMarginLoss NPairsLoss NCALoss MarginLoss ThresholdConsistentMarginLoss").split()},
    **{name: getattr(losses, name)(**classes) for name in (
        "ArcFaceLoss CosFaceLoss ProxyAnchorLoss ProxyNCALoss LargeMarginSoftmaxLoss SphereFaceLoss SubCenterArcFaceLoss SoftTripleLoss NormalizedSoftmaxLoss").split()},
    "histogram": losses.HistogramLoss(20), "ranked": losses.RankedListLoss(margin=0.4, Tn=10),
    "regularized": losses.ContrastiveLoss(distance=distances.CosineSimilarity(), pos_margin=1, neg_margin=0, embedding_regularizer=regularizers.LpRegularizer(), reducer=reducers.MeanReducer()),
    "snr": losses.TripletMarginLoss(distance=distances.SNRDistance(), reducer=reducers.ThresholdReducer(low=0.01)),
}  # fmt: skip
out = {}
for name, loss in LOSSES.items():
    x = wave(8, 8).requires_grad_()
    value = filled(loss)(torch.nn.functional.normalize(x), kinds)
    value.backward()
    out[name] = [value.item(), x.grad.abs().sum().item(), sum(p.grad.abs().sum().item() for p in loss.parameters() if p.grad is not None)]
for miner in (miners.MultiSimilarityMiner(), miners.BatchHardMiner(), miners.TripletMarginMiner(0.2, "all"), miners.PairMarginMiner()):
    out[type(miner).__name__] = [int(t.sum()) for t in miner(wave(8, 8), kinds)]
memory = losses.CrossBatchMemory(losses.NTXentLoss(), 8, 16)
out["memory"] = [memory(wave(8, 8, k=0.3 + 0.1 * i), kinds).item() for i in range(4)]
net, loss, steps = filled(torch.nn.Linear(8, 4)), losses.TripletMarginLoss(0.1), []
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
for _ in range(5):
    optimizer.zero_grad()
    value = loss(net(wave(8, 8)), kinds)
    value.backward()
    optimizer.step()
    steps.append(value.item())
out["trained"] = steps
calculator = AccuracyCalculator(include=("precision_at_1", "r_precision", "mean_average_precision_at_r"), k=3, knn_func=CustomKNN(distances.LpDistance()))
out["accuracies"] = {key: float(value) for key, value in calculator.get_accuracy(wave(8, 8), kinds).items()}
print(json.dumps(out))
