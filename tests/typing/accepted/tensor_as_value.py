"""A tensor with one element as bool, int, float and index."""
from typing_extensions import assert_type

import flambeau as fl

x = fl.tensor(3)
assert_type(bool(x > 2), bool)
assert_type(int(x), int)
assert_type(float(x), float)
names = ["a", "b", "c", "d"]
print(names[x], f"{x:d}", 3 in fl.arange(5), len(fl.zeros(4)))
if (fl.zeros(3) == 0).all():
    print("zeros")
