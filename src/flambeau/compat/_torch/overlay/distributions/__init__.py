"""Helpers of `torch.distributions` that packages use."""
