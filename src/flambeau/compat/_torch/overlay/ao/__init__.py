"""`torch.ao`: quantisation."""
