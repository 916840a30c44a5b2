"""`torch.testing._internal`: what packages' own tests take from PyTorch's."""
