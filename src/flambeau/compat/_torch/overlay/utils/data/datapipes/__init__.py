"""`torch.utils.data.datapipes`."""
