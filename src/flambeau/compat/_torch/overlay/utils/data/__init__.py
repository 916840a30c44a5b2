"""`torch.utils.data`."""
