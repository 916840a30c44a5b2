"""tensordict: indexing, stacking, modules in sequence, functional calls, tensorclasses, saving, probabilistic modules."""
import json
import tempfile

import torch
from tensordict import TensorDict, TensorDictParams, lazy_stack, tensorclass
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule, TensorDictSequential, set_interaction_type, InteractionType, NormalParamExtractor


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).float() * k).view(shape)


def fix(model, scale=0.3):
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_((torch.sin(torch.arange(p.numel()).double() * (1.37 + 0.01 * i) + i) * scale).view(p.shape))
    return model


out = {}
data = TensorDict({'a': wave(4, 3), 'b': {'c': wave(4, 3, 2), 'd': torch.arange(4)}}, batch_size=[4])
out['shapes'] = [list(data.shape), sorted(map(str, data.keys(True, True))), list(data[1:3].shape), list(data['b', 'c'].shape), list(data[None].expand(2, 4).shape), list(data.reshape(2, 2).shape)]
stacked = torch.stack([data, data + 1], 1)
out['stacked'] = [list(stacked.shape), stacked['b', 'c'].sum().item(), list(torch.cat([data, data], 0).shape), [list(t.shape) for t in stacked.unbind(1)], [list(t.shape) for t in data.split(3)],
                  [list(t.shape) for t in torch.chunk(data, 2)]]
lazy = lazy_stack([data, data.clone()], 0)
out['lazy'] = [type(lazy).__name__, list(lazy.shape), lazy['a'].sum().item(), lazy[0]['a'].sum().item()]
masked = data[torch.tensor([True, False, True, False])]
out['masked'] = [list(masked.shape), masked['a'].sum().item(), data[torch.tensor([3, 0])]['b', 'd'].tolist()]
data[0] = data[1]
data['e'] = torch.zeros(4, 1)
data.set(('n', 'm'), torch.ones(4))
out['written'] = [data['a'][0].tolist(), list(data.select('a', ('n', 'm')).keys(True, True)) and 2, sorted(data.exclude('b').keys()), data.flatten_keys('.').keys().__len__()]
out['math'] = [(data.select('a', 'b') * 2 + 1).mul(3).sum(reduce=True).item(), data.select('a').abs().sqrt()['a'].sum().item(), (data['a'] == data['a']).all().item(), bool((data == data).all()), data.float().select('a', 'b').mean()['a'].item()]
out['apply'] = [data.apply(lambda x: x + 1)['b', 'd'].tolist(), sorted(data.named_apply(lambda n, x: x.sum() if n == 'a' else None, batch_size=[]).keys())]
out['gather'] = data.gather(0, torch.tensor([0, 0, 3]))['b', 'd'].tolist()
with tempfile.TemporaryDirectory() as folder:
    data.memmap(folder)
    again = TensorDict.load_memmap(folder)
    out['mapped'] = [type(again['a']).__name__, bool((again == data).all()), again['b', 'c'].sum().item()]
net = TensorDictSequential(TensorDictModule(fix(torch.nn.Linear(3, 5)), in_keys=['a'], out_keys=['hidden']), TensorDictModule(torch.tanh, in_keys=['hidden'], out_keys=['h']),
                           TensorDictModule(fix(torch.nn.Linear(5, 2)), in_keys=['h'], out_keys=[('out', 'y')]))
said = net(data)
out['net'] = [said['out', 'y'].tolist(), net.in_keys, list(map(str, net.out_keys))]
params = TensorDict.from_module(net)
out['params'] = [sorted(map(str, params.keys(True, True))), sum(p.sum().item() for p in params.values(True, True))]
with (params.apply(lambda p: p * 0.5)).to_module(net):
    out['swapped'] = net(data)['out', 'y'].sum().item()
out['back'] = net(data)['out', 'y'].sum().item()
nets = [fix(torch.nn.Linear(3, 2), 0.1 * (i + 1)) for i in range(3)]
several = TensorDict.from_modules(*nets, as_module=True)
base = torch.nn.Linear(3, 2, device='meta')


def call(p, x):
    with p.to_module(base):
        return base(x)


result = torch.vmap(call, (0, None))(several, wave(4, 3))
result.square().sum().backward()
out['vmapped'] = [result.sum().item(), len(list(several.parameters())), sum(p.grad.abs().sum().item() for p in several.parameters())]
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    loss = net(data.clone())['out', 'y'].square().mean()
    loss.backward()
    optimizer.step(), optimizer.zero_grad()
out['trained'] = loss.item()
actor = ProbabilisticTensorDictSequential(TensorDictModule(torch.nn.Sequential(fix(torch.nn.Linear(3, 4)), NormalParamExtractor()), in_keys=['a'], out_keys=['loc', 'scale']),
                                          ProbabilisticTensorDictModule(in_keys=['loc', 'scale'], out_keys=['action'], distribution_class=torch.distributions.Normal, return_log_prob=True))
with set_interaction_type(InteractionType.MODE):
    acted = actor(data.clone())
out['actor'] = [acted['action'].tolist(), acted['action_log_prob'].tolist()]
out['log_prob'] = actor.log_prob(acted).tolist()


@tensorclass
class Batch:
    image: torch.Tensor
    mask: torch.Tensor
    label: str = 'x'

    def mean(self):
        return self.image.mean()


batch = Batch(wave(4, 2, 2), torch.ones(4), batch_size=[4])
out['class'] = [batch.mean().item(), list(batch[:2].image.shape), torch.stack([batch, batch]).image.sum().item(), batch.label, type(batch[0]).__name__, batch.to_tensordict()['mask'].sum().item()]
held = TensorDictParams(TensorDict({'w': wave(3, 2), 'in': {'b': wave(2)}}))
out['held'] = [len(list(held.parameters())), sorted(held.state_dict().keys()), (wave(4, 3) @ held['w'] + held['in', 'b']).sum().item()]
out['text'] = repr(data.select('a', 'b')).replace(' ', '')
compiled = torch.compile(lambda td: td + 1)
out['compiled'] = compiled(data.select('a'))['a'].sum().item()
with data.unlock_() as unlocked, data.view(-1) as flat:
    out['viewed'] = list(flat.shape)
print(json.dumps(out))
