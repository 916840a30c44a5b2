"""REINFORCE with a categorical policy."""
import flambeau as fl
from flambeau import nn
from flambeau.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, states: int, actions: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(states, 8), nn.Tanh(), nn.Linear(8, actions))

    def forward(self, state: fl.Tensor) -> Categorical:
        return Categorical(logits=self.body(state))


policy = Policy(3, 2)
choice = policy(fl.randn(5, 3))
action = choice.sample()
loss = -(choice.log_prob(action) * fl.ones(5)).mean() - 0.01 * choice.entropy().mean()
loss.backward()
print(action.shape)
