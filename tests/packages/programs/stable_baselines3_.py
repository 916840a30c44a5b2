"""stable-baselines3: PPO, A2C, DQN, SAC, TD3 and DDPG from fixed weights; what networks say, how they learn, saving."""
import json
import tempfile

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.distributions import DiagGaussianDistribution, SquashedDiagGaussianDistribution, StateDependentNoiseDistribution
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.torch_layers import NatureCNN


def fix(model, scale=0.3):
    with torch.no_grad():
        for i, (name, p) in enumerate(model.named_parameters()):
            p.copy_((torch.sin(torch.arange(p.numel()).double() * (1.37 + 0.01 * i) + i) * scale).view(p.shape))
    return model


out = {}
rng = np.random.default_rng(0)
for kind, game in ((PPO, 'CartPole-v1'), (A2C, 'CartPole-v1'), (DQN, 'CartPole-v1'), (SAC, 'Pendulum-v1'), (TD3, 'Pendulum-v1'), (DDPG, 'Pendulum-v1'), (PPO, 'Pendulum-v1')):
    options = {PPO: dict(n_steps=64, batch_size=32, n_epochs=2), A2C: {}, DQN: dict(learning_starts=20, train_freq=4, batch_size=16)}.get(kind, dict(learning_starts=20, batch_size=16))
    model = kind('MlpPolicy', game, seed=0, device='cpu', policy_kwargs=dict(net_arch=[16, 16]), **options)
    fix(model.policy)
    seen = rng.normal(size=(5, *model.observation_space.shape)).astype(np.float32)
    out[f'{kind.__name__} {game}'] = np.asarray(model.predict(seen, deterministic=True)[0]).tolist()
    if kind is PPO and game == 'CartPole-v1':
        value, logs, entropy = model.policy.evaluate_actions(torch.tensor(seen), torch.tensor([0, 1, 0, 1, 1]))
        out['evaluated'] = [value.tolist(), logs.tolist(), entropy.tolist()]
    model.learn(130)
    assert all(bool(torch.isfinite(p).all()) for p in model.policy.parameters())
    with tempfile.TemporaryDirectory() as folder:
        model.save(f'{folder}/model')
        again = kind.load(f'{folder}/model', device='cpu')
        out[f'{kind.__name__} {game}'].append(all(torch.equal(a, b) for a, b in zip(model.policy.state_dict().values(), again.policy.state_dict().values())))
# What is learnt from given transitions, without draws.
model = DQN('MlpPolicy', 'CartPole-v1', device='cpu', policy_kwargs=dict(net_arch=[16]), batch_size=200, buffer_size=200, learning_starts=0, seed=0)
fix(model.policy)
model.learn(1)
model.replay_buffer.reset()
for i in range(200):
    model.replay_buffer.add(rng.normal(size=(1, 4)), rng.normal(size=(1, 4)), rng.integers(0, 2, (1, 1)), rng.normal(size=1), rng.integers(0, 2, 1), [{}])
every = model.replay_buffer._get_samples(np.arange(200))
model.replay_buffer.sample = lambda *args, **kwargs: every
fix(model.policy)
model.policy.optimizer.state.clear()
model.train(gradient_steps=4, batch_size=200)
out['dqn'] = [sum(p.double().abs().sum().item() for p in model.q_net.parameters()), model.logger.name_to_value['train/loss']]
model = PPO('MlpPolicy', 'Pendulum-v1', device='cpu', policy_kwargs=dict(net_arch=[16]), n_steps=64, batch_size=64, n_epochs=3, seed=0)
fix(model.policy)
model.learn(1)
buffer = model.rollout_buffer
buffer.reset()
for i in range(64):
    action, value = rng.normal(size=(1, 1)).astype('float32'), torch.tensor(rng.normal(size=1).astype('float32'))
    buffer.add(rng.normal(size=(1, 3)).astype('float32'), action, rng.normal(size=1), np.array([i % 20 == 0]), value, torch.tensor(rng.normal(size=1).astype('float32')))
buffer.compute_returns_and_advantage(torch.tensor([0.3]), np.array([False]))
out['returns'] = [float(buffer.returns.sum()), float(np.abs(buffer.advantages).sum())]
fix(model.policy)
model.policy.optimizer.state.clear()
model.train()
out['ppo'] = [sum(p.double().abs().sum().item() for p in model.policy.parameters()), model.logger.name_to_value['train/loss'], model.logger.name_to_value['train/approx_kl']]
for kind in (DiagGaussianDistribution(3), SquashedDiagGaussianDistribution(3)):
    kind = kind.proba_distribution(torch.tensor(rng.normal(size=(4, 3))), torch.tensor(rng.normal(size=3)))
    out[type(kind).__name__] = [kind.log_prob(torch.tensor(rng.normal(size=(4, 3)) * 0.2)).tolist(), kind.mode().tolist()]
cnn = fix(NatureCNN(gym.spaces.Box(0, 255, (3, 36, 36), np.uint8), 8), 0.1)
out['cnn'] = cnn(torch.tensor(rng.integers(0, 255, (2, 3, 36, 36))) / 255.0).tolist()
print(json.dumps(out, default=float))
