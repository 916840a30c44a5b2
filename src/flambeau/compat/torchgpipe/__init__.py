"""torchgpipe's names (version 0.0.7): `from flambeau.compat.torchgpipe import GPipe` in place of `from torchgpipe import GPipe`.

What they mean is said in `flambeau.pipeline`. Where torchgpipe loses data, hangs or computes something else than the plain model,
these do not: docs/pipeline.md lists the differences.
"""

from __future__ import annotations

from flambeau.compat.torchgpipe import balance, batchnorm, skip
from flambeau.pipeline._flags import is_checkpointing, is_recomputing
from flambeau.pipeline.gpipe import GPipe

__all__ = ["GPipe", "balance", "batchnorm", "is_checkpointing", "is_recomputing", "skip"]
