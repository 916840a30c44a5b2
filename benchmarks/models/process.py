"""One library and one model, in this process: `python process.py JOB`, the job in JSON.

Prints one line of JSON. A job names the library, the threads, the model, the settings and the mode:

    train                training steps, timed
    infer-1, infer-32    predictions for that many samples, timed
    start                one training step: what it took, and the clock when its loss was there
    check                predictions, gradients and a few steps from given weights, to a file of arrays
"""

from __future__ import annotations

import importlib
import json
import math
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

WARM_UP_STEPS, MIN_STEPS = 2, 2
WARM_UP_S = 0.5
CHECKED_STEPS = 5


def memory_mb(field: str) -> float:
    """VmRSS (resident now) or VmHWM (at most so far) of this process, in 10^6 bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"/proc/self/status has no {field}")


def repeat(step: Callable[[], None], min_steps: int, seconds: float) -> list[float]:
    """Calls `step` at least that often and that long; returns what each call took."""
    took: list[float] = []
    start = time.perf_counter()
    while len(took) < min_steps or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        step()
        took.append(time.perf_counter() - before)
    return took


def measure(program: Any, batch: int, seconds: float) -> dict[str, Any]:
    """Items per second of training (a step reads its loss) or of prediction."""
    loss = 0.0

    def train() -> None:
        nonlocal loss
        loss = program.step().item()

    def predict() -> None:
        program.predict()

    step = train if program.training else predict
    repeat(step, WARM_UP_STEPS, WARM_UP_S)
    took = repeat(step, MIN_STEPS, seconds)
    if not math.isfinite(loss):
        raise RuntimeError(f"{program.name}: the loss became {loss}")
    return {
        "throughput": len(took) * batch * program.items_per_sample / sum(took),
        "steps": len(took),
        "step_s": statistics.median(took),
        "loss": loss,
    }


def check(program: Any, weights: str | None, out: str) -> dict[str, Any]:
    """Writes what another library can be compared with; starts from the weights in that file."""
    import numpy as np

    T = program.T
    for module in program.modules.values():
        without_dropout(T, module)
    if weights is not None:
        with np.load(weights) as given:
            for prefix, module in program.modules.items():
                start = f"weight/{prefix}/"
                state = {
                    key[len(start) :]: T.from_numpy(given[key])
                    for key in given.files
                    if key.startswith(start)
                }
                module.load_state_dict(state)
    arrays: dict[str, Any] = {}

    def keep(kind: str, prefix: str, name: str, tensor: Any) -> None:
        arrays[f"{kind}/{prefix}/{name}"] = tensor.detach().numpy().copy()

    for prefix, module in program.modules.items():
        for name, tensor in module.state_dict().items():
            keep("weight", prefix, name, tensor)
    program.train(False)
    for i, tensor in enumerate(flat(program.predict())):
        keep("prediction", "", str(i), tensor.double())
    program.train()
    losses = [program.step().item()]
    for prefix, module in program.modules.items():
        for name, parameter in module.named_parameters():
            keep("gradient", prefix, name, parameter.grad)
    losses += [program.step().item() for _ in range(CHECKED_STEPS - 1)]
    for prefix, module in program.modules.items():
        for name, parameter in module.named_parameters():
            keep("update", prefix, name, parameter.double())
            arrays[f"update/{prefix}/{name}"] -= arrays[f"weight/{prefix}/{name}"]
        for name, tensor in module.named_buffers():
            keep("buffer", prefix, name, tensor)
    arrays["loss"] = np.array(losses)
    np.savez(out, **arrays)
    return {"losses": losses}


def without_dropout(T: Any, module: Any) -> None:
    """Turns it off: the libraries draw different numbers."""
    for child in module.modules():
        if isinstance(child, T.nn.Dropout):
            child.p = 0.0
        elif isinstance(child, T.nn.LSTM):
            child.dropout = 0.0


def flat(output: Any) -> list[Any]:
    """The tensors of a nest of tuples."""
    if isinstance(output, (tuple, list)):
        return [tensor for part in output for tensor in flat(part)]
    return [output]


def main(argv: list[str]) -> int:
    """Does the job, prints, and returns the exit status."""
    job = json.loads(argv[0])
    T = importlib.import_module(job["library"])
    baseline = memory_mb("VmRSS")
    sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)

    from models import program_named  # not before: it must not count for the import
    from models.program import Settings

    T.set_num_threads(job["threads"])
    settings = Settings(**job["settings"])
    result: dict[str, Any] = {"version": T.__version__, "baseline_mb": baseline}
    if settings.dtype == "bfloat16" and not hasattr(T, "autocast"):
        print(json.dumps(result | {"unavailable": f"{job['library']} has no autocast"}))
        return 0
    kind = program_named(job["model"])
    mode, _, size = job["mode"].partition("-")
    batch = int(size) if size else kind.batch
    program = kind(T, batch, settings)
    if mode == "start":
        before = time.perf_counter()
        loss = program.step().item()
        result |= {"first_step_s": time.perf_counter() - before, "at_s": time.monotonic(), "loss": loss}
    elif mode == "check":
        result |= check(program, job["weights"], job["out"])
    else:
        program.train(mode == "train")
        result |= measure(program, batch, job["seconds"])
    print(json.dumps(result | {"peak_mb": memory_mb("VmHWM")}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
