"""`torch._dynamo.testing`."""

from __future__ import annotations

from typing import Any

from flambeau.testing import assert_close


class CompileCounter:
    """A backend that counts the graphs that it is given, and the calls in them. `torch.compile` gives graphs to no backend: it records calls."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.frame_count = 0
        self.op_count = 0

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.frame_count += 1
        self.op_count += sum("call" in node.op for node in gm.graph.nodes)
        return gm.forward


def same(a: Any, b: Any, cos_similarity: bool = False, tol: float = 1e-4, equal_nan: bool = False) -> bool:
    """Whether results of two runs are close."""
    if cos_similarity:
        raise NotImplementedError("same: cos_similarity = True; expected False, a comparison of the elements")
    try:
        assert_close(a, b, rtol=tol, atol=tol, equal_nan=equal_nan, check_dtype=False)
    except AssertionError:
        return False
    return True
