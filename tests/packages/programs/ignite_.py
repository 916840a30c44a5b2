"""ignite: a trainer and an evaluator with handlers: schedules, averaged weights, checkpoints, early stopping; many metrics."""
import json
import tempfile

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import CosineAnnealingScheduler, EarlyStopping, EMAHandler, ModelCheckpoint, TerminateOnNan, Checkpoint, create_lr_scheduler_with_warmup
from ignite.metrics import (
    PSNR, SSIM, Accuracy, Bleu, ClassificationReport, ConfusionMatrix, Entropy, Fbeta, IoU, KLDivergence, Loss, MaximumMeanDiscrepancy, MeanAbsoluteError, Precision, Recall, Rouge,
    RunningAverage, TopKCategoricalAccuracy, JSDivergence, MeanSquaredError, MeanPairwiseDistance, CosineSimilarity, AveragePrecision, ROC_AUC,
)  # fmt: skip
from torch import nn


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).view(shape).float()


x, y = wave(64, 6), torch.arange(64) % 3
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
with torch.no_grad():
    for i, p in enumerate(net.parameters()):
        p.copy_(wave(*p.shape, k=1.37 + i) * 0.3)
optimizer = torch.optim.SGD(net.parameters(), 0.5, momentum=0.9)
trainer = create_supervised_trainer(net, optimizer, nn.CrossEntropyLoss(), gradient_accumulation_steps=2)
metrics = {'accuracy': Accuracy(), 'loss': Loss(nn.CrossEntropyLoss()), 'precision': Precision(average=False), 'recall': Recall(average='macro'), 'f1': Fbeta(1.0), 'confusion': ConfusionMatrix(3),
           'iou': IoU(ConfusionMatrix(3)), 'top': TopKCategoricalAccuracy(2), 'report': ClassificationReport(output_dict=True), 'entropy': Entropy()}  # fmt: skip
evaluator = create_supervised_evaluator(net, metrics)
batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 16)
RunningAverage(output_transform=lambda loss: loss).attach(trainer, 'loss')
schedule = create_lr_scheduler_with_warmup(CosineAnnealingScheduler(optimizer, 'lr', 0.5, 0.01, 12), 0.0, 4)
trainer.add_event_handler(Events.ITERATION_STARTED, schedule)
trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
average = EMAHandler(net, momentum=0.1)
average.attach(trainer)
out = {'epochs': [], 'rates': []}
trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda: out['rates'].append(optimizer.param_groups[0]['lr']))


@trainer.on(Events.EPOCH_COMPLETED(every=1))
def evaluate(engine):
    evaluator.run(batches)
    said = {key: value.tolist() if torch.is_tensor(value) else value for key, value in evaluator.state.metrics.items() if key in metrics}
    out['epochs'].append([engine.state.metrics['loss'], said])


with tempfile.TemporaryDirectory() as folder:
    keeper = ModelCheckpoint(folder, 'kept', n_saved=2, require_empty=False)
    everything = {'model': net, 'optimizer': optimizer, 'trainer': trainer}
    trainer.add_event_handler(Events.EPOCH_COMPLETED, keeper, everything)
    evaluator.add_event_handler(Events.COMPLETED, EarlyStopping(5, lambda engine: -engine.state.metrics['loss'], trainer))
    trainer.run(batches, max_epochs=3)
    Checkpoint.load_objects(everything, torch.load(keeper.last_checkpoint))
    out['steps'] = trainer.state.iteration
out['average'] = sum(p.abs().sum().item() for p in average.ema_model.parameters())
one, other = wave(2, 3, 16, 16).abs(), wave(2, 3, 16, 16, k=0.36).abs()
words = (['a b c d'.split()], [['a b d'.split()]])
rows = (wave(8, 3), wave(8, 3, k=0.9))
for metric, given in ((SSIM(data_range=1.0), (one, other)), (PSNR(1.0), (one, other)), (Bleu(ngram=2, smooth='smooth1'), words), (Rouge(variants=['L', 2], multiref='best'), words),
                      (MaximumMeanDiscrepancy(), rows), (KLDivergence(), rows), (JSDivergence(), rows), (MeanAbsoluteError(), rows), (MeanSquaredError(), rows), (MeanPairwiseDistance(), rows),
                      (CosineSimilarity(), rows), (AveragePrecision(), (wave(8).sigmoid(), torch.arange(8) % 2)), (ROC_AUC(), (wave(8).sigmoid(), torch.arange(8) % 2))):  # fmt: skip
    metric.update(given)
    value = metric.compute()
    out[type(metric).__name__] = {key: float(v) for key, v in value.items()} if isinstance(value, dict) else float(value)
print(json.dumps(out))
