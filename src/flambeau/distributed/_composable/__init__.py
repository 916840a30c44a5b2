"""`torch.distributed._composable`: an older place of `torch.distributed.fsdp`."""
