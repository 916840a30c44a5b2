"""Command line: `python -m opgen check|generate|show|new|docs`.

    check                     read the table and complain with file:line
    generate --out DIR        write the C++ (and with --stub FILE the stub, with `_table.pyi` and `__init__.pyi` beside it)
    show NAME                 print an entry and all that it becomes
    new NAME                  print a fresh entry to start from
    docs --out FILE           write the reference page
"""

from __future__ import annotations

import argparse
import pathlib
import sys

from . import emit_bind, emit_cpp, emit_package, emit_registers, emit_stub
from .files import generate as generate_cpp
from .files import group, write
from .table import Op, TableError, load

ROOT = pathlib.Path(__file__).resolve().parents[2]


def show(ops: list[Op], name: str) -> str:
    table = group(ops)
    if name not in table:
        close = [n for n in table if name in n or n in name]
        raise TableError(f"no op '{name}'" + (f"; did you mean {', '.join(close)}?" if close else ""))
    out: list[str] = []
    for op in table[name]:
        out += [f"# {op.where}", op.keys["op"], "", "// declaration", *emit_cpp.declaration(op)]
        struct, body = emit_cpp.wrapper(op, table)
        out += ["", "// autograd node", *struct, "", "// wrapper", *body]
        if "each" in op.keys:
            out += ["", "// loops, once per instruction set", *emit_registers.loops(op)]
        kernel = emit_cpp.kernel_declaration(op)
        if kernel:
            files = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "csrc").rglob("*.cpp")) if f" {op.get('kernel')}(" in p.read_text()]
            out += ["", "// kernel", kernel, *(f"//   {f}" for f in files)]
    out += ["", "// binding", *emit_bind.function(name, table[name])]
    return "\n".join(out)


NEW = """- op: {name}(Tensor x) -> Tensor y
  doc: One sentence saying what it computes.
  shape: same(x)
  dtype: float_of(x)
  each: exp(x)
  inplace: true
  grad:
    x: dy * y
  ref: np.exp(x)
  samples:
    - {{x: "f32[2,3]"}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="opgen", description="The op table's generator.")
    parser.add_argument("--table", type=pathlib.Path, default=ROOT / "ops")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="read the table and complain with file:line")
    generate = commands.add_parser("generate", help="write the C++")
    generate.add_argument("--out", type=pathlib.Path, required=True)
    generate.add_argument("--stub", type=pathlib.Path)
    for verb in ("show", "new"):
        commands.add_parser(verb).add_argument("name")
    commands.add_parser("docs").add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    try:
        if args.command == "new":
            print(NEW.format(name=args.name))
            return 0
        ops = load(args.table)
        if args.command == "show":
            print(show(ops, args.name))
        elif args.command == "docs":
            write(args.out, emit_stub.docs_page(group(ops)))
        else:
            table = group(ops)
            for op in ops:  # translating every formula is the check
                emit_cpp.wrapper(op, table)
            if args.command == "generate":
                generate_cpp(ops, args.out)
                if args.stub:
                    members = (ROOT / "src" / "flambeau" / "_tensor.pyi.in").read_text()
                    write(args.stub, emit_stub.stub(table, members))
                    write(args.stub.with_name("_table.pyi"), emit_stub.functions_stub(table))
                    package = (ROOT / "src" / "flambeau" / "__init__.py").read_text()
                    write(args.stub.with_name("__init__.pyi"), emit_package.stub(table, package))
            else:
                print(f"{len(ops)} entries, {len(table)} ops: no complaints")
    except TableError as fault:
        print(fault, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
