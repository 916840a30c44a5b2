"""`torch.fx.experimental`: what programs ask while PyTorch traces. Nothing is traced here."""
