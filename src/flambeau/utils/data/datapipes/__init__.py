"""Data pipes: datasets made of datasets, step by step: `IterableWrapper(files).shuffle().map(read).batch(8)`.

PyTorch keeps them and develops them no more; programs that have them run. What they do is in `_base.py`, `iter` and `map`.
"""

from flambeau.utils.data.datapipes import iter, map  # noqa: A004

__all__ = ["iter", "map"]
