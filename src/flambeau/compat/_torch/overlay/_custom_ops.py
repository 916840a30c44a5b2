"""`torch._custom_ops`: the older form of `torch.library`, which has no names here."""
