"""fastai: Learners over arrays, one cycle, callbacks, metrics; a tabular model; transforms of pictures."""
import json
import random
import tempfile
import warnings

import numpy as np
import pandas as pd
import torch
from fastai.callback.all import *
from fastai.data.all import *
from fastai.learner import *
from fastai.metrics import *
from fastai.optimizer import *
from fastai.tabular.all import *
from fastai.vision.all import *

warnings.simplefilter('ignore')


def fix(model, scale=0.3):
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_((torch.sin(torch.arange(p.numel()).double() * (1.0 + 0.01 * k) + k) * scale).view(p.shape))
    return model


def seeds():
    random.seed(0), np.random.seed(0), torch.manual_seed(0)


out = {}
rng = np.random.default_rng(0)
pictures, labels = rng.normal(size=(40, 3, 16, 16)).astype('float32'), rng.integers(0, 3, 40)
pictures[np.arange(40), labels] += 1


class Pictures:
    def __init__(self, part):
        self.x, self.y, self.c = torch.tensor(pictures[part]), torch.tensor(labels[part]), 3

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


seeds()
loaders = DataLoaders.from_dsets(Pictures(slice(0, 32)), Pictures(slice(32, 40)), bs=8, shuffle=True, num_workers=0, device='cpu')
net = fix(nn.Sequential(ConvLayer(3, 8), ResBlock(1, 8, 8, stride=2), nn.AdaptiveAvgPool2d(1), Flatten(), LinBnDrop(8, 3, p=0.0, bn=False)))
learner = Learner(loaders, net, loss_func=CrossEntropyLossFlat(), metrics=[accuracy, F1Score(average='macro')], opt_func=Adam, path=tempfile.mkdtemp(),
                  cbs=[GradientClip(1.0), SaveModelCallback(monitor='valid_loss')])
with learner.no_bar(), learner.no_logging():
    learner.fit_one_cycle(2, 1e-2)
    out['vision'] = [list(map(float, row)) for row in learner.recorder.values]
    out['lrs'] = [float(v) for v in learner.recorder.lrs]
    out['losses'] = [float(v) for v in learner.recorder.losses]
    learner.freeze_to(-1)
    learner.fit_flat_cos(1, slice(1e-4, 1e-3))
    out['flat'] = [list(map(float, row)) for row in learner.recorder.values]
    predictions, targets = learner.get_preds(dl=loaders.valid)
    out['predictions'] = [predictions.sum(0).tolist(), targets.tolist()]
for name, kind in (('sgd', SGD), ('rms', RMSProp), ('lamb', Lamb), ('ranger', ranger), ('radam', RAdam), ('qhadam', QHAdam), ('lars', Larc)):
    seeds()
    net = fix(nn.Sequential(Flatten(), nn.Linear(768, 8), Mish(), nn.Linear(8, 3)), 0.05)
    loaders = DataLoaders.from_dsets(Pictures(slice(0, 32)), Pictures(slice(32, 40)), bs=16, shuffle=False, num_workers=0, device='cpu')
    learner = Learner(loaders, net, loss_func=CrossEntropyLossFlat(), opt_func=kind, path=tempfile.mkdtemp())
    with learner.no_bar(), learner.no_logging():
        learner.fit(2, 1e-2)
    out[name] = [list(map(float, row)) for row in learner.recorder.values]

seeds()
frame = pd.DataFrame({'a': rng.normal(size=60), 'b': rng.normal(size=60), 'c': rng.choice(list('xyz'), 60), 'd': rng.choice(['p', 'q'], 60)})
frame.loc[::7, 'a'] = np.nan
frame['y'] = (frame.b > 0).map({True: 'yes', False: 'no'})
tables = TabularDataLoaders.from_df(frame, procs=[Categorify, FillMissing, Normalize], cat_names=['c', 'd'], cont_names=['a', 'b'], y_names='y', y_block=CategoryBlock(),
                                    valid_idx=list(range(48, 60)), bs=16, num_workers=0, device='cpu')
learner = tabular_learner(tables, n_out=2, layers=[16, 8], metrics=[accuracy, RocAucBinary()], path=tempfile.mkdtemp())
fix(learner.model)
with learner.no_bar(), learner.no_logging():
    learner.fit_one_cycle(2, 5e-3)
    out['tabular'] = [list(map(float, row)) for row in learner.recorder.values]
    row, kind, probabilities = learner.predict(frame.iloc[3])
    out['row'] = [int(kind), probabilities.tolist()]

seeds()
seeds()
batch = TensorImage(torch.tensor(pictures[:4]).sigmoid())
out['kept'] = [type(batch * 2).__name__, type(batch[0]).__name__, type(batch.mean()).__name__]
for name, transform in (('flip', Flip(p=1.0)), ('rotate', Rotate(p=1.0, draw=20.0)), ('zoom', Zoom(p=1.0, draw=1.2, draw_x=0.4, draw_y=0.6)), ('warp', Warp(p=1.0, draw_x=0.1, draw_y=0.1)),
                        ('brightness', Brightness(p=1.0, draw=0.6)), ('contrast', Contrast(p=1.0, draw=1.3)), ('hue', Hue(p=1.0, draw=0.05)), ('saturation', Saturation(p=1.0, draw=1.2))):
    done = transform(batch.clone(), split_idx=0)
    out[name] = [type(done).__name__, float(done.sum()), float(done[1, 2, 3, 4])]
unet = fix(DynamicUnet(nn.Sequential(ConvLayer(3, 8, stride=2), ConvLayer(8, 16, stride=2)), 2, (16, 16)), 0.05).eval()
out['unet'] = float(unet(torch.tensor(pictures[:2])).abs().mean())
xr = fix(xresnet18(n_out=4), 0.05)
loss = xr(torch.tensor(pictures[:4]).repeat(1, 1, 4, 4)).square().mean()
out['xresnet'] = loss.item()
print(json.dumps(out))
