"""A file of which the end is missing."""

import pathlib

import flambeau as fl

path = pathlib.Path("model.fl")
fl.save({"weight": fl.zeros(100, 100)}, path)
path.write_bytes(path.read_bytes()[:20000])
fl.load(path)
