"""A probability of more than one."""

from flambeau import nn

nn.Dropout(50)
