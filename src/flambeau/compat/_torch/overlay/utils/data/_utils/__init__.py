"""`torch.utils.data._utils`: of it there is `collate`."""
