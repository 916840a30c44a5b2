"""Word vectors by skip-gram with negative sampling (Mikolov et al. 2013). Prints the loss of each epoch."""
import random
import sys
from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def make_corpus(length, seed):
    """Sentences over topics, so that words of a topic stand beside each other."""
    rng = random.Random(seed)
    topics = [[f"{topic}{k}" for k in range(12)] for topic in ("sea", "hill", "town", "star")]
    words = []
    while len(words) < length:
        topic = rng.choice(topics)
        words += [rng.choice(topic) for _ in range(8)]
    return words


class Pairs(Dataset):
    def __init__(self, ids, window):
        self.pairs = [
            (center, ids[j])
            for i, center in enumerate(ids)
            for j in range(max(0, i - window), min(len(ids), i + window + 1))
            if i != j
        ]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        return self.pairs[i]


class SkipGram(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.in_embed = nn.Embedding(vocab_size, dim, sparse=True)
        self.out_embed = nn.Embedding(vocab_size, dim, sparse=True)
        generator = random.Random(1)
        with torch.no_grad():
            for embed in (self.in_embed, self.out_embed):
                rows = [[generator.uniform(-0.5, 0.5) / dim for _ in range(dim)] for _ in range(vocab_size)]
                embed.weight.copy_(torch.tensor(rows))

    def forward(self, center, context, noise):
        v = self.in_embed(center)
        positive = (v * self.out_embed(context)).sum(1)
        negative = torch.bmm(self.out_embed(noise), v.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(positive) + F.logsigmoid(-negative).sum(1)).mean()


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "SparseAdam"
    corpus = make_corpus(600, seed=0)
    counts = Counter(corpus)
    vocab = {word: i for i, (word, _) in enumerate(sorted(counts.items()))}
    ids = [vocab[word] for word in corpus]
    weights = [counts[word] ** 0.75 for word in sorted(counts)]

    pairs = Pairs(ids, window=2)
    loader = DataLoader(pairs, batch_size=64, shuffle=False)
    model = SkipGram(len(vocab), dim=16)
    if name == "SparseAdam":
        optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.02)
    elif name == "Adagrad":
        optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=2.0)

    noise_of = random.Random(2)
    for epoch in range(6):
        total = 0.0
        for center, context in loader:
            noise = torch.tensor(noise_of.choices(range(len(vocab)), weights, k=5 * len(center))).view(-1, 5)
            optimizer.zero_grad()
            loss = model(center, context, noise)
            loss.backward()
            assert model.in_embed.weight.grad.is_sparse
            optimizer.step()
            total += loss.item() * len(center)
        print("loss", total / len(pairs))


if __name__ == "__main__":
    main()
