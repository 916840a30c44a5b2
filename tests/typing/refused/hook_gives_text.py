import flambeau as fl

fl.ones(1, requires_grad=True).register_hook(lambda g: "no")  # error: "Callable[[Tensor], str]"; expected "Callable[[Tensor], Tensor | None]"
