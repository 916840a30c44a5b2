"""`torch.distributed.algorithms`: of these the wrappers that trade time for memory, which need no other process."""
