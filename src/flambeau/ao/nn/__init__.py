"""`torch.ao.nn`."""
