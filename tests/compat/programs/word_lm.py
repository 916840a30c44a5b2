import argparse
import math

import torch
import torch.nn as nn
import torch.onnx

parser = argparse.ArgumentParser(description='LSTM language model')
parser.add_argument('text')
parser.add_argument('--epochs', type=int, default=2)
parser.add_argument('--bptt', type=int, default=20)
parser.add_argument('--clip', type=float, default=0.25)
args = parser.parse_args()
torch.manual_seed(1111)
if torch.cuda.is_available():
    print("WARNING: You have a CUDA device, so you should probably run with --cuda.")
if hasattr(torch.backends, "mps") and torch.backends.mps.is_available():
    print("WARNING: You have mps device, to enable macOS GPU run with --mps.")
device = torch.device("cpu")

words = open(args.text).read().split()
vocabulary = {w: i for i, w in enumerate(sorted(set(words)))}
ids = torch.tensor([vocabulary[w] for w in words]).type(torch.int64)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous().to(device)


train_data = batchify(ids, 8)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers, dropout=0.2):
        super(RNNModel, self).__init__()
        self.ntoken = ntoken
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = getattr(nn, 'LSTM')(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        self.nhid, self.nlayers = nhid, nlayers
        initrange = 0.1
        nn.init.uniform_(self.encoder.weight, -initrange, initrange)
        nn.init.zeros_(self.decoder.bias)
        self.decoder.weight.data.uniform_(-initrange, initrange)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        self.rnn.flatten_parameters()
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return nn.functional.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid))


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].view(-1)


model = RNNModel(len(vocabulary), 32, 48, 2).to(device)
criterion = nn.NLLLoss()
lr = 5.0
for epoch in range(1, args.epochs + 1):
    model.train()
    hidden = model.init_hidden(8)
    total, count = 0., 0
    for i in range(0, train_data.size(0) - 1, args.bptt):
        data, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total += loss.item()
        count += 1
    print('epoch {:3d} | loss {:5.2f} | ppl {:8.2f}'.format(epoch, total / count, math.exp(total / count)))
print('uniform {:.2f}'.format(math.log(len(vocabulary))))
