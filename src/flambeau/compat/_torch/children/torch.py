"""`torch` in processes that a program started by `flambeau run` starts: their PYTHONPATH leads here.

An environment without flambeau keeps its own `torch`.
"""

import importlib
import importlib.util
import pathlib
import sys

del sys.modules[__name__]
if importlib.util.find_spec("flambeau") is None:
    sys.path.remove(str(pathlib.Path(__file__).resolve().parent))
    importlib.import_module(__name__)
else:
    importlib.import_module("flambeau.compat.torch")
