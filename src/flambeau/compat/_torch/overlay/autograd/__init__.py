"""Helpers of `torch.autograd` that packages use."""
