import numpy as np

import flambeau as fl

fl.tensor([1.0], dtype=np.float32)  # error: expected "dtype | None"
