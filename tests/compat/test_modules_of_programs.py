"""Modules of PyTorch's that programs import by their own names: lists of functions of masked tensors, pools, events of profiles."""

import pytest
from support.as_torch import says

pytestmark = pytest.mark.eager("programs in processes of their own")


def test_masked_tensors_have_the_functions_of_the_lists():
    lines = says("""
        import torch
        from torch.masked import masked_tensor
        from torch.masked.maskedtensor import binary, reductions, unary
        data, mask = torch.tensor([[0.3, 0.5], [0.7, 0.2]]), torch.tensor([[True, False], [True, True]])
        def value(name):
            return masked_tensor((data * 10).int() if "bitwise" in name else data > 0 if name == "all" else data, mask)
        def more(name):
            return {"pow": (2,), "clamp": (0.1,), "clip": (0.1,)}.get(name.strip("_"), ())
        count = 0
        def same(made, name, data_made):
            global count
            count += 1
            made, data_made = made.to_tensor(0), torch.where(mask, data_made, torch.zeros_like(data_made))
            assert torch.allclose(made, data_made, equal_nan=True), name
        for names, functions in ((unary.UNARY_NAMES, unary.NATIVE_UNARY_FNS), (unary.INPLACE_UNARY_NAMES, unary.NATIVE_INPLACE_UNARY_FNS)):
            for name, function in zip(names, functions, strict=True):
                same(function(value(name), *more(name)), name, getattr(value(name).get_data(), name)(*more(name)))
        for names, functions in ((binary.BINARY_NAMES, binary.NATIVE_BINARY_FNS), (binary.INPLACE_BINARY_NAMES, binary.NATIVE_INPLACE_BINARY_FNS)):
            for name, function in zip(names, functions, strict=True):
                x = value(name).get_data()
                same(function(value(name), value(name)), name, getattr(torch, name)(x, x) if hasattr(torch, name) else getattr(x.clone(), name)(x))
        lists = (reductions.NATIVE_REDUCE_FNS, reductions.TORCH_REDUCE_FNS, reductions.TENSOR_REDUCE_FNS)
        for name, *functions in zip(reductions.REDUCE_NAMES, *lists, strict=True):
            assert len({str(function(value(name))) for function in functions}) == 1, name
            count += 1
        print(count == len(unary.UNARY_NAMES + unary.INPLACE_UNARY_NAMES + binary.BINARY_NAMES + binary.INPLACE_BINARY_NAMES) + 11)
    """)
    assert lines == ["True"]


def test_modules_of_pools_events_and_switches():
    lines = says("""
        import torch
        from torch.autograd.profiler_util import EventList, FormattedTimesMixin, FunctionEvent, FunctionEventAvg, Interval
        from torch.multiprocessing.pool import Pool
        from torch.multiprocessing.queue import SimpleQueue
        from torch.utils import deterministic, module_tracker
        import torch.monitor, torch.multiprocessing as mp
        with torch.profiler.profile() as prof:
            torch.ones(3) * 2
        event, = [e for e in prof.events() if e.name == "aten::mul"]
        rows = prof.key_averages()
        print(isinstance(event, (FunctionEvent)), isinstance(event, FormattedTimesMixin), isinstance(event.time_range, Interval))
        print(isinstance(rows, EventList), isinstance(rows[0], FunctionEventAvg), torch.monitor.Stat.__module__)
        deterministic.fill_uninitialized_memory = False
        x = torch.zeros(2).share_memory_()
        with Pool(1, context=mp.get_context("fork")) as pool:
            pool.map(x.fill_, [3.0])
            pool.map(torch.Tensor.exp_, [x])
        queue = SimpleQueue(ctx=mp.get_context("fork"))
        queue.put(x)
        queue.get().add_(1)
        print(x)
    """)
    assert lines == ["True True True", "True True torch.monitor", "tensor([21.0855, 21.0855])"]


def test_classes_that_a_program_registers_are_containers_for_transformations():
    lines = says("""
        import torch
        from torch.utils import _pytree
        class Pair:
            def __init__(self, a, b):
                self.a, self.b = a, b
        _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
        out = torch.func.vmap(lambda p: Pair(p.a + p.b, p.a.sum()))(Pair(torch.ones(3, 2), torch.arange(6.0).reshape(3, 2)))
        print(type(out).__name__, out.a.tolist(), out.b.tolist())
        print(torch.func.grad(lambda p: (p.a * p.b).sum())(Pair(torch.ones(2), torch.ones(2) * 3)).a.tolist())
    """)
    assert lines == ["Pair [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]] [2.0, 2.0, 2.0]", "[3.0, 3.0]"]


def test_switches_of_einsum_and_texts_of_tensors():
    lines = says("""
        import torch
        print(torch.backends.opt_einsum.set_flags(True, "greedy"), torch._tensor_str._str(torch.ones(2)))
        with torch.backends.opt_einsum.flags(enabled=False):
            print(torch.backends.opt_einsum.is_available())
    """)
    assert lines == ["(False, None) tensor([1., 1.])", "False"]
