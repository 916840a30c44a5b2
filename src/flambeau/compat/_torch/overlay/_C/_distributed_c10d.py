"""`torch._C._distributed_c10d`: the classes of groups of processes, as `torch.distributed` has them."""

from flambeau.distributed import ProcessGroup, ReduceOp, Work

__all__ = ["ProcessGroup", "ReduceOp", "Work"]
