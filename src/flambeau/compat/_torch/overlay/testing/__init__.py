"""`torch.testing`."""
