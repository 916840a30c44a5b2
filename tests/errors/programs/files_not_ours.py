"""A file of another kind."""

import pathlib

import flambeau as fl

path = pathlib.Path("notes.txt")
path.write_text("Remember to save the model.\n")
fl.load(path)
