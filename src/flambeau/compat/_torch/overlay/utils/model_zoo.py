"""`torch.utils.model_zoo`: the older name of `torch.hub`'s loading of weights."""

from flambeau.compat._torch.overlay.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
