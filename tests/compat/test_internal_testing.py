"""What packages' own tests take from PyTorch's: a case, parameters, a backend that counts."""

from __future__ import annotations

import pytest
from support.as_torch import says

pytestmark = pytest.mark.eager("programs in processes of their own")

CASE = """
        import torch
        from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests, subtest
"""


def test_equal_and_not():
    assert says(CASE + """
        import numpy
        t = TestCase("assertEqual")
        def how(x, y, **kwargs):
            try:
                return t.assertEqual(x, y, **kwargs) or "equal"
            except (AssertionError, ValueError) as error:
                return type(error).__name__
        one, two, double = torch.ones(2), torch.ones(2) + 0.1, torch.ones(2).double()
        print(how(one, one + 1e-7), how(one, two), how(one, two, atol=0.2, rtol=0), how(one, double), how(one, double, exact_dtype=False))
        print(how(torch.tensor([3]), 3), how(one, 1), how(one, [1, 1]), how(one, numpy.ones(2, numpy.float32)), how(1, 1.0), how(1, 2), how(float("nan"), float("nan")))
        print(how({"a": [one, "b"]}, {"a": (one, "b")}), how({"a": one}, {"a": two}), how([1], [1, 2]), how("a", "b"), how({1}, {1}), how(one, None), how(None, None))
        print(how(torch.Size([1]), (1,)), how(one.to_sparse(), one), how(torch.device("cpu"), "cpu"), how(one, two, atol=0.2))
        t.precision = 0.2
        print(how(one, two), t.assertNotEqual(one, torch.zeros(2)))
        try: t.assertNotEqual(one, one)
        except AssertionError: print("are equal")
        try: t.assertEqual(one, torch.zeros(2), "in the first step")
        except AssertionError as error: print(str(error).splitlines()[-1])
    """) == [
        "equal AssertionError equal AssertionError equal",
        "equal ValueError equal equal equal AssertionError equal",
        "equal AssertionError AssertionError AssertionError equal AssertionError equal",
        "equal equal AssertionError ValueError",
        "equal None",
        "are equal",
        "in the first step",
    ]  # fmt: skip


def test_parameters_make_tests():
    """The names are those that PyTorch gives."""
    assert says(CASE + """
        import unittest
        seen = []
        @instantiate_parametrized_tests
        class Tests(TestCase):
            @parametrize("x", [1, 2.5, torch.float32, None, [1]])
            def test_a(self, x): seen.append(x)
            @parametrize("x,y", [(1, 2), subtest((3, 4), name="z", decorators=[unittest.skip("no")])])
            @parametrize("k", [1], name_fn=lambda k: f"n{k}")
            def test_b(self, x, y, k): seen.append((x, y, k))
            def test_seed(self): self.assertEqual(torch.initial_seed(), 1234)
        print([name for name in dir(Tests) if name.startswith("test_")])
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(Tests).run(result)
        print(result.testsRun, len(result.skipped), result.wasSuccessful(), len(seen), (1, 2, 1) in seen)
    """) == [
        "['test_a_float32', 'test_a_x3', 'test_a_x4', 'test_a_x_1', 'test_a_x_2_5', 'test_b_x_1_y_2_n1', 'test_b_z_n1', 'test_seed']",
        "8 1 True 6 True",
    ]


def test_a_backend_that_counts():
    assert says("""
        import torch, torch.fx
        from torch._dynamo.testing import CompileCounter, same
        counter = CompileCounter()
        f = counter(torch.fx.symbolic_trace(lambda x: x.relu() + 1), [torch.ones(1)])
        print(counter.frame_count, counter.op_count, f(torch.ones(1)).item(), same([torch.ones(1)], [torch.ones(1)]), same(torch.ones(1), torch.zeros(1)))
        counter.clear()
        print(counter.frame_count)
    """) == ["1 2 2.0 True False", "0"]
