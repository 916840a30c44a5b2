"""`torch._subclasses`: tensors without memory with which PyTorch traces, of which there are none here (the meta device has no memory, too)."""
