"""Lists of functions that masked tensors have: PyTorch's tests of them, and what follows them, go by these."""
