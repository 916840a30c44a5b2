"""`torch.utils.data._utils`: collating, fetching, what workers know."""
