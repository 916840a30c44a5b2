"""Parts that do not add up to the whole."""

import flambeau as fl
from flambeau.utils.data import TensorDataset, random_split

random_split(TensorDataset(fl.zeros(100, 3)), [80, 10])
