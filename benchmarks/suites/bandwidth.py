"""Element-wise ops on 16 M elements, which no cache holds: bytes read and written per second, beside a copy's.

Operands are float32 (64 MiB) where nothing else is said. Outputs are new tensors each time, as in a program;
the bytes that a processor reads of an output before it writes there do not count.
"""

from __future__ import annotations

from typing import Any

from suites.case import Case

N = 1 << 24
COPY = "copy_, 64 MiB"
# Statements, and the bytes per element that they read and write.
STATEMENTS = {
    "clone": ("x.clone()", 8), "add": ("x + y", 12), "mul": ("x * y", 12), "add number": ("x + 1.5", 8), "add row": ("m + r", 8),
    "relu": ("F.relu(x)", 8), "exp": ("x.exp()", 8), "add_": ("z.add_(y)", 12), "mul_ number": ("z.mul_(1.0)", 8),
    "to bfloat16": ("x.to(tl.bfloat16)", 6), "bfloat16 to float32": ("h.float()", 6), "to float64": ("x.double()", 12),
}  # fmt: skip


def operands(tl: Any) -> dict[str, Any]:
    """Vectors x, y, z, the same as a matrix m with a row r, and h in bfloat16."""
    x = tl.rand(N)
    return {
        "tl": tl, "F": tl.nn.functional, "x": x, "y": tl.rand(N), "z": tl.rand(N), "m": x.reshape(-1, 1024), "r": tl.rand(1024),
        "h": x.to(tl.bfloat16),
    }  # fmt: skip


CASES = [
    Case(COPY, "GB/s", operands, "z.copy_(x)", moved_bytes=8 * N, headline=False),
    *(
        Case(f"{name}, 64 MiB", "GB/s", operands, text, moved_bytes=each * N, share_of=COPY, min_share=0.85, headline=False)
        for name, (text, each) in STATEMENTS.items()
    ),
]
