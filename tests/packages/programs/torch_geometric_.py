"""torch_geometric: layers of graphs with gradients, pools, batches of graphs trained by a loader, graphs of several kinds, a data set in a file."""
import json
import math
import tempfile
import warnings

import torch
import torch.nn.functional as F
from torch_geometric import nn as gnn
from torch_geometric import transforms, utils
from torch_geometric.data import Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import aggr

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(math.prod(shape)) * k + 0.1).reshape(shape)


def filled(model):
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(model.named_parameters())):
            p.copy_(wave(*p.shape, k=0.7 + 0.1 * i) * (0.5 if p.ndim > 1 else 0.2))
    return model


nodes, out = 12, {}
edges = torch.tensor([(i, j) for i in range(nodes) for j in range(nodes) if i != j and (i * 7 + j * 3) % 5 == 0]).T.contiguous()
x, weight, attributes, kinds = wave(nodes, 6), wave(edges.shape[1]).abs(), wave(edges.shape[1], 3, k=0.9), torch.arange(edges.shape[1]) % 3
for name, layer, *more in (
    ("gcn", gnn.GCNConv(6, 5), weight), ("gat", gnn.GATConv(6, 4, heads=2, edge_dim=3), attributes), ("gatv2", gnn.GATv2Conv(6, 4, heads=2)),
    ("sage", gnn.SAGEConv(6, 5, aggr="max")), ("gin", gnn.GINConv(torch.nn.Linear(6, 4), train_eps=True)), ("cheb", gnn.ChebConv(6, 5, K=3)),
    ("transformer", gnn.TransformerConv(6, 4, heads=2, edge_dim=3, beta=True), attributes), ("rgcn", gnn.RGCNConv(6, 5, 3, num_bases=2), kinds),
    ("nn", gnn.NNConv(6, 4, torch.nn.Linear(3, 24)), attributes), ("gen", gnn.GENConv(6, 5, aggr="softmax", learn_t=True)), ("film", gnn.FiLMConv(6, 5)),
    ("pna", gnn.PNAConv(6, 8, ["mean", "min", "max", "std"], ["identity", "amplification"], torch.tensor([0, 3, 5, 4]))), ("edge", gnn.EdgeConv(torch.nn.Linear(12, 5))),
):  # fmt: skip
    given = x.clone().requires_grad_()
    y = filled(layer)(given, edges, *more)
    y.square().sum().backward()
    out[name] = [*y.shape, y.sum().item(), given.grad.abs().sum().item(), *(p.grad.abs().sum().item() for _, p in sorted(layer.named_parameters()))]
batch = torch.tensor([0] * 5 + [1] * 4 + [2] * 3)
for name, pool in (("std", aggr.StdAggregation()), ("median", aggr.MedianAggregation()), ("softmax", aggr.SoftmaxAggregation(learn=True)), ("set2set", aggr.Set2Set(6, 3)),
                   ("sort", aggr.SortAggregation(3)), ("lstm", aggr.LSTMAggregation(6, 4)), ("several", aggr.MultiAggregation(["mean", "max", "var"]))):  # fmt: skip
    given = x.clone().requires_grad_()
    y = filled(pool)(given, batch)
    y.square().sum().backward()
    out[name] = [*y.shape, y.sum().item(), given.grad.abs().sum().item()]
out["top"] = [t.double().sum().item() for t in filled(gnn.TopKPooling(6, 0.6))(x, edges, batch=batch) if t is not None]
out["norm"] = [norm(x, batch).square().sum().item() for norm in (gnn.GraphNorm(6), gnn.LayerNorm(6), gnn.InstanceNorm(6), gnn.PairNorm())]
rows, pairs = (make(edges, weight, size=(nodes, nodes)) for make in (utils.to_torch_csr_tensor, utils.to_torch_coo_tensor))
out["matrix"] = [filled(layer)(x, pairs.t()).sum().item() for layer in (gnn.GCNConv(6, 5), gnn.SAGEConv(6, 5))] + [utils.spmm(rows, x).sum().item()]
out["utils"] = [utils.softmax(weight, edges[1]).square().sum().item(), utils.to_dense_adj(edges).sum().item(), utils.to_dense_batch(x, batch)[0].square().sum().item(),
                utils.k_hop_subgraph(3, 1, edges)[0].tolist(), utils.get_laplacian(edges, weight, normalization="sym")[1].square().sum().item()]  # fmt: skip


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.last = gnn.GCNConv(4, 8), gnn.GATConv(8, 8), gnn.Linear(-1, 3)

    def forward(self, data):
        hidden = F.elu(self.two(F.relu(self.one(data.x, data.edge_index)), data.edge_index))
        return self.last(gnn.global_mean_pool(hidden, data.batch))


def graph(i):
    n = 5 + i % 4
    return Data(x=wave(n, 4, k=0.3 + 0.05 * i), edge_index=torch.tensor([list(range(n)), [(j + 1 + i) % n for j in range(n)]]), y=torch.tensor([i % 3]))


loader, net, losses = DataLoader([graph(i) for i in range(12)], batch_size=4), Net(), []
net(next(iter(loader)))
step = torch.optim.Adam(filled(net).parameters(), lr=0.05, weight_decay=1e-3)
for _ in range(3):
    for data in loader:
        step.zero_grad()
        loss = F.cross_entropy(net(data), data.y)
        loss.backward()
        step.step()
        losses.append(loss.item())
out["training"] = [losses, repr(net), repr(data), repr(data.to_data_list()[1])]

data = HeteroData()
data["a"].x, data["b"].x = wave(6, 4), wave(5, 3, k=0.8)
data["a", "to", "b"].edge_index = torch.tensor([[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 0]])
data["b", "back", "a"].edge_index = torch.tensor([[0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4, 5]])
both = gnn.to_hetero(gnn.GraphSAGE((-1, -1), 6, 2, 3), data.metadata())
both(data.x_dict, data.edge_index_dict)
out["kinds"] = [{key: value.sum().item() for key, value in model(data.x_dict, data.edge_index_dict).items()}
                for model in (filled(both), filled(gnn.HGTConv({"a": 4, "b": 3}, 8, data.metadata(), heads=2)))]  # fmt: skip
plain = Data(x=x.abs(), edge_index=edges, pos=wave(nodes, 3, k=2.1))
for name, change in (("walks", transforms.AddRandomWalkPE(4)), ("spherical", transforms.Spherical()), ("undirected", transforms.ToUndirected()), ("line", transforms.LineGraph())):
    out[name] = {key: value.double().abs().sum().item() for key, value in change(plain.clone()).to_dict().items() if isinstance(value, torch.Tensor)}


class Kept(InMemoryDataset):
    raw_file_names, processed_file_names = [], ["graphs.pt"]

    def __init__(self, root):
        super().__init__(root, log=False)
        self.load(self.processed_paths[0])

    def process(self):
        self.save([graph(i) for i in range(4)], self.processed_paths[0])


with tempfile.TemporaryDirectory() as folder:
    kept = Kept(folder)
out["kept"] = [len(kept), repr(kept[1]), kept[2].x.sum().item()]
print(json.dumps(out))
