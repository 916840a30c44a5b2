import flambeau as fl


@fl.compile
def f(x: fl.Tensor) -> fl.Tensor:
    return x + 1


f(1.5)  # error: expected "Tensor"
