"""PyTorch's names of arguments."""
import flambeau as fl

x = fl.randn(3, 4)
y = fl.softmax(input=x, dim=-1)
z = fl.add(input=x, other=y, alpha=2)
w = fl.cat(tensors=[x, z], dim=0)
fl.mul(x, 2, out=x)
print(fl.clamp(input=w, min=0.0).shape, fl.sum(input=w, dim=1, keepdim=True).shape, fl.gather(x, 1, index=fl.zeros(3, 1, dtype=fl.long)).shape)
