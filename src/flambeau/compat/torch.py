"""`import flambeau.compat.torch` makes `import torch` mean flambeau in this process.

At the top of a program or a notebook, before anything that imports PyTorch; `flambeau run script.py` does the same without a
change of the program. It raises ImportError where PyTorch itself was imported before.

    import flambeau.compat.torch
    import torch                       # flambeau, under PyTorch's names
    from transformers import ...       # and packages that were written for PyTorch
"""

from flambeau.compat._torch import install

install()
