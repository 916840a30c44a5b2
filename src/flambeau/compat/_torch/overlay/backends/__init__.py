"""`torch.backends`: switches and questions. What can be asked is answered; what is no part of this library is not available."""
