"""Heads that do not divide the width."""

from flambeau import nn

nn.MultiheadAttention(embed_dim=100, num_heads=8)
