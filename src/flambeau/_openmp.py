"""How OpenMP's threads wait for work. Imported before the extension, since libgomp reads this when it is loaded.

By default libgomp's threads spin for milliseconds at the end of a parallel region. That is quick on an idle machine
and ruinous on a busy one, where the thread that is waited for may not be running: a training step of 5 ms took
170 ms beside two other busy processes. A short spin keeps most of the first and avoids the second: 5000 turns are 75 us
where a pause takes 15 ns. With 2000 threads fell asleep between the regions of one step (an encoder layer of 128 took
1.84 ms for 1.57 on an Intel Xeon, family 6 model 207); beside busy processes its steps take 11.2 for 9.3 ms, with 20,000 turns 23.
The user's own OMP_WAIT_POLICY or GOMP_SPINCOUNT win, and the environment is left as it was found.
"""

from __future__ import annotations

import os

_SPIN = "5000"


def _load() -> None:
    ours = "GOMP_SPINCOUNT" not in os.environ and "OMP_WAIT_POLICY" not in os.environ
    if ours:
        os.environ["GOMP_SPINCOUNT"] = _SPIN
    try:
        import flambeau._C  # noqa: F401
    finally:
        if ours:
            del os.environ["GOMP_SPINCOUNT"]


_load()
