"""`torch.xpu`: there is no such device in this build."""

from flambeau._none_of_these import absent

globals().update(
    absent(
        "xpu", "current_stream", "get_device_capability", "initial_seed", "set_stream",
        get_rng_state_all=lambda: [], max_memory_reserved=lambda device=None: 0, memory_reserved=lambda device=None: 0,
        memory_stats=lambda device=None: {}, reset_accumulated_memory_stats=lambda device=None: None,
        reset_peak_memory_stats=lambda device=None: None, seed=lambda: None, seed_all=lambda: None,
        set_rng_state_all=lambda new_states: None,
    )
)  # fmt: skip
