import sys

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
arrays = np.load(sys.argv[1])
X = torch.as_tensor(arrays['train_images'].reshape(-1, 64) / 16.0)
y = torch.as_tensor(arrays['train_labels']).long()
X_test = torch.as_tensor(arrays['test_images'].reshape(-1, 64) / 16.0)
y_test = torch.as_tensor(arrays['test_labels']).long()
W = torch.nn.Parameter(torch.zeros(64, 10))
b = torch.nn.Parameter(torch.zeros(10))
optimizer = torch.optim.LBFGS([W, b], lr=1, max_iter=20, history_size=10, line_search_fn='strong_wolfe')
losses = []


def closure():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(torch.addmm(input=b, mat1=X, mat2=W), y) + 1e-4 * W.square().sum()
    loss.backward()
    return loss


for step in range(5):
    losses.append(optimizer.step(closure).item())
accuracy = (torch.addmm(b, X_test, W).argmax(1) == y_test).double().mean()
print('losses', ' '.join(f'{value:.6f}' for value in losses))
print(f'accuracy {accuracy:.3f}')
