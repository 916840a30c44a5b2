"""Ctrl-C inside of what holds for a while: it ends, wherever the interrupt comes."""

import warnings

import pytest
from support.interrupts import interrupted_everywhere

import flambeau as fl
from flambeau import _C, _running, nn
from flambeau.autograd.graph import register_multi_grad_hook
from flambeau.utils.checkpoint import checkpoint

LAYER = nn.Linear(3, 3)
NORM = nn.BatchNorm1d(3)
X = fl.ones(2, 3, requires_grad=True)


def within(region):
    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with region():
                X * 2

    return run


def asked_backward():
    y = X * 2
    handle = register_multi_grad_hook([y], lambda gradients: None)
    y.sum().backward()
    handle.remove()


RUNS = {
    "no_grad": within(fl.no_grad),
    "enable_grad": within(fl.enable_grad),
    "inference_mode": within(fl.inference_mode),
    "autocast": within(lambda: fl.autocast("cpu")),
    "autocast, other settings": within(
        lambda: fl.autocast("cpu", dtype=fl.float16, cache_enabled=False)
    ),
    "widened under autocast": lambda: fl.autocast("cpu")(nn.functional.cosine_embedding_loss)(
        X, X, fl.ones(2)
    ),
    "a device": within(lambda: fl.device("meta")),
    "detect_anomaly": within(lambda: fl.autograd.detect_anomaly(check_nan=False)),
    "hooks of saved tensors": within(
        lambda: fl.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    ),
    "hooks of saved tensors, refused": within(
        lambda: fl.autograd.graph.disable_saved_tensors_hooks("none here")
    ),
    "save_on_cpu": within(fl.autograd.graph.save_on_cpu),
    "fork_rng": within(fl.random.fork_rng),
    "dual_level": within(fl.autograd.forward_ad.dual_level),
    "lazy": within(fl.lazy),
    "checkpoint": lambda: checkpoint(LAYER, X, use_reentrant=False).sum().backward(),
    "checkpoint, reentrant": lambda: checkpoint(LAYER, X, use_reentrant=True).sum().backward(),
    "a backward that a hook asks for": asked_backward,
    "func.grad": lambda: fl.func.grad(lambda a: (a * a).sum())(fl.ones(3)),
    "func.vmap": lambda: fl.func.vmap(lambda a: a * 2)(fl.ones(3)),
    "func.jvp": lambda: fl.func.jvp(lambda a: a * 2, (fl.ones(3),), (fl.ones(3),)),
    "functional_call": lambda: fl.func.functional_call(
        NORM,
        {"weight": fl.zeros(3), "running_mean": fl.zeros(3), "new": fl.zeros(3)},
        (fl.ones(2, 3),),
    ),
    "skip_init": lambda: nn.utils.skip_init(nn.Linear, 3, 3),
}


def state():
    return {
        "grad": fl.is_grad_enabled(),
        "inference": fl.is_inference_mode_enabled(),
        "autocast": (
            fl.is_autocast_enabled("cpu"),
            fl.get_autocast_dtype("cpu"),
            fl.is_autocast_cache_enabled(),
        ),
        "anomaly": _C.anomaly(),
        "device": fl.get_default_device(),
        "made on": fl.ones(2).device,
        "hooks": _C.saved_hooks(),
        "recorded": _C.graph.recording(),
        "draws": _C.draw_hook(),
        "backward": _running.is_running(),
        "level": fl.autograd.forward_ad._current_level,
        "module": [id(t) for t in (*NORM.parameters(), *NORM.buffers())] + sorted(vars(NORM)),
        "random": fl.random.get_rng_state().tolist(),
    }


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # where a generator is dropped
@pytest.mark.parametrize("name", RUNS)
def test_what_holds_for_a_while_ends_wherever_ctrl_c_comes(name):
    run = RUNS[name]
    run()  # imports what it needs
    before, came = state(), 0
    for where in interrupted_everywhere(run):
        came += 1
        now = state()
        assert now == before, (
            f"Ctrl-C at {where} changed {[key for key in now if now[key] != before[key]]}"
        )
        with fl.autograd.graph.saved_tensors_hooks(
            lambda t: t, lambda t: t
        ):  # where they are refused no more
            pass
    assert came > 0 or name in ("a device", "hooks of saved tensors, refused")
