"""Actor and critic learn to balance a pole on a cart (Barto, Sutton and Anderson 1983); the cart is a class of this file.

The actor gives a chance to each of two pushes, the critic guesses the rewards to come. After each episode the actor is moved towards
what went better than guessed, and the critic towards what came. A step of `--steps` is an episode, of at most 300 moves.

    python examples/actor_critic.py --steps 250
"""

import argparse
import math

import flambeau as fl

nn, F = fl.nn, fl.nn.functional


class Cart:
    """A cart on a rail with a pole on top: place, speed, angle, turning speed. A move lasts 20 ms."""

    def reset(self):
        self.state = (fl.rand(4) * 0.1 - 0.05).tolist()
        return self.state

    def move(self, push):
        """The next state, and whether the pole has fallen or the rail has ended."""
        x, speed, angle, turning = self.state
        force = 10.0 if push else -10.0
        sine, cosine = math.sin(angle), math.cos(angle)
        along = (force + 0.05 * turning**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * along) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        drive = along - 0.05 * turn * cosine / 1.1
        self.state = [x + 0.02 * speed, speed + 0.02 * drive, angle + 0.02 * turning, turning + 0.02 * turn]
        return self.state, abs(self.state[0]) > 2.4 or abs(self.state[2]) > math.radians(12)


class ActorCritic(nn.Module):
    """A state [4] to two logits and a value."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh())
        self.actor, self.critic = nn.Linear(width, 2), nn.Linear(width, 1)

    def forward(self, state):
        hidden = self.body(state)
        return self.actor(hidden), self.critic(hidden)[..., 0]


def make_model(args):
    return ActorCritic(args.width)


def play(model, cart, most, sure=False):
    """One episode: the states before each move, and the moves, which are drawn, or the likelier ones if `sure`."""
    states, pushes = [cart.reset()], []
    with fl.no_grad():
        while len(pushes) < most:
            logits, _ = model(fl.tensor(states[-1]))
            push = logits.argmax(0) if sure else fl.multinomial(logits.softmax(0), 1)
            pushes.append(push.item())
            state, fallen = cart.move(pushes[-1])
            if fallen:
                break
            states.append(state)
    return states[: len(pushes)], pushes


def train(model, args, lengths=None):
    """Returns the loss of every episode; how long they were goes to `lengths`."""
    cart = Cart()
    optimizer = fl.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    recent = 20.0
    for step in range(1, args.steps + 1):
        states, pushes = play(model, cart, args.moves)
        reached = len(pushes)
        # A reward of one a move, worth less the later it comes; scaled, so that it is about one.
        left = fl.arange(reached, 0, -1)
        returns = (1 - 0.99**left) / (1 - 0.99) / 50

        logits, values = model(fl.tensor(states))  # all states of the episode at once
        logs = logits.log_softmax(1)
        chosen = logs.gather(1, fl.tensor(pushes)[:, None])[:, 0]
        better = returns - values.detach()
        entropy = -(logs.exp() * logs).sum(1).mean()  # without it an actor that is sure too early learns no more
        loss = -(chosen * better).mean() + F.smooth_l1_loss(values, returns) - 0.02 * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

        losses.append(loss.item())
        recent = 0.95 * recent + 0.05 * reached
        if lengths is not None:
            lengths.append(reached)
        if step % 50 == 0 or step == args.steps:
            print(f"episode {step}: {reached} moves, recently {recent:.0f}, loss {losses[-1]:.3f}")
    return losses


def draw(model, lengths, args):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(lengths, linewidth=0.6, color="silver")
    means = [sum(lengths[max(0, i - 19) : i + 1]) / min(i + 1, 20) for i in range(len(lengths))]
    left.plot(means, linewidth=1.5)
    left.set(xlabel="episode", ylabel="moves until the pole fell", ylim=(0, args.moves * 1.05))
    for name, actor in (("untrained", make_model(args)), ("trained", model)):
        states, _ = play(actor, Cart(), args.moves, sure=True)
        right.plot([math.degrees(angle) for _, _, angle, _ in states], linewidth=1, label=name)
    for fallen in (-12, 12):
        right.axhline(fallen, color="firebrick", linestyle=":")
    right.set(xlabel="move", ylabel="the pole's angle, degrees", ylim=(-14, 14))
    right.legend(fontsize=8, loc="lower right")
    figure.savefig(args.picture, dpi=80)
    print(f"drew {args.picture}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=250, help="episodes")
    parser.add_argument("--moves", type=int, default=300, help="the longest episode")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="actor_critic.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model = make_model(args)
    lengths = []
    train(model, args, lengths)
    first, last = lengths[:20], lengths[-20:]
    print(f"moves an episode: {sum(first) / len(first):.0f} in the first twenty, {sum(last) / len(last):.0f} in the last")
    if args.picture:
        draw(model, lengths, args)


if __name__ == "__main__":
    main()
