"""`torch.distributed.elastic.utils`: what programs ask the launcher's parts for, besides launching."""
