"""`python -m benchmarks` is `python benchmarks/run.py`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run import main  # noqa: E402

sys.exit(main())
