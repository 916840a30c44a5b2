"""Helpers of `torch.optim` that optimizers of packages use."""
