"""Graph convolution: who belongs to which of four groups, from a few labels and who knows whom (Kipf and Welling 2017).

The graph is generated: people of one group know each other more often than others. What is known of a person is almost nothing; the
network averages over acquaintances, by a product with a sparse matrix, and reaches what no network without the edges can.

    python examples/graph_convolution.py --steps 150
"""

import argparse

import flambeau as fl

nn, F = fl.nn, fl.nn.functional
N_GROUPS, N_FEATURES, N_LABELS = 4, 16, 5


def make_graph(n):
    """Edges [2, E] (each in both directions), features [n, 16], groups [n], and which nodes have a label [n]."""
    groups = fl.arange(n) % N_GROUPS
    chance = fl.where(groups[:, None] == groups, 22 / n, 2.6 / n)
    half = fl.triu(fl.rand(n, n) < chance, diagonal=1)
    edges = fl.nonzero(half).t()
    edges = fl.cat([edges, edges.flip(0)], dim=1)
    features = fl.randn(n, N_FEATURES) + 1.1 * F.one_hot(groups, N_FEATURES)
    labelled = fl.arange(n) < N_GROUPS * N_LABELS
    return edges, features, groups, labelled


def averages(edges, n):
    """The matrix that averages over a node and its neighbours, D^-1/2 (A + I) D^-1/2, as a sparse tensor."""
    loops = fl.arange(n).repeat(2, 1)
    at = fl.cat([edges, loops], dim=1)
    degree = fl.bincount(at[0], minlength=n)
    values = (degree[at[0]] * degree[at[1]]) ** -0.5
    return fl.sparse_coo_tensor(at, values, (n, n)).coalesce()


class GraphConvolution(nn.Module):
    """Features [n, a] to [n, b]: a linear layer, then the mean over neighbours. Without a matrix it is the linear layer alone."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)

    def forward(self, x, matrix):
        y = self.linear(x)
        return y if matrix is None else fl.sparse.mm(matrix, y)


class Network(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = GraphConvolution(N_FEATURES, width), GraphConvolution(width, N_GROUPS)

    def forward(self, x, matrix):
        return self.second(F.relu(self.first(x, matrix)), matrix)


def make_model(args):
    return Network(args.width)


def train(model, args, graph=None, with_edges=True, accuracies=None):
    """Returns the loss of every step; the share of right answers of nodes without a label goes to `accuracies`."""
    edges, features, groups, labelled = make_graph(args.nodes) if graph is None else graph
    matrix = averages(edges, len(groups)) if with_edges else None
    optimizer = fl.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-3)
    losses = []
    for step in range(1, args.steps + 1):
        logits = model(features, matrix)
        loss = F.cross_entropy(logits[labelled], groups[labelled])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if accuracies is not None:
            accuracies.append((logits.argmax(1) == groups)[~labelled].sum().item() / (~labelled).sum().item())
        if step % 50 == 0 or step == args.steps:
            print(f"step {step}: loss {losses[-1]:.4f}")
    return losses


@fl.no_grad()
def draw(model, graph, curves, path):
    try:
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure
    except ImportError:
        return print("no picture: matplotlib is missing (pip install 'flambeau[demo]')")
    edges, features, groups, labelled = graph
    said = model(features, averages(edges, len(groups))).argmax(1)
    # Groups in the corners, so that one sees what was mistaken.
    corners = fl.tensor([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    places = (corners[groups] + 0.32 * fl.randn(len(groups), 2)).numpy()
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.add_collection(LineCollection(places[edges.t().numpy()][::4], colors="silver", linewidths=0.2))
    left.scatter(*places.T, c=[f"C{k}" for k in said.tolist()], s=9, zorder=2)
    left.scatter(*places[labelled.numpy()].T, s=40, facecolors="none", edgecolors="black", linewidths=0.8, zorder=3)
    left.set_title("colour: what is said; corner: what is true; ring: label given", fontsize=8)
    left.set_axis_off()
    for name, curve in curves.items():
        right.plot(curve, label=name)
    right.axhline(1 / N_GROUPS, color="gray", linestyle=":", label="guessing")
    right.set(xlabel="step", ylabel="right, of nodes without a label", ylim=(0, 1))
    right.legend(fontsize=8)
    figure.savefig(path, dpi=72)
    print(f"drew {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--nodes", type=int, default=600)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="graph_convolution.png", help="where to draw; '' for nowhere")
    return parser


def main():
    args = options().parse_args()
    fl.manual_seed(args.seed)
    graph = make_graph(args.nodes)
    print(f"{args.nodes} nodes, {graph[0].shape[1] // 2} edges, {N_GROUPS * N_LABELS} labels")
    curves = {}
    for name, with_edges in (("without edges", False), ("with edges", True)):
        model, curves[name] = make_model(args), []
        train(model, args, graph, with_edges, curves[name])
    reached = {name: 100 * curve[-1] for name, curve in curves.items()}
    print(f"right, of nodes without a label: {reached['with edges']:.1f} %, without edges {reached['without edges']:.1f} %")
    if args.picture:
        draw(model, graph, curves, args.picture)


if __name__ == "__main__":
    main()
