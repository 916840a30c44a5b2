"""e3nn (and opt_einsum_fx below it): layers whose code is written with torch.fx, forward and trained."""
import json
import warnings

import torch

warnings.simplefilter('ignore')
import e3nn
import opt_einsum_fx
from e3nn import o3

e3nn.set_optimization_defaults(jit_mode='eager')
out = {}


def wave(*shape, k=0.37):
    n = 1
    for size in shape:
        n *= size
    return torch.sin(torch.arange(n, dtype=torch.float64) * k).float().reshape(shape)


def fill(module):
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(wave(*p.shape, k=0.7 + i))
    return module


def total(x):
    return x.double().abs().sum().item()


linear = fill(o3.Linear('3x0e+2x1o', '2x0e+1x1o'))
out['linear'] = total(linear(wave(4, 9)))
product = fill(o3.FullyConnectedTensorProduct('2x0e+1x1o', '1x0e+1x1o', '2x0e+1x1o', compile_right=True))
out['product'] = total(product(wave(4, 5), wave(4, 4, k=0.9)))
out['right'] = list(product.right(wave(4, 4, k=0.9)).shape)
out['harmonics'] = total(o3.spherical_harmonics([0, 1, 2, 3], wave(5, 3), True))
out['angles'] = total(o3.spherical_harmonics_alpha_beta([0, 1, 2], wave(5), wave(5, k=0.8)))
out['wigner'] = total(o3.wigner_3j(1, 2, 3)) + total(o3.wigner_D(2, wave(1), wave(1, k=0.5), wave(1, k=0.2)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.product = o3.FullyConnectedTensorProduct('2x0e+1x1o', '1x0e+1x1o', '4x0e+2x1o')
        self.linear = o3.Linear('4x0e+2x1o', '1x0e')

    def forward(self, a, b):
        return self.linear(self.product(a, b))


net = fill(Net())
optimizer = torch.optim.SGD(net.parameters(), 0.5)
losses = []
for _ in range(6):
    loss = (net(wave(8, 5), wave(8, 4, k=0.9)) - wave(8, 1, k=0.2)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
out['losses'] = losses
turn = o3.angles_to_matrix(*torch.tensor([0.3, 1.1, -0.7]))  # a drawn one passes the tolerance at times
out['equivariant'] = torch.allclose(o3.spherical_harmonics('1o', wave(5, 3) @ turn.T, True), o3.spherical_harmonics('1o', wave(5, 3), True) @ o3.Irreps('1o').D_from_matrix(turn).T, atol=1e-5)


def chain(a, b, c, d):
    return torch.einsum('ij,jk,kl->il', a, b, c) * 2.0 + 4.0 * torch.einsum('ij,jl->il', 3.0 * a, d)


args = (wave(3, 20), wave(20, 4), wave(4, 5), wave(20, 5))
fast = opt_einsum_fx.optimize_einsums_full(chain, args)
out['einsums'] = [total(fast(*args)), total(chain(*args)), sum(n.op == 'call_function' for n in fast.graph.nodes), [n.name for n in fast.graph.nodes]]
print(json.dumps(out))
