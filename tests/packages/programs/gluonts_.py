"""gluonts: DeepAR, a feed forward network and PatchTST with their distributions: losses and gradients, a predictor that is written and read."""
import json
import logging
import pathlib
import tempfile
import warnings

import numpy as np
import pandas as pd
import torch
from gluonts.dataset.pandas import PandasDataset
from gluonts.model.predictor import Predictor
from gluonts.torch import DLinearEstimator
from gluonts.torch.distributions import LaplaceOutput, NegativeBinomialOutput, NormalOutput, StudentTOutput
from gluonts.torch.model.deepar.module import DeepARModel
from gluonts.torch.model.patch_tst.module import PatchTSTModel
from gluonts.torch.model.simple_feedforward.module import SimpleFeedForwardModel

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).reshape(shape).float()


def filled(model):
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * 0.3)
    return model


def gradients(model):
    return sum(p.grad.abs().sum().item() for p in model.parameters() if p.grad is not None)


out = {}
for output in (StudentTOutput(), NegativeBinomialOutput(), NormalOutput(), LaplaceOutput()):
    model = filled(DeepARModel(freq="D", context_length=8, prediction_length=4, num_feat_dynamic_real=1, num_feat_static_real=1, num_feat_static_cat=1, cardinality=[3],
                               hidden_size=8, dropout_rate=0.0, lags_seq=[1, 2, 3], distr_output=output))  # fmt: skip
    past = model._past_length
    whole = torch.ones(3, past), torch.ones(3, 4)
    given = {"feat_static_cat": torch.tensor([[0], [1], [2]]), "feat_static_real": wave(3, 1), "past_time_feat": wave(3, past, 1), "past_observed_values": whole[0],
             "past_target": (wave(3, past) * 3 + 4).round(), "future_time_feat": wave(3, 4, 1)}  # fmt: skip
    loss = model.loss(**given, future_target=(wave(3, 4, k=0.9) * 3 + 4).round(), future_observed_values=whole[1]).mean()
    loss.backward()
    out[type(output).__name__] = [loss.item(), gradients(model), list(model(**given, num_parallel_samples=5).shape)]
model = filled(SimpleFeedForwardModel(prediction_length=4, context_length=8, hidden_dimensions=[8, 8]))
arguments, loc, scale = model(wave(3, 8) + 2)
said = model.distr_output.distribution(arguments, loc, scale)
loss = -said.log_prob(wave(3, 4)).mean()
loss.backward()
out["feedforward"] = [loss.item(), said.mean.tolist(), gradients(model), said.cdf(wave(3, 4)).sum().item()]
model = filled(PatchTSTModel(prediction_length=4, context_length=8, patch_len=4, stride=2, d_model=8, nhead=2, dim_feedforward=8, num_encoder_layers=1, dropout=0.0, activation="relu",
                             norm_first=False, scaling="mean", padding_patch="end", num_feat_dynamic_real=0)).eval()  # fmt: skip
arguments, loc, scale = model(past_target=wave(3, 8) + 2, past_observed_values=torch.ones(3, 8))
out["patches"] = [[a.sum().item() for a in arguments], scale.flatten().tolist()]
data = PandasDataset({"a": pd.DataFrame({"target": wave(60).numpy() + 2}, index=pd.period_range("2020-01-01", periods=60, freq="D"))}, target="target")
trainer = {"max_epochs": 1, "enable_progress_bar": False, "logger": False, "accelerator": "cpu", "enable_checkpointing": True, "default_root_dir": tempfile.mkdtemp(), "enable_model_summary": False}
predictor = DLinearEstimator(prediction_length=4, batch_size=4, num_batches_per_epoch=2, trainer_kwargs=trainer).train(data)
with tempfile.TemporaryDirectory() as folder:
    predictor.serialize(pathlib.Path(folder))
    again = Predictor.deserialize(pathlib.Path(folder))
for each in (predictor, again):
    filled(each.prediction_net)
forecasts = [next(iter(each.predict(data))) for each in (predictor, again)]
out["predicted"] = [list(forecasts[0].mean.shape), str(forecasts[0].start_date), bool(np.isfinite(forecasts[0].samples).all()) if hasattr(forecasts[0], "samples") else forecasts[0].mean.tolist(),
                    [type(p.prediction_net).__name__ for p in (predictor, again)]]  # fmt: skip
print(json.dumps(out))
