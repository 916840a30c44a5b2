"""What `torch.nn.utils` has and `flambeau.nn.utils` has not."""
