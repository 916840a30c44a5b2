"""What of `torch.fx.experimental` traces below autograd; the rest is `flambeau.fx.experimental`."""
