"""A language model of words: two layers of LSTM read licences from beginning to end, in several columns at once.

The text is cut into as many columns as a batch has rows. A step reads the next words of each, begins with the state in which the last
one ended, and cuts the gradient there (truncated backpropagation through time). Perplexity says among how many words the model
wavers; what guesses by the words' frequencies alone is the line to beat. The texts are those of /usr/share/common-licenses, or, without
them, the topics of Python's help.

    python examples/lstm_language_model.py --steps 400
"""

import argparse
import collections
import math
import pathlib
import re

import flambeau as fl

nn, F = fl.nn, fl.nn.functional


def read_words(limit):
    """The text as numbers of words, [N], and the words; rare ones are "<rare>"."""
    folder = pathlib.Path("/usr/share/common-licenses")
    names = ("GPL-1", "GPL-2", "LGPL-2", "LGPL-2.1", "GPL-3", "LGPL-3", "GFDL-1.2", "GFDL-1.3")
    texts = [(folder / name).read_text() for name in names if (folder / name).exists()]
    if not texts:
        from pydoc_data.topics import topics

        texts = [topics[name] for name in sorted(topics)]
    split = re.findall(r"[a-z]+|[.,;:]", "\n".join(texts).lower())
    kept = collections.Counter(split).most_common(limit - 1)
    words = ["<rare>", *(word for word, _ in kept)]
    number = {word: i for i, word in enumerate(words)}
    return fl.tensor([number.get(word, 0) for word in split]), words


class WordModel(nn.Module):
    """Words [L, B] and a state to logits [L, B, vocabulary] and the next state."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2)
        self.head = nn.Linear(width, vocabulary)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)
        self.head.weight = self.embedding.weight  # one table for reading and writing (Press and Wolf 2017)

    def forward(self, words, state=None):
        y, state = self.lstm(self.embedding(words), state)
        return self.head(y), state


def make_model(args):
    return WordModel(args.vocabulary, args.width)


def train(model, args):
    """Returns the loss of every step."""
    data, _ = read_words(args.vocabulary)
    columns = data[: len(data) // args.batch_size * args.batch_size].view(args.batch_size, -1).t()  # [words, B]
    optimizer = fl.optim.Adam(model.parameters(), lr=4e-3)
    state, at, losses = None, 0, []
    for step in range(1, args.steps + 1):
        if at + args.length >= len(columns):  # the end of the text: from the beginning, as if nothing had been read
            state, at = None, 0
        inputs, targets = columns[at : at + args.length], columns[at + 1 : at + args.length + 1]
        at += args.length
        if state is not None:
            state = tuple(part.detach() for part in state)
        logits, state = model(inputs, state)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
        if step % 50 == 0 or step == args.steps:
            print(f"step {step}: loss {losses[-1]:.3f}, perplexity {math.exp(losses[-1]):.1f}")
    return losses


@fl.no_grad()
def write(model, words, prompt, count):
    """`prompt` and `count` words more."""
    written = prompt.split()
    new, state = fl.tensor([[words.index(word)] for word in written]), None
    for _ in range(count):
        logits, state = model(new, state)
        chances = (logits[-1, 0] / 0.8).softmax(0)
        chances[0] = 0.0  # never "<rare>"
        new = fl.multinomial(chances, 1)[None]
        written.append(words[new.item()])
    return re.sub(r" ([.,;:])", r"\1", " ".join(written))


def draw(losses, uniform, unigram, written, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    import textwrap

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    curve, page = figure.subplots(1, 2, width_ratios=(1, 1.3))
    curve.semilogy([math.exp(loss) for loss in losses], linewidth=1)
    curve.axhline(uniform, color="gray", linestyle=":", label="all words alike")
    curve.axhline(unigram, color="firebrick", linestyle="--", label="by frequency")
    curve.set(xlabel="step", ylabel="perplexity")
    curve.legend(fontsize=8)
    page.text(0, 1, textwrap.fill(written, 52), fontsize=8, va="top", transform=page.transAxes)
    page.set_axis_off()
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--length", type=int, default=30, help="words of a step")
    parser.add_argument("--vocabulary", type=int, default=1500)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--prompt", default="you may")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="lstm_language_model.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model = make_model(args)
    losses = train(model, args)
    data, words = read_words(args.vocabulary)
    frequencies = fl.bincount(data, minlength=len(words)).clamp(min=1) / len(data)
    unigram = math.exp(-(frequencies * frequencies.log()).sum().item())
    written = write(model, words, args.prompt, 120)
    print(written)
    print(f"perplexity {math.exp(losses[-1]):.1f}; by frequency {unigram:.1f}, of all words alike {args.vocabulary}")
    if args.picture:
        draw(losses, args.vocabulary, unigram, written, args.picture)


if __name__ == "__main__":
    main()
