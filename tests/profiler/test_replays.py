"""A replayed call in a profile: its ops with their bytes, and those that go through memory in one pass as one."""

import flambeau as fl


def test_ops_of_a_replay():
    w = fl.nn.Parameter(fl.randn(64, 64))

    @fl.compile(mode="replay")
    def f(x):
        w.grad = None
        y = (x @ w).relu()
        (y * 0.5 + 1).sum().backward()

    x = fl.randn(256, 64)
    for _ in range(6):
        f(x)
    with fl.profiler.profile(profile_memory=True) as p:
        for _ in range(2):
            f(x)  # the fifth and the sixth replay: nothing is recorded again
    found = {e.key: e for e in p.key_averages()}
    assert found["matmul"].count == 2
    joined = [name for name in found if name.startswith("relu + mul + ")]
    assert len(joined) == 1 and found[joined[0]].count == 2
    assert "relu" not in found and "mul" not in found
    (matmul, _) = [e for e in p.events() if e.name == "matmul"]
    assert matmul.input_bytes == 4 * (256 * 64 + 64 * 64)
    assert matmul.output_bytes == 4 * 256 * 64


def test_an_op_that_fails():
    table = fl.randn(10, 4)

    @fl.compile(mode="replay")
    def f(i):
        with fl.no_grad():
            return fl.nn.functional.embedding(i, table)

    i = fl.tensor([1, 2])
    for _ in range(6):
        f(i)
    i.fill_(99)
    with fl.profiler.profile() as p:
        try:
            f(i)
        except IndexError as error:
            assert "99" in str(error)
        else:
            raise AssertionError("nothing was raised")
    assert f(fl.tensor([3, 3])).equal(table[[3, 3]])
    assert all(e.name for e in p.events())
