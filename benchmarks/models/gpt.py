"""A decoder-only transformer after GPT-2 (Radford et al. 2019), smaller."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from models.program import Program, labels

VOCABULARY = 8192
LENGTH = 256
WIDTH, N_HEADS, N_LAYERS = 384, 6, 6


def gpt(T: Any) -> Any:
    """14 M parameters; the head's weight is the embedding's."""
    nn, F = T.nn, T.nn.functional

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
            self.proj = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            n, length, width = x.size()
            q, k, v = (
                part.view(n, length, N_HEADS, width // N_HEADS).transpose(1, 2)
                for part in self.qkv(x).split(width, dim=2)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.proj(y.transpose(1, 2).contiguous().view(n, length, width))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1 = nn.LayerNorm(WIDTH)
            self.attention = Attention()
            self.ln2 = nn.LayerNorm(WIDTH)
            self.fc = nn.Linear(WIDTH, 4 * WIDTH)
            self.gelu = nn.GELU(approximate="tanh")
            self.proj = nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.ln1(x))
            return x + self.proj(self.gelu(self.fc(self.ln2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.positions = nn.Embedding(LENGTH, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(N_LAYERS))
            self.ln = nn.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
            self.head.weight = self.tokens.weight
            self.apply(self.init_weights)
            for name, parameter in self.named_parameters():
                if name.endswith("proj.weight"):
                    nn.init.normal_(parameter, mean=0.0, std=0.02 / math.sqrt(2 * N_LAYERS))

        @staticmethod
        def init_weights(module: Any) -> None:
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

        def forward(self, tokens: Any) -> Any:
            position = T.arange(tokens.size(1), device=tokens.device)
            x = self.tokens(tokens) + self.positions(position)
            for block in self.blocks:
                x = block(x)
            return self.head(self.ln(x))

    return GPT()


class Gpt(Program):
    name = "gpt"
    title = f"GPT-2-like, {N_LAYERS} blocks of {WIDTH}, length {LENGTH}, batch 4, AdamW"
    item = "token"
    batch = 4
    items_per_sample = LENGTH
    clip = 1.0

    def networks(self) -> dict[str, Any]:
        return {"gpt": gpt(self.T)}

    def data(self, rng: np.random.Generator, n: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        tokens = labels(rng, VOCABULARY, n, LENGTH + 1)
        return (tokens[:, :-1].copy(),), tokens[:, 1:].copy()

    def loss(self, output: Any, targets: Any) -> Any:
        logits = output.view(-1, VOCABULARY)
        return self.T.nn.functional.cross_entropy(logits, targets.view(-1))

    def optimizer(self, parameters: Any, **options: Any) -> Any:
        return self.T.optim.AdamW(
            parameters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, **options
        )
