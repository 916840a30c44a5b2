"""`torch.distributed.elastic`: the launcher of jobs over machines, which is not here."""
