"""`torch.utils.data._utils.collate`: what it has besides our `collate`."""

import re

np_str_obj_array_pattern = re.compile(r"[SaUO]")  # element types of arrays that make no tensors
