"""`torch._library`: what packages ask of the inside of `torch.library`."""
