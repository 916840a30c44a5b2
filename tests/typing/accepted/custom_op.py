"""An op of the user's."""
import flambeau as fl


@fl.library.custom_op("typing_tests::scaled", mutates_args=())
def scaled(x: fl.Tensor, factor: float) -> fl.Tensor:
    return x * factor


print(scaled(fl.ones(2), 3.0))
