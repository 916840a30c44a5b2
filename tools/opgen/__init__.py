"""opgen: turns the op table (ops/*.yaml) into C++, bindings, stubs, docs and test cases.

The folder follows the data: `table` reads and checks entries, `signature` and `types` say what their
arguments are, `formula` translates gradient formulas, `emit_*` write what an entry becomes.
See docs/op-table.md for the table's language.
"""
