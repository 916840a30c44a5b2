"""`flambeau.nn.functional`: layers without state.

Most names come straight from the op library; this package adds what is a composition of ops, turns
`reduction` and padding words into what the ops take, and refuses what would otherwise broadcast in
silence: a loss between [N, 1] and [N] is an error here, not an [N, N] matrix. One file is one family.

Example:
    >>> import flambeau as fl
    >>> from flambeau.nn import functional as F
    >>> F.mse_loss(fl.zeros(2), fl.tensor([1.0, 3.0]))
    tensor(5.)
"""

from flambeau import _whole_calls
from flambeau.nn.functional._activation import *
from flambeau.nn.functional._attention import *
from flambeau.nn.functional._bags import *
from flambeau.nn.functional._classifier import *
from flambeau.nn.functional._convolution import *
from flambeau.nn.functional._dropout import *
from flambeau.nn.functional._embedding import *
from flambeau.nn.functional._grid import *
from flambeau.nn.functional._grouped import *
from flambeau.nn.functional._likelihood import *
from flambeau.nn.functional._linear import *
from flambeau.nn.functional._margin import *
from flambeau.nn.functional._multihead import *
from flambeau.nn.functional._multilabel import *
from flambeau.nn.functional._norm import *
from flambeau.nn.functional._pooling import *
from flambeau.nn.functional._regression import *
from flambeau.nn.functional._sequences import *
from flambeau.nn.functional._unpooling import *
from flambeau.nn.functional._vision import *

for _value in list(globals().values()):  # pickles name a function by the package, not by its file
    if getattr(_value, "__module__", "").startswith(f"{__name__}."):
        _value.__module__ = __name__
del _value
_whole_calls.meet_all(__name__)
