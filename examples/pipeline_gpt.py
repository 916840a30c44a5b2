"""Trains a small GPT of 12 blocks in a pipeline of four ranks, on text that comes with Python (the topics of its help, byte by byte).

    python examples/pipeline_gpt.py
    python examples/pipeline_gpt.py --schedule zb-h1 --steps 20    # another schedule, and shorter

It draws what the last step did, and what the schedule would do with a processor for each rank: pipeline_gpt_run.svg and
pipeline_gpt_plan.svg. Ranks are threads, so fewer processors than ranks make the run longer than the plan.
"""

import argparse
import os
import statistics
from pydoc_data.topics import topics

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.pipeline import Pipeline, Schedule
from flambeau.pipeline.balance import balance_by_time

N_BLOCKS, N_HEADS = 12, 4
VOCABULARY = 256


class Embeddings(nn.Module):
    """Of bytes and of their positions: [B, L] to [B, L, width]."""

    def __init__(self, width, length):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(length, width)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, tokens):
        return self.tokens(tokens) + self.positions(fl.arange(tokens.shape[1]))


class Block(nn.Module):
    """Attention to what came before, then two linear layers, each added to its input."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.05)
        for layer in (self.proj, self.down):  # a block begins as little more than the identity
            nn.init.normal_(layer.weight, std=0.01)

    def attention(self, x):
        B, L, width = x.shape
        q, k, v = (part.view(B, L, N_HEADS, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # [B, heads, L, width / heads]
        return self.proj(y.transpose(1, 2).reshape(B, L, width))

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


def gpt(width, length):
    """A Sequential, whose layers are dealt to the stages."""
    head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, VOCABULARY))
    return nn.Sequential(Embeddings(width, length), *(Block(width) for _ in range(N_BLOCKS)), head)


def text():
    """The topics of Python's help as bytes, [N]."""
    joined = "\n".join(topics[name] for name in sorted(topics))
    return fl.tensor(list(joined.encode()))


def batches(data, n, length, steps):
    """Pieces of the text at random, [n, length], and the byte that follows each of theirs."""
    offsets = fl.arange(length + 1)
    for _ in range(steps):
        begin = fl.randint(0, len(data) - length, (n, 1))
        pieces = data[begin + offsets]
        yield pieces[:, :-1], pieces[:, 1:]


def loss_fn(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def one_by_one(stages, micro_batches, backward):
    """A schedule of one rank: nothing runs beside anything else, so that each action takes what it takes."""
    words = [
        *(f"{s}F{i}" for i in range(micro_batches) for s in range(stages)),
        *(f"{s}{op}{i}" for i in range(micro_batches) for s in reversed(range(stages)) for op in backward),
    ]
    return Schedule.parse("rank 0: " + " ".join(words))


def seconds_of(pipe, stages, backward, x, target):
    """Median seconds of each op by stage, as `Schedule.simulate` takes them."""
    schedule = one_by_one(stages, pipe.micro_batches, backward)
    alone = Pipeline(pipe.module, 1, schedule=schedule, micro_batches=pipe.micro_batches, balance=pipe.balance)
    spent = {op: [[] for _ in range(stages)] for op in ("F", *backward)}
    for _ in range(3):
        alone.step(x, target, loss_fn)
        timeline = alone.timeline
        for a, begin, end in zip(timeline.schedule.ranks[0], timeline.begin[0], timeline.end[0]):
            spent[a.op][a.stage].append(end - begin)
    return {op: [statistics.median(seconds) for seconds in of] for op, of in spent.items()}


def plan(pipe, schedule, x, target):
    """What the schedule would do with a processor for each rank."""
    seconds = seconds_of(pipe, schedule.stages, ["B"], x, target)
    if "I" in schedule.ops:  # backwards in two parts
        seconds = {**seconds_of(pipe, schedule.stages, ["I", "W"], x, target), **seconds}
    return schedule.simulate(**seconds)


def report(name, timeline):
    """A line of numbers, and a picture."""
    file = f"pipeline_gpt_{name}.svg"
    timeline.draw(file)
    print(f"{name}: {1e3 * timeline.makespan:.0f} ms a step, idle {timeline.bubble:.0%} of the time; drawn in {file}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--schedule", default="1f1b", help="see docs/pipeline.md (%(default)s)")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--length", type=int, default=64, help="bytes of context")
    parser.add_argument("--lr", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    fl.manual_seed(args.seed)
    fl.set_num_threads(1)  # ranks work at the same time, each with one
    schedule = Schedule.make(args.schedule, args.ranks, args.micro_batches)
    model = gpt(args.width, args.length)
    sample = fl.zeros(max(1, args.batch_size // args.micro_batches), args.length, dtype=fl.int64)
    balance = balance_by_time(schedule.stages, model, sample)
    pipe = Pipeline(model, args.ranks, schedule=schedule, micro_batches=args.micro_batches, balance=balance)
    optimizer = fl.optim.AdamW(pipe.parameters(), lr=args.lr)
    rate = fl.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.steps)
    data = text()
    print(f"{len(data)} bytes; {sum(p.numel() for p in pipe.parameters())} parameters in {schedule.stages} stages of {pipe.balance} layers")

    for step, (x, target) in enumerate(batches(data, args.batch_size, args.length, args.steps), 1):
        optimizer.zero_grad()
        loss = pipe.step(x, target, loss_fn)  # forward, loss and backward of all micro-batches
        nn.utils.clip_grad_norm_(pipe.parameters(), 1.0)
        optimizer.step()
        rate.step()
        if step % 20 == 0 or step in (1, args.steps):
            print(f"step {step}: loss {loss.item():.3f}")

    print(f"{args.schedule}, {args.ranks} ranks, {os.cpu_count()} processors")
    report("run", pipe.timeline)
    report("plan", plan(pipe, schedule, x, target))
    print(f"loss after {args.steps} steps: {loss.item():.3f} nats a byte")


if __name__ == "__main__":
    main()
