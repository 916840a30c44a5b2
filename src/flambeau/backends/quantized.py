"""`torch.backends.quantized`: there are no quantised tensors."""

engine = "none"
supported_engines = ["none"]
