"""`torch.utils.model_zoo`: the older name of `torch.hub`'s loading of weights."""

from flambeau.hub import load_state_dict_from_url as load_url

try:
    from tqdm.auto import tqdm
except ImportError:
    tqdm = None  # PyTorch has a small one of its own

__all__ = ["load_url"]
