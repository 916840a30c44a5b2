"""`torch.nn`."""
