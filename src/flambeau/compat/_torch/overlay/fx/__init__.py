"""Parts of `torch.fx` that tracers of packages take; the rest is `flambeau.fx`."""
