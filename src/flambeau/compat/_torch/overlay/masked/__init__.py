"""What `torch.masked` has beside the names of `flambeau.masked`."""
