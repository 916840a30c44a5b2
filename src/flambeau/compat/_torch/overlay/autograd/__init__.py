"""`torch.autograd`."""
