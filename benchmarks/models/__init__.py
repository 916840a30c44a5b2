"""The models of the training benchmark, one file per family.

Nothing is imported before it is asked for: a process that measures memory holds its one model only.
"""

from __future__ import annotations

import importlib
from typing import Any

MODELS = {
    "alexnet": "alexnet.AlexNet",
    "vgg19": "vgg.Vgg19",
    "resnet50": "resnet.ResNet50",
    "mobilenet": "mobilenet.MobileNet",
    "gnmt": "gnmt.Gnmt",
    "ncf": "ncf.Ncf",
    "gpt": "gpt.Gpt",
    "lstm_lm": "lstm_lm.LstmLm",
    "unet": "unet.UNet",
    "dcgan": "dcgan.Dcgan",
    "mlp": "mlp.Mlp",
}


def program_named(name: str) -> Any:
    """The class of that model (see models.program.Program)."""
    module, _, member = MODELS[name].partition(".")
    return getattr(importlib.import_module(f"models.{module}"), member)
