"""The makers of files (`files`, `hostile`, `mutations`) are imported by their names."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
