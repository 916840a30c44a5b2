"""torchmetrics: classification, regression, aggregation, text and image metrics of fixed values."""
import json

import torch
import torchmetrics as tm
from torchmetrics import classification as C
from torchmetrics import functional as F
from torchmetrics import regression as R

n = 64
i = torch.arange(n)
target = (i * 7 + i // 5) % 4
logits = torch.sin(torch.arange(n * 4).double() * 1.7).view(n, 4) + 2.0 * torch.nn.functional.one_hot((i * 7 + i // 5) % 4, 4) * ((i % 3) > 0)[:, None]
probs = logits.softmax(-1)
binary, score = (i * 3 % 5 > 2).long(), torch.sigmoid(torch.sin(i.double() * 2.1) + (i * 3 % 5 > 2) * 0.7)
x, y = torch.sin(i.double()), torch.sin(i.double()) * 0.8 + 0.1 * torch.cos(i.double() * 5)
labels = ((torch.arange(n * 4).view(n, 4) * 5) % 7 > 3).long()
metrics = {
    'accuracy': (tm.Accuracy(task='multiclass', num_classes=4), probs, target),
    'top2': (C.MulticlassAccuracy(4, top_k=2), probs, target),
    'precision': (C.MulticlassPrecision(4), probs, target),
    'recall': (C.MulticlassRecall(4), probs, target),
    'f1': (C.MulticlassF1Score(4, average='none'), probs, target),
    'specificity': (C.MulticlassSpecificity(4), probs, target),
    'confusion': (C.MulticlassConfusionMatrix(4), probs, target),
    'auroc': (C.MulticlassAUROC(4), probs, target),
    'average_precision': (C.MulticlassAveragePrecision(4), probs, target),
    'kappa': (C.MulticlassCohenKappa(4), probs, target),
    'matthews': (C.MulticlassMatthewsCorrCoef(4), probs, target),
    'jaccard': (C.MulticlassJaccardIndex(4), probs, target),
    'calibration': (C.MulticlassCalibrationError(4, n_bins=5), probs, target),
    'binary_auroc': (C.BinaryAUROC(), score, binary),
    'binary_auroc_binned': (C.BinaryAUROC(thresholds=11), score, binary),
    'binary_f1': (C.BinaryF1Score(), score, binary),
    'multilabel': (C.MultilabelF1Score(4), probs, labels),
    'mse': (R.MeanSquaredError(), x, y),
    'mae': (R.MeanAbsoluteError(), x, y),
    'r2': (R.R2Score(), x, y),
    'pearson': (R.PearsonCorrCoef(), x, y),
    'spearman': (R.SpearmanCorrCoef(), x, y),
    'explained': (R.ExplainedVariance(), x, y),
    'cosine': (R.CosineSimilarity(), x.view(8, 8), y.view(8, 8)),
}
out = {}
for name, (metric, preds, true) in metrics.items():
    for part in range(2):  # in two updates, as in an epoch
        half = slice(part * len(preds) // 2, (part + 1) * len(preds) // 2)
        metric.update(preds[half], true[half])
    out[name] = metric.compute().double().flatten().tolist()
collection = tm.MetricCollection([C.MulticlassAccuracy(4), C.MulticlassF1Score(4)], prefix='val_')
collection.update(probs, target)
out.update({name: value.item() for name, value in collection.compute().items()})
mean = tm.MeanMetric()
mean.update(torch.tensor([1.0, 2.0]))
mean.update(4.0, weight=2)
out['mean'] = mean.compute().item()
image = torch.sin(torch.arange(2 * 3 * 24 * 24).double() * 0.3).view(2, 3, 24, 24).sigmoid()
out['ssim'] = F.structural_similarity_index_measure(image, image ** 1.1, data_range=1.0).item()
out['psnr'] = F.peak_signal_noise_ratio(image, image ** 1.1, data_range=1.0).item()
out['wer'] = F.word_error_rate(['the cat sat', 'a b c d'], ['the cat sat', 'a x c']).item()
out['retrieval'] = tm.retrieval.RetrievalMAP()(score, binary, indexes=i % 8).item()
print(json.dumps(out))
