"""`torch.mps`: there is no such device in this build."""

from flambeau._none_of_these import absent

globals().update(absent("mps"))
