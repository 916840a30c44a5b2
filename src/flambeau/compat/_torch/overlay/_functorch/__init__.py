"""`torch._functorch`: of it there is what packages take from `vmap`."""
