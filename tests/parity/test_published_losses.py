"""Losses as published programs write them by hand: distilled, smoothed, focal, contrastive, of quantiles, rewards and noise. Both libraries run each."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from parity.programs import data, mlp, programs_in, same  # noqa: E402

import flambeau as fl  # noqa: E402


def distillation(lib):
    F = lib.nn.functional
    teacher, student = mlp(lib, 5, 16, 3, seed=1), mlp(lib, 5, 4, 3, seed=2)
    x, labels = data(lib, 8, 5), lib.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    optimizer = lib.optim.Adam(student.parameters(), lr=1e-2)
    T, alpha, found = 4.0, 0.7, []
    teacher.eval()
    for _ in range(4):
        with lib.no_grad():
            soft = teacher(x)
        out = student(x)
        kd = lib.nn.KLDivLoss(reduction="batchmean")(F.log_softmax(out / T, dim=1), F.softmax(soft / T, dim=1)) * (alpha * T * T)
        logs = lib.nn.KLDivLoss(reduction="sum", log_target=True)(F.log_softmax(out, -1), F.log_softmax(soft, -1)) / out.size(0)
        loss = kd + F.cross_entropy(out, labels) * (1.0 - alpha) + 0.1 * logs + F.cosine_embedding_loss(out, soft, target=lib.ones(out.size(0)))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        lib.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        found.append(loss.detach())
    return [found, lib.stack(found), student.state_dict()]


def label_smoothing_by_hand(lib):
    class LabelSmoothing(lib.nn.Module):
        def __init__(self, size, padding_idx, smoothing=0.0):
            super().__init__()
            self.criterion = lib.nn.KLDivLoss(reduction="sum")
            self.padding_idx, self.confidence, self.smoothing, self.size, self.true_dist = padding_idx, 1.0 - smoothing, smoothing, size, None

        def forward(self, x, target):
            assert x.size(1) == self.size
            true_dist = x.data.clone()
            true_dist.fill_(self.smoothing / (self.size - 2))
            true_dist.scatter_(1, target.data.unsqueeze(1), self.confidence)
            true_dist[:, self.padding_idx] = 0
            mask = lib.nonzero(target.data == self.padding_idx)
            if mask.dim() > 0:
                true_dist.index_fill_(0, mask.squeeze(), 0.0)
            self.true_dist = true_dist
            return self.criterion(x, true_dist.clone().detach())

    crit = LabelSmoothing(5, 0, 0.4)
    predict = lib.tensor([[0, 0.2, 0.7, 0.1, 0]] * 5)
    loss = crit(x=predict.clamp_min(1e-9).log().requires_grad_(), target=lib.LongTensor([2, 1, 0, 3, 3]))
    logits = data(lib, 4, 6, requires_grad=True)
    target = lib.tensor([1, 5, 0, 2])
    log_probs = logits.log_softmax(dim=-1)
    nll = -log_probs.gather(dim=-1, index=target[:, None]).squeeze(1)
    by_hand = (0.9 * nll + 0.1 * -log_probs.mean(dim=-1)).mean()
    (g,) = lib.autograd.grad(by_hand, logits)
    hot = lib.zeros_like(logits).scatter(1, target.view(-1, 1), 1) * 0.9 + 0.1 / 6
    return [loss, crit.true_dist, by_hand, g, lib.nn.functional.cross_entropy(logits, target, label_smoothing=0.1), lib.sum(-hot * log_probs, dim=1).mean()]


def losses_of_segmentation(lib):
    F = lib.nn.functional

    class FocalLoss(lib.nn.Module):
        def __init__(self, gamma=2, alpha=None, size_average=True):
            super().__init__()
            self.gamma, self.alpha, self.size_average = gamma, alpha, size_average
            if isinstance(alpha, (float, int)):
                self.alpha = lib.Tensor([alpha, 1 - alpha])
            if isinstance(alpha, list):
                self.alpha = lib.Tensor(alpha)

        def forward(self, input, target):
            if input.dim() > 2:
                input = input.view(input.size(0), input.size(1), -1).transpose(1, 2).contiguous().view(-1, input.size(1))
            target = target.view(-1, 1)
            logpt = F.log_softmax(input, dim=1).gather(1, target).view(-1)
            pt = logpt.data.exp()
            if self.alpha is not None:
                if self.alpha.type() != input.data.type():
                    self.alpha = self.alpha.type_as(input.data)
                logpt = logpt * self.alpha.gather(0, target.data.view(-1))
            loss = -1 * (1 - pt) ** self.gamma * logpt
            return loss.mean() if self.size_average else loss.sum()

    def dice(logits, true, eps=1e-7):
        num_classes = logits.shape[1]
        hot = lib.eye(num_classes)[true.squeeze(1)].permute(0, 3, 1, 2).float()
        probas = F.softmax(logits, dim=1)
        dims = (0,) + tuple(range(2, true.ndimension()))
        inter, card = lib.sum(probas * hot, dims), lib.sum(probas + hot, dims)
        return 1 - (2.0 * inter / (card + eps)).mean()

    def iou(pred, target, n):
        pred, target, found = pred.view(-1), target.view(-1), []
        for cls in range(n):
            p, t = pred == cls, target == cls
            found.append(float((p & t).sum()) / float(max((p | t).sum().item(), 1)))
        return found

    def confusion(pred, target, n):
        k = (target >= 0) & (target < n)
        return lib.bincount(n * target[k] + pred[k], minlength=n**2).reshape(n, n)

    x = data(lib, 2, 3, 4, 4, requires_grad=True)
    t = lib.arange(32).remainder(3).view(2, 1, 4, 4)
    losses = [FocalLoss()(x, t), FocalLoss(alpha=[0.2, 0.3, 0.5], size_average=False)(x, t), dice(x, t)]
    grads = [lib.autograd.grad(loss, x, retain_graph=True)[0] for loss in losses]
    pred = x.argmax(dim=1, keepdim=True)
    p, g = x[:, 0].sigmoid(), (t[:, 0] == 1).float()
    tversky = 1 - (p * g).sum() / ((p * g).sum() + 0.3 * (p * (1 - g)).sum() + 0.7 * ((1 - p) * g).sum())
    errors = (lib.ones_like(p) - p * (2 * g - 1)).flatten()
    ordered, perm = lib.sort(errors, descending=True, dim=0, stable=True)
    gts = g.flatten()[perm.data]
    jaccard = 1.0 - (gts.sum() - gts.float().cumsum(0)) / (gts.sum() + (1 - gts).float().cumsum(0))
    jaccard[1:] = jaccard[1:] - jaccard[:-1]
    lovasz = lib.dot(F.relu(ordered), jaccard)
    return [losses, grads, iou(pred, t, 3), confusion(pred.flatten(), t.flatten(), 3), tversky, lovasz, lib.autograd.grad(lovasz, x)[0]]


def triplets_and_contrast(lib):
    F = lib.nn.functional
    x = data(lib, 8, 5, requires_grad=True)
    labels = lib.tensor([0, 0, 1, 1, 2, 2, 0, 1])

    def distances(e):
        dot = lib.matmul(e, e.t())
        square = dot.diag()
        d = F.relu(square.unsqueeze(0) - 2.0 * dot + square.unsqueeze(1))
        mask = d.eq(0.0).float()
        return (d + mask * 1e-16).sqrt() * (1.0 - mask)

    d = distances(x)
    same_label = labels.unsqueeze(0) == labels.unsqueeze(1)
    positive = same_label & ~lib.eye(8, dtype=lib.bool)
    hardest_p = (d * positive.float()).max(dim=1, keepdim=True)[0]
    max_d, _ = d.max(1, keepdim=True)
    hardest_n, where = (d + max_d * same_label.float()).min(1, keepdim=True)
    hard = F.relu(hardest_p - hardest_n + 0.3).mean()
    loss = d.unsqueeze(2) - d.unsqueeze(1) + 0.2
    valid = positive.unsqueeze(2) & ~same_label.unsqueeze(1)
    every = F.relu(loss * valid)
    batch_all = every.sum() / (every > 1e-16).float().sum()
    cdist = lib.cdist(x, x).detach()
    z = F.normalize(x, dim=1)
    sim = F.cosine_similarity(z.unsqueeze(1), z.unsqueeze(0), dim=2)
    half = 4
    pos = lib.cat([lib.diag(sim, half), lib.diag(sim, -half)])
    outside = (~lib.eye(8, 8, dtype=bool)).float()
    nt_xent = lib.sum(-lib.log(lib.exp(pos / 0.5) / lib.sum(outside * lib.exp(sim / 0.5), dim=1))) / 8
    logits = z[:4] @ z[4:].T / 0.07
    info = (F.cross_entropy(logits, lib.arange(4)) + F.cross_entropy(logits.T, lib.arange(4))) / 2
    masked = sim.masked_fill(lib.eye(8).bool(), -9e15) / 0.1
    rank = masked.argsort(dim=-1, descending=True).argmin(dim=-1)
    supcon = -(masked.log_softmax(1).masked_fill(~positive, 0).sum(1) / positive.sum(1)).mean()
    losses = [hard, batch_all, nt_xent, info, supcon]
    return [losses, [lib.autograd.grad(v, x, retain_graph=True)[0] for v in losses], where, cdist, rank, F.triplet_margin_loss(x[:2], x[2:4], x[4:6], swap=True)]


def quantiles_and_mixtures(lib):
    x, y = lib.linspace(-1, 1, 12).view(-1, 1), data(lib, 12, 1)
    net = mlp(lib, 1, 8, 3)
    qs = lib.tensor([0.1, 0.5, 0.9])
    optimizer = lib.optim.Adagrad(net.parameters(), lr=0.1)
    for _ in range(4):
        error = y - net(x)
        loss = lib.max((qs - 1) * error, qs * error).sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    head = mlp(lib, 1, 6, 9, seed=3)
    pi, mu, sigma = head(x).chunk(3, dim=-1)
    pi, sigma = pi.softmax(-1), lib.exp(sigma)
    D = lib.distributions
    mix = D.MixtureSameFamily(D.Categorical(probs=pi), D.Normal(mu, sigma))
    by_hand = -lib.logsumexp(pi.log() - 0.5 * ((y - mu) / sigma) ** 2 - sigma.log() - 0.5 * math.log(2 * math.pi), dim=-1)
    gauss = D.Independent(D.Normal(mu, sigma), 1)
    kl = D.kl_divergence(gauss, D.Independent(D.Normal(lib.zeros_like(mu), lib.ones_like(sigma)), 1))
    by_hand.mean().backward()
    return [loss, qs, net(x), by_hand, mix.log_prob(y.squeeze(1)), mix.mean, kl, gauss.entropy(), head[0].weight.grad, D.Beta(2.0, 3.0).log_prob(lib.tensor(0.3)), repr(gauss)]


def reinforcement(lib):
    D = lib.distributions
    policy = mlp(lib, 4, 8, 2)
    optimizer = lib.optim.Adam(policy.parameters(), lr=1e-2)
    rewards, log_probs = [1.0, 0.0, -1.0, 2.0], []
    for t, action in enumerate((0, 1, 1, 0)):
        m = D.Categorical(logits=policy(data(lib, 4, seed=t)))
        log_probs.append(m.log_prob(lib.tensor(action)))
    returns, R = [], 0.0
    for r in rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = lib.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + np.finfo(np.float32).eps.item())
    loss = lib.stack([-lp * g for lp, g in zip(log_probs, returns)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    q, target = mlp(lib, 4, 8, 3), mlp(lib, 4, 8, 3, seed=2)
    memory = [(data(lib, 1, 4, seed=i), lib.tensor([[i % 3]]), lib.tensor([float(i)]), data(lib, 1, 4, seed=i + 50) if i % 4 else None) for i in range(8)]
    state, action, reward, following = zip(*memory)
    mask = lib.tensor(tuple(s is not None for s in following), dtype=lib.bool)
    chosen = q(lib.cat(state)).gather(1, lib.cat(action))
    values = lib.zeros(8)
    with lib.no_grad():
        values[mask] = target(lib.cat([s for s in following if s is not None])).max(1).values
    expected = values * 0.9 + lib.cat(reward)
    criterion = lib.nn.SmoothL1Loss()
    huber = criterion(chosen, expected.unsqueeze(1))
    huber.backward()
    for p in q.parameters():
        p.grad.data.clamp_(-1, 1)
    mixed = {key: q.state_dict()[key] * 0.005 + value * 0.995 for key, value in target.state_dict().items()}
    target.load_state_dict(mixed)
    greedy = q(state[0]).max(1).indices.view(1, 1)
    ratio = (log_probs[0].detach() - lib.tensor(-1.0)).exp()
    clipped = lib.min(ratio * 2, lib.clamp(ratio, 1 - 0.2, 1 + 0.2) * 2)
    gae, lam = lib.zeros(4), 0.0
    for t in reversed(range(4)):
        lam = rewards[t] + 0.95 * 0.9 * lam
        gae[t] = lam
    priorities = lib.tensor([0.5, 2.0, 1.0, 0.5])
    cumulative = lib.cumsum(priorities, 0)
    drawn = lib.searchsorted(cumulative, lib.tensor([0.1, 0.5, 2.6, 3.9]), right=True)
    weights = (4 * priorities[drawn] / cumulative[-1]) ** -0.4
    return [loss, *policy.parameters(), huber, chosen, expected, *[p.grad for p in q.parameters()], mixed, greedy, clipped, gae, drawn, weights / weights.max(), lib.bucketize(lib.tensor([0.6, 2.5]), cumulative)]


def annealed_noise(lib):
    """Diffusion's forward and backward steps, with the noise from outside."""
    T = 20
    betas = lib.linspace(1e-4, 0.02, T)
    alphas = 1.0 - betas
    bars = lib.cumprod(alphas, dim=0)
    before = lib.nn.functional.pad(bars[:-1], (1, 0), value=1.0)
    variance = betas * (1.0 - before) / (1.0 - bars)

    def extract(a, t, shape):
        return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(shape) - 1)))

    class Embed(lib.nn.Module):
        def forward(self, t, dim=8):
            half = dim // 2
            e = lib.exp(lib.arange(half) * -(math.log(10000) / (half - 1)))
            e = t[:, None] * e[None, :]
            return lib.cat((e.sin(), e.cos()), dim=-1)

    net = mlp(lib, 4 + 8, 16, 4)
    x0, noise, t = data(lib, 5, 4), data(lib, 5, 4, seed=8), lib.tensor([0, 3, 7, 12, 19])
    xt = extract(bars.sqrt(), t, x0.shape) * x0 + extract((1 - bars).sqrt(), t, x0.shape) * noise
    predicted = net(lib.cat([xt, Embed()(t)], dim=1))
    loss = lib.nn.functional.huber_loss(noise, predicted)
    loss.backward()
    x = data(lib, 2, 4, seed=4)
    with lib.inference_mode():
        for i in reversed(range(T)):
            step = lib.full((2,), i, dtype=lib.long)
            e = net(lib.cat([x, Embed()(step)], 1))
            mean = extract(alphas.rsqrt(), step, x.shape) * (x - extract(betas, step, x.shape) * e / extract((1.0 - bars).sqrt(), step, x.shape))
            x = mean if i == 0 else mean + lib.sqrt(extract(variance, step, x.shape)) * data(lib, 2, 4, seed=i)
    s = 0.008
    cosine = lib.cos(((lib.linspace(0, T, T + 1) / T) + s) / (1 + s) * math.pi * 0.5) ** 2
    cosine = lib.clip(1 - (cosine[1:] / cosine[0]) / (cosine[:-1] / cosine[0]), 0.0001, 0.9999)
    return [xt, loss, *[p.grad for p in net.parameters()], x, x.is_inference(), cosine, variance]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", programs_in(globals()), ids=lambda f: f.__name__)
def test_both_lose_the_same(program):
    same(program(fl), program(torch), program.__name__, rtol=2e-4, atol=2e-5)
