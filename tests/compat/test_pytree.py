"""`torch.utils._pytree`: how structures look and are written, places of leaves, and what is a container."""

from __future__ import annotations

import pytest
from support.as_torch import says

pytestmark = pytest.mark.eager("programs in processes of their own")


def test_a_structure_is_shown_over_several_lines():
    assert says("""
        import torch.utils._pytree as p
        spec = p.tree_structure([1, {"a": (1, 2)}])
        print(spec)
        print(p.treespec_pprint(spec))
    """) == ["TreeSpec(list, None, [*,", "  TreeSpec(dict, ['a'], [TreeSpec(tuple, None, [*,", "      *])])])", "[*, {'a': (*, *)}]"]


def test_a_structure_is_written_as_json_and_read():
    assert says("""
        import collections, torch
        import torch.utils._pytree as p
        Point = collections.namedtuple("Point", "x y")
        p._register_namedtuple(Point, serialized_type_name="my.Point")
        class Box:
            def __init__(self, content): self.content = content
        p.register_pytree_node(Box, lambda b: ([b.content], 3), lambda content, _: Box(*content), serialized_type_name="my.Box",
                               to_dumpable_context=lambda c: [c], from_dumpable_context=lambda c: c[0])
        trees = [1, {"a": 1, 3: [2]}, collections.OrderedDict(a=1), collections.defaultdict(list, a=1), collections.deque([1], maxlen=3), Point(1, 2),
                 (1, (2,)), torch.Size([1, 2]), Box([1])]
        texts = [p.treespec_dumps(p.tree_structure(t)) for t in trees]
        print(all(p.treespec_loads(text) == p.tree_structure(t) for text, t in zip(texts, trees)))
        print(texts[0], texts[3], texts[5].split(", ")[1:3], texts[8].split(", ")[1:3], sep="\\n")
    """) == [
        "True",
        '[1, {"type": null, "context": null, "children_spec": []}]',
        '[1, {"type": "collections.defaultdict", "context": {"default_factory_module": "builtins", "default_factory_name": "list", "dict_context": ["a"]}, '
        '"children_spec": [{"type": null, "context": null, "children_spec": []}]}]',
        """['{"type": "collections.namedtuple"', '"context": "my.Point"']""",
        """['{"type": "my.Box"', '"context": [3]']""",
    ]


def test_what_has_no_name_is_not_written_and_nothing_is_imported_for_a_text():
    assert says("""
        import json, sys
        import torch, torch.utils._pytree as p
        text = p.treespec_dumps(p.tree_structure(__import__("collections").defaultdict(list)))
        assert "ftplib" not in sys.modules
        for wrong in (lambda: p.treespec_dumps(p.tree_structure(torch.ones(1, 1).max(0))), lambda: p.treespec_dumps(3), lambda: p.treespec_loads("[2, {}]"),
                      lambda: p.treespec_loads(text.replace("builtins", "ftplib", 1)), lambda: p.treespec_loads(text.replace("collections.defaultdict", "my.T"))):
            try: print(wrong())
            except Exception as e: print(type(e).__name__, e)
        print("ftplib" in sys.modules)
    """) == [
        "NotImplementedError treespec_dumps: max has no name to be written; register it with a serialized_type_name",
        "TypeError treespec_dumps: treespec is a int; expected a TreeSpec",
        "ValueError treespec: protocol 2; expected 1",
        "ValueError treespec_loads: ftplib.list is not there; expected what a module that is imported has",
        "NotImplementedError treespec_loads: 'my.T' is no type that is registered under that name",
        "False",
    ]


def test_places_are_no_containers_and_get_what_lies_there():
    assert says("""
        import dataclasses
        import torch, torch.utils._pytree as p
        @dataclasses.dataclass
        class Pair:
            a: int
            b: int
        p.register_dataclass(Pair)
        placed = p.tree_flatten_with_path({"k": [Pair(1, 2)]})[0]
        print(placed[1][0], p.keystr(placed[1][0]), p.key_get({"k": [Pair(1, 2)]}, placed[1][0]), p.tree_leaves(placed[1][0]) == list(placed[1][0]))
        print(p.tree_leaves(torch.Size([2, 3])), p.tree_map(lambda n: n + 1, torch.ones(2, 3).shape))
    """) == ["(MappingKey(key='k'), SequenceKey(idx=0), GetAttrKey(name='b')) ['k'][0].b 2 True", "[2, 3] (3, 4)"]
