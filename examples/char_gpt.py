"""A GPT that writes licences, character by character, and keeps keys and values while it writes.

It reads the licence texts that the system brings along (/usr/share/common-licenses; without them the topics of Python's help), with
positions as rotations (Su et al. 2021). Writing takes one character at a time: `Cache` keeps what earlier ones gave to attention, so
that a step costs one row and not the whole text, and the same characters come out.

    python examples/char_gpt.py --steps 600
"""

import argparse
import pathlib
import re
import time

import flambeau as fl

nn, F = fl.nn, fl.nn.functional


def read_text():
    """What there is to learn, as one string."""
    folder = pathlib.Path("/usr/share/common-licenses")
    names = ("GPL-1", "GPL-2", "GPL-3", "LGPL-2", "LGPL-2.1", "LGPL-3", "GFDL-1.3")
    texts = [(folder / name).read_text() for name in names if (folder / name).exists()]
    if not texts:
        from pydoc_data.topics import topics

        texts = [topics[name] for name in sorted(topics)]
    return re.sub(r"[ \t]+", " ", "\n".join(texts))  # indentation is no language


class Cache:
    """Keys and values of one block, of the last `length` positions."""

    def __init__(self, length):
        self.length, self.keys, self.values = length, None, None

    def extend(self, k, v):
        if self.keys is not None:
            k, v = fl.cat([self.keys, k], dim=2), fl.cat([self.values, v], dim=2)
        self.keys, self.values = k[:, :, -self.length :], v[:, :, -self.length :]
        return self.keys, self.values


def rotate(x, start):
    """Turns pairs of features by angles that grow with the position: [B, heads, L, width of a head]."""
    half = x.shape[-1] // 2
    speeds = 100.0 ** (-fl.arange(half, dtype=x.dtype) / half)
    angles = fl.arange(start, start + x.shape[2], dtype=x.dtype)[:, None] * speeds  # [L, half]
    a, b = x[..., :half], x[..., half:]
    return fl.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)


class Block(nn.Module):
    """Attention to what came before, then two linear layers, each added to its input."""

    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x, start, cache):
        B, L, width = x.shape
        q, k, v = (part.view(B, L, self.n_heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        q, k = rotate(q, start), rotate(k, start)
        if cache is not None:
            k, v = cache.extend(k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=L > 1)  # one query sees all that is kept
        return self.proj(y.transpose(1, 2).reshape(B, L, width))

    def forward(self, x, start=0, cache=None):
        x = x + self.attention(self.norm1(x), start, cache)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Characters [B, L] to logits of the ones that follow [B, L, vocabulary]."""

    def __init__(self, vocabulary, width, n_heads, n_blocks):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, n_heads) for _ in range(n_blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.head.weight = self.embedding.weight

    def forward(self, tokens, start=0, caches=None):
        x = self.embedding(tokens)
        for i, block in enumerate(self.blocks):
            x = block(x, start, caches[i] if caches else None)
        return self.head(self.norm(x))


def make_model(args):
    return GPT(len(set(read_text())), args.width, 4, args.blocks)


def train(model, args):
    """Returns the loss of every step."""
    text = read_text()
    number = {c: i for i, c in enumerate(sorted(set(text)))}
    data = fl.tensor([number[c] for c in text])
    window = fl.arange(args.length + 1)
    optimizer = fl.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.05)
    schedule = fl.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps, eta_min=2e-4)
    losses = []
    for step in range(1, args.steps + 1):
        starts = fl.randint(0, len(data) - args.length, (args.batch_size, 1))
        batch = data[starts + window]  # [B, L + 1]
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 50 == 0 or step == args.steps:
            print(f"step {step}: loss {losses[-1]:.3f}")
    return losses


@fl.no_grad()
def write(model, prompt, count, length, temperature=0.7, cached=True):
    """`prompt` and `count` characters more; temperature 0 takes the likeliest."""
    characters = sorted(set(read_text()))
    tokens = fl.tensor([[characters.index(c) for c in prompt]])
    caches = [Cache(length) for _ in model.blocks]
    new, start = tokens, 0
    for _ in range(count):
        logits = (model(new, start, caches) if cached else model(tokens))[0, -1]
        if temperature:
            chosen = fl.multinomial((logits / temperature).softmax(0), 1)
        else:
            chosen = logits.argmax(0, keepdim=True)
        start = tokens.shape[1]
        new = chosen[None]
        tokens = fl.cat([tokens, new], dim=1)
    return "".join(characters[i] for i in tokens[0].tolist())


def draw(losses, written, path):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    import textwrap

    lines = [part for line in written.split("\n") for part in textwrap.wrap(line, 76) or [""]]
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    curve, page = figure.subplots(1, 2, width_ratios=(1, 1.8))
    curve.plot(losses, linewidth=1)
    curve.set(xlabel="step", ylabel="loss, nats a character")
    page.text(0, 1, "\n".join(lines[:22]), family="monospace", fontsize=6.5, va="top", transform=page.transAxes, parse_math=False)
    page.set_axis_off()
    figure.savefig(path, dpi=80)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=96, help="characters that the model sees at once")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--prompt", default="The ")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="char_gpt.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    model = make_model(args)
    losses = train(model, args)
    took, lines = {}, {}
    for cached in (True, False):
        begun = time.perf_counter()
        lines[cached] = write(model, args.prompt, args.length - len(args.prompt), args.length, temperature=0, cached=cached)
        took[cached] = time.perf_counter() - begun
    same = "the same text" if lines[True] == lines[False] else "ANOTHER TEXT"
    print(f"{args.length} characters: {took[True]:.2f} s with the cache, {took[False]:.2f} s without, {same}")
    written = write(model, args.prompt, 700, args.length)
    print(written)
    if args.picture:
        draw(losses, written, args.picture)


if __name__ == "__main__":
    main()
