"""`torch.jit.annotations`: types of TorchScript's for one value or a list."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple  # noqa: UP035, F401  (packages take them from here)


class _BroadcastingList:
    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
