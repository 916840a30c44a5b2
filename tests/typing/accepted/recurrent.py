"""What recurrent layers give."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

lstm = nn.LSTM(3, 4, batch_first=True)
out, (h, c) = lstm(fl.ones(2, 5, 3))
assert_type(out, fl.Tensor)
assert_type(h, fl.Tensor)
out, last = nn.GRU(3, 4)(fl.ones(5, 2, 3))
assert_type(last, fl.Tensor)
packed, _ = lstm(pack_padded_sequence(fl.ones(2, 5, 3), fl.tensor([5, 3]), batch_first=True))
padded, lengths = pad_packed_sequence(packed, batch_first=True)
print(padded.shape, lengths, c.shape)
