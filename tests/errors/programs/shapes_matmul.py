"""A product of matrices where one had to be transposed."""

import flambeau as fl

queries = fl.zeros(8, 10, 64)
keys = fl.zeros(8, 12, 64)
scores = queries @ keys
