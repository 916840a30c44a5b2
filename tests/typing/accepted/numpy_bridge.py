"""To NumPy and back."""
import numpy as np
from typing_extensions import assert_type

import flambeau as fl

x = fl.ones(2, 2)
a = x.numpy()
a += 1
back = fl.from_numpy(a)
assert_type(back, fl.Tensor)
b = np.asarray(x)
c = fl.tensor(np.arange(3))
rows: list[list[float]] = x.tolist()
print(back is not x, b.shape, c.dtype, rows, x.detach().cpu().numpy().mean())
