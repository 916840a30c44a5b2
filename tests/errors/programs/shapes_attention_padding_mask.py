"""A padding mask that is transposed."""

import flambeau as fl
from flambeau import nn

attention = nn.MultiheadAttention(16, 2, batch_first=True)
x = fl.zeros(4, 6, 16)
padding = fl.zeros(6, 4, dtype=fl.bool)
attention(x, x, x, key_padding_mask=padding)
