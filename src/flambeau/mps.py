"""`torch.mps`: there is no such device in this build."""

from flambeau._none_of_these import absent

globals().update(
    absent(
        "mps", "current_allocated_memory", "driver_allocated_memory", "recommended_max_memory", "seed", "set_per_process_memory_fraction"
    )
)
