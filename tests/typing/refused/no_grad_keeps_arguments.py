import flambeau as fl


@fl.no_grad()
def f(x: fl.Tensor) -> int:
    return x.numel()


f(3)  # error: expected "Tensor"
text: str = f(fl.ones(1))  # error: variable has type "str"
