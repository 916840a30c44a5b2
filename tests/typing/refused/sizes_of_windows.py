import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F

x = fl.ones(1, 2, 8, 8)
nn.Conv2d(2, 2, "3")  # error: incompatible type "str"; expected "int | Sequence[int]"
nn.Conv2d(2, 2, kernel_size=3.0)  # error: incompatible type "float"; expected "int | Sequence[int]"
nn.Conv2d(2, 2, 3, padding=None)  # error: incompatible type "None"; expected "int | str | Sequence[int]"
nn.ConvTranspose2d(2, 2, 3, padding="same")  # error: incompatible type "str"; expected "int | Sequence[int]"
nn.MaxPool2d(2.0)  # error: incompatible type "float"; expected "int | Sequence[int]"
nn.AvgPool2d(2, stride="2")  # error: incompatible type "str"; expected "int | Sequence[int] | None"
nn.Unfold((2.0, 2.0))  # error: incompatible type "tuple[float, float]"; expected "int | Sequence[int]"
nn.ZeroPad2d(1.5)  # error: incompatible type "float"; expected "int | Sequence[int]"
F.avg_pool2d(x, 2.0)  # error: incompatible type "float"; expected "int | Sequence[int]"
F.max_pool2d(x, "2")  # error: incompatible type "str"; expected "int | Sequence[int]"
nn.AdaptiveAvgPool2d("1")  # error: incompatible type "str"; expected "int | Sequence[int | None] | None"
F.adaptive_avg_pool2d(x, 1.5)  # error: incompatible type "float"; expected "int | Sequence[int | None] | None"
nn.Upsample(size="8")  # error: incompatible type "str"; expected "int | Sequence[int] | None"
F.interpolate(x, scale_factor="2")  # error: incompatible type "str"; expected "float | Sequence[float] | None"
