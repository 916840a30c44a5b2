"""pytorch-lightning: fit with callbacks, checkpoints and resuming, 16 bits, averaged weights, prediction."""
import json
import tempfile
import warnings

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint, StochasticWeightAveraging
from pytorch_lightning.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter('ignore')


class Net(pl.LightningModule):
    def __init__(self, hidden=16):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(8, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        with torch.no_grad():
            for i, p in enumerate(self.parameters()):
                p.copy_(torch.sin(torch.arange(p.numel()) * 1.37 + i).view(p.shape) * 0.3)

    def forward(self, x):
        return self.layers(x).squeeze(-1)

    def training_step(self, batch, batch_idx):
        loss = nn.functional.mse_loss(self(batch[0]), batch[1])
        self.log('train_loss', loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log('val_loss', nn.functional.mse_loss(self(batch[0]), batch[1]), prog_bar=True)

    def predict_step(self, batch, batch_idx):
        return self(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), 1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)]


x = torch.sin(torch.arange(128 * 8).float() * 0.7).view(128, 8)
y = x.sum(1)
data = DataLoader(TensorDataset(x, y), batch_size=32)
quiet = dict(accelerator='cpu', enable_progress_bar=False, enable_model_summary=False)
out = {}
with tempfile.TemporaryDirectory() as folder:
    pl.seed_everything(1, verbose=False)
    keep = ModelCheckpoint(dirpath=folder, monitor='val_loss', save_last=True)
    trainer = pl.Trainer(max_epochs=3, logger=CSVLogger(folder), log_every_n_steps=1, callbacks=[keep, EarlyStopping('val_loss'), LearningRateMonitor()], **quiet)
    trainer.fit(Net(), data, data)
    out['fit'] = [trainer.callback_metrics[name].item() for name in ('train_loss_epoch', 'val_loss')]
    best = Net.load_from_checkpoint(keep.best_model_path)
    out['loaded'] = best(x).double().sum().item()
    resumed = pl.Trainer(max_epochs=5, logger=False, enable_checkpointing=False, **quiet)
    resumed.fit(Net(), data, data, ckpt_path=f'{folder}/last.ckpt')
    out['resumed'] = [resumed.current_epoch, resumed.global_step, resumed.callback_metrics['val_loss'].item()]
    half = pl.Trainer(max_epochs=1, precision='bf16-mixed', logger=False, enable_checkpointing=False, **quiet)
    half.fit(Net(), data, data)
    out['bf16'] = round(half.callback_metrics['val_loss'].item(), 2)
    averaged = pl.Trainer(max_epochs=4, logger=False, enable_checkpointing=False, gradient_clip_val=1.0, accumulate_grad_batches=2,
                          callbacks=[StochasticWeightAveraging(1e-2)], **quiet)
    averaged.fit(Net(), data, data)
    out['averaged'] = averaged.validate(averaged.model, data, verbose=False)[0]['val_loss']
    out['predicted'] = torch.cat(trainer.predict(best, data)).double().sum().item()
print(json.dumps(out))
