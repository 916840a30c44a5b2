"""A softmax that does not say along what."""

import flambeau as fl
from flambeau.nn import functional as F

F.softmax(fl.zeros(2, 3))
