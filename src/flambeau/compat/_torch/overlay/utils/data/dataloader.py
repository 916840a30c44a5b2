"""`torch.utils.data.dataloader`: names of iterators that packages compare with."""

from flambeau.utils.data.dataloader import _Iterator

_BaseDataLoaderIter = _SingleProcessDataLoaderIter = _Iterator


class _MultiProcessingDataLoaderIter:
    """The class of iterators whose workers are processes; workers are threads here, and nothing is one."""
