from collections import namedtuple
from itertools import count

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

SavedAction = namedtuple('SavedAction', ['log_prob', 'value'])


class CartPole:
    """A pole on a cart (Barto, Sutton and Anderson 1983), integrated by Euler's rule."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        return self.state

    def step(self, action):
        x, v, a, w = self.state
        force = 10.0 if action == 1 else -10.0
        temp = (force + 0.05 * w * w * np.sin(a)) / 1.1
        acc = (9.8 * np.sin(a) - np.cos(a) * temp) / (0.5 * (4.0 / 3.0 - 0.1 * np.cos(a) ** 2 / 1.1))
        self.state = np.array([x + 0.02 * v, v + 0.02 * (temp - 0.05 * acc * np.cos(a) / 1.1), a + 0.02 * w, w + 0.02 * acc])
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095
        return self.state, 1.0, bool(done)


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(4, 128)
        self.action_head = nn.Linear(128, 2)
        self.value_head = nn.Linear(128, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


torch.manual_seed(543)
env = CartPole(543)
model = Policy()
optimizer = optim.Adam(model.parameters(), lr=3e-2)
eps = np.finfo(np.float32).eps.item()


def select_action(state):
    state = torch.from_numpy(state).float()
    probs, state_value = model(state)
    m = Categorical(probs)
    action = m.sample()
    model.saved_actions.append(SavedAction(m.log_prob(action), state_value))
    return action.item()


def finish_episode():
    R = 0
    policy_losses, value_losses, returns = [], [], []
    for r in model.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    for (log_prob, value), R in zip(model.saved_actions, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:]
    del model.saved_actions[:]


running_reward = 10
for i_episode in count(1):
    state = env.reset()
    for t in range(1, 200):
        state, reward, done = env.step(select_action(state))
        model.rewards.append(reward)
        if done:
            break
    running_reward = 0.05 * t + (1 - 0.05) * running_reward
    finish_episode()
    if running_reward > 40 or i_episode == 300:
        print('Episode {} running reward {:.2f}'.format(i_episode, running_reward))
        break
