"""torchrl: losses of eight algorithms over given steps with their gradients, advantages, distributions, recurrent modules, buffers, an environment."""
import json
import warnings

import torch
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.data import Bounded, Categorical, LazyMemmapStorage, LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import PendulumEnv, check_env_specs
from torchrl.modules import (
    MLP,
    ConvNet,
    IndependentNormal,
    LSTMModule,
    MaskedCategorical,
    ProbabilisticActor,
    QValueActor,
    TanhNormal,
    TruncatedNormal,
    ValueOperator,
    set_recurrent_mode,
)
from torchrl.objectives import A2CLoss, ClipPPOLoss, DDPGLoss, DQNLoss, PPOLoss, ReinforceLoss, SoftUpdate
from torchrl.objectives.value import GAE, TD0Estimator, TDLambdaEstimator

warnings.simplefilter("ignore")


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).reshape(shape).float()


def filled(model):
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * 0.4)
    return model


def net(n, first=4):
    return filled(nn.Sequential(nn.Linear(first, 8), nn.Tanh(), nn.Linear(8, n)))


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net(1, 6)

    def forward(self, observation, action):
        return self.net(torch.cat([observation, action], -1))


def actor():
    module = TensorDictModule(nn.Sequential(net(4), NormalParamExtractor()), in_keys=["observation"], out_keys=["loc", "scale"])
    return ProbabilisticActor(module, in_keys=["loc", "scale"], distribution_class=IndependentNormal, return_log_prob=True, spec=Bounded(-torch.ones(2), torch.ones(2), (2,)))


def value():
    return ValueOperator(net(1), in_keys=["observation"])


steps = TensorDict({
    "observation": wave(6, 4), "action": torch.tanh(wave(6, 2, k=0.7)), "action_log_prob": wave(6, k=0.2) - 1, "sample_log_prob": wave(6, k=0.2) - 1,
    "next": TensorDict({"observation": wave(6, 4, k=0.9), "reward": wave(6, 1, k=0.8), "done": torch.zeros(6, 1, dtype=torch.bool), "terminated": torch.arange(6)[:, None] % 3 == 2}, [6]),
}, [6])  # fmt: skip
out = {}
for name, estimator in (("gae", GAE(gamma=0.99, lmbda=0.95, value_network=value())), ("td0", TD0Estimator(gamma=0.9, value_network=value())), ("lambda", TDLambdaEstimator(gamma=0.9, lmbda=0.8, value_network=value()))):
    found = estimator(steps.clone().unsqueeze(0))
    out[name] = [found["advantage"].flatten().tolist(), found["value_target"].sum().item()]
    known = found.reshape(-1) if name == "gae" else known


def losses(module, data):
    said = {key: v for key, v in module(data.clone()).items() if key.startswith("loss")}
    sum(said.values()).backward()
    return [{key: said[key].item() for key in sorted(said)}, sum(p.grad.abs().sum().item() for p in module.parameters() if p.grad is not None)]


out["ppo"] = [losses(kind(actor(), value(), entropy_bonus=False), known) for kind in (ClipPPOLoss, PPOLoss)]
out["a2c"] = losses(A2CLoss(actor(), value(), entropy_bonus=False), known)
out["reinforce"] = losses(ReinforceLoss(actor(), value()), known)
out["ddpg"] = losses(DDPGLoss(TensorDictModule(net(2), ["observation"], ["action"]), ValueOperator(Q(), in_keys=["observation", "action"])), steps)
q, chosen, trained = QValueActor(net(3), in_keys=["observation"], spec=Categorical(3), action_space="categorical"), steps.clone(), []
chosen["action"] = torch.arange(6) % 3
module = DQNLoss(q, action_space="categorical", delay_value=True, double_dqn=True)
update, optimizer = SoftUpdate(module, eps=0.9), torch.optim.Adam(module.parameters(), 0.01)
for _ in range(3):
    loss = module(chosen.clone())["loss"]
    loss.backward()
    optimizer.step(), optimizer.zero_grad(), update.step()
    trained.append(loss.item())
out["dqn"] = trained
lstm, rolled = filled(LSTMModule(4, 8, in_key="observation", out_key="h")), steps.clone().unsqueeze(0)
rolled["is_init"] = torch.zeros(1, 6, 1, dtype=torch.bool)
rolled["is_init"][0, 3] = True
with set_recurrent_mode(True):
    out["recurrent"] = lstm(rolled)["h"].abs().sum(-1).flatten().tolist()
out["modules"] = [filled(MLP(in_features=4, out_features=2, num_cells=[8]))(wave(3, 4)).tolist(), filled(ConvNet(in_features=3, num_cells=[4, 4], kernel_sizes=3))(wave(2, 3, 9, 9)).sum().item()]
out["distributions"] = [MaskedCategorical(logits=wave(3, 4), mask=wave(3, 4) > -0.5).log_prob(torch.tensor([0, 1, 0])).tolist(), TanhNormal(wave(3), torch.ones(3)).log_prob(torch.tanh(wave(3, k=0.9))).tolist(),
                        TruncatedNormal(wave(3), torch.ones(3)).log_prob(wave(3, k=0.9) * 0.9).tolist()]  # fmt: skip
for storage in (LazyTensorStorage(20), LazyMemmapStorage(20)):
    buffer = TensorDictReplayBuffer(storage=storage, batch_size=4, sampler=SamplerWithoutReplacement())
    buffer.extend(steps)
    out[type(storage).__name__] = [len(buffer), list(buffer.sample().shape), buffer[:]["observation"].sum().item()]
env = PendulumEnv()
check_env_specs(env)
out["env"] = list(env.rollout(5).shape)
print(json.dumps(out))
