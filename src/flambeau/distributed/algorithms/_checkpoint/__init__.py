"""`torch.distributed.algorithms._checkpoint`: where programs import `checkpoint_wrapper` from."""
