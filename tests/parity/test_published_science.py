"""Statistics, probability and signals as published programs compute them. Both libraries run each."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from parity.programs import Refused, data, filled, programs_in, refusal, same  # noqa: E402

import flambeau as fl  # noqa: E402


def gaussian_processes(lib):
    class GP(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.log_length, self.log_scale, self.log_noise = (lib.nn.Parameter(lib.zeros(1, dtype=lib.float64)) for _ in range(3))

        def kernel(self, a, b):
            d = (a[:, None, :] - b[None, :, :]) / self.log_length.exp()
            return self.log_scale.exp() * lib.exp(-0.5 * d.pow(2).sum(-1))

        def loss(self, x, y):
            K = self.kernel(x, x) + (self.log_noise.exp() + 1e-6) * lib.eye(len(x), dtype=x.dtype)
            L = lib.linalg.cholesky(K)
            alpha = lib.cholesky_solve(y, L)
            return 0.5 * (y.mT @ alpha).squeeze() + L.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)

        def predict(self, x, y, new):
            K = self.kernel(x, x) + self.log_noise.exp() * lib.eye(len(x), dtype=x.dtype)
            k = self.kernel(x, new)
            L = lib.linalg.cholesky(K)
            v = lib.linalg.solve_triangular(L, k, upper=False)
            mean = k.T @ lib.cholesky_solve(y, L)
            return mean, self.kernel(new, new) - v.T @ v

    x = lib.linspace(0, 1, 8, dtype=lib.float64).unsqueeze(-1)
    y = (x * 6).sin() + data(lib, 8, 1).double() * 0.1
    gp, found = GP(), []
    optimizer = lib.optim.Adam(gp.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad(set_to_none=False)
        loss = gp.loss(x, y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    mean, cov = gp.predict(x, y, x[:3] + 0.05)
    normal = lib.distributions.MultivariateNormal(mean.squeeze(-1), cov + 1e-4 * lib.eye(3))
    wrong = Refused(refusal(lambda: lib.linalg.cholesky(-lib.eye(2))))
    _, info = lib.linalg.cholesky_ex(lib.stack([lib.eye(2), -lib.eye(2)]))
    inverse = lib.cholesky_inverse(lib.linalg.cholesky(cov + lib.eye(3)))
    return [found, *gp.parameters(), mean, cov, normal.log_prob(lib.zeros(3, dtype=lib.float64)), normal.precision_matrix, wrong, info, inverse, lib.logdet(cov + lib.eye(3)), lib.linalg.slogdet(cov + lib.eye(3))]


def filters_of_states(lib):
    """Kalman's filter and smoother, and a filter of particles with weights that are resampled in order."""
    dt = 0.5
    F = lib.tensor([[1.0, dt], [0, 1]])
    H, Q, R = lib.tensor([[1.0, 0]]), lib.eye(2) * 0.01, lib.tensor([[0.1]])
    x, P, xs, Ps, priors = lib.zeros(2, 1), lib.eye(2), [], [], []
    observed = data(lib, 6, 1, 1).cumsum(0)
    for z in observed:
        x, P = F @ x, F @ P @ F.t() + Q
        priors.append((x, P))
        S = H.mm(P).mm(H.t()) + R
        K = P @ H.T @ lib.inverse(S)
        x = x + K @ (z - H @ x)
        IKH = lib.eye(2) - K @ H
        P = IKH @ P @ IKH.T + K @ R @ K.T
        xs.append(x)
        Ps.append(P)
    smooth = [xs[-1]]
    for t in range(4, -1, -1):
        C = Ps[t] @ F.T @ lib.linalg.pinv(priors[t + 1][1])
        smooth.insert(0, xs[t] + C @ (smooth[0] - priors[t + 1][0]))
    particles, w = lib.linspace(-2, 2, 9), lib.full((9,), 1 / 9)
    means = []
    for z in observed.flatten():
        particles = particles + 0.1 * particles.sin()
        w = w * lib.exp(-0.5 * ((z - particles) / 0.8) ** 2)
        w /= w.sum()
        means.append(lib.dot(w, particles))
        if 1.0 / w.square().sum() < 4.5:
            index = lib.searchsorted(w.cumsum(0), (lib.arange(9) + 0.5) / 9).clamp_(max=8)
            particles, w = particles[index], lib.ones(9).div_(9)
    return [lib.stack(xs).squeeze(-1), P, K, lib.stack(smooth)[..., 0], lib.stack(means), particles, w]


def chains_and_fields(lib):
    """A hidden Markov model's sums in logarithms, Viterbi's path and Baum-Welch's counts; a conditional random field."""
    n, T = 3, 6
    A, B, pi = (data(lib, *s).log_softmax(-1) for s in ((n, n), (n, 4), (n,)))
    obs = lib.tensor([0, 3, 1, 1, 2, 0])

    def logmm(log_A, log_B):
        return lib.logsumexp(log_A.unsqueeze(-1) + log_B.unsqueeze(0), dim=1)

    alpha, beta = lib.zeros(T, n), lib.zeros(T, n)
    alpha[0] = pi + B[:, obs[0]]
    for t in range(1, T):
        alpha[t] = B[:, obs[t]] + logmm(alpha[t - 1].unsqueeze(0), A).squeeze(0)
    for t in range(T - 2, -1, -1):
        beta[t] = lib.logsumexp(A + (B[:, obs[t + 1]] + beta[t + 1])[None, :], 1)
    gamma = (alpha + beta).softmax(-1)
    xi = lib.stack([(alpha[t, :, None] + A + B[:, obs[t + 1]] + beta[t + 1]).flatten().softmax(0).view(n, n) for t in range(T - 1)])
    new_b = lib.zeros(n, 4).index_add_(1, obs, gamma.t()) / gamma.sum(0)[:, None]
    delta, back = pi + B[:, obs[0]], []
    for t in range(1, T):
        delta, psi = lib.max(delta.view(-1, 1) + A, dim=0)
        delta = delta + B[:, obs[t]]
        back.append(psi)
    path = [delta.argmax().item()]
    for psi in reversed(back):
        path.insert(0, psi[path[0]].item())

    class CRF(lib.nn.Module):
        def __init__(self, tags):
            super().__init__()
            self.start, self.end, self.trans = (lib.nn.Parameter(data(lib, *s)) for s in ((tags,), (tags,), (tags, tags)))

        def forward(self, emissions, tags, mask):
            length, batch = tags.shape
            rows = lib.arange(batch)
            score = self.start[tags[0]] + emissions[0, rows, tags[0]]
            total = self.start + emissions[0]
            for i in range(1, length):
                score = score + (self.trans[tags[i - 1], tags[i]] + emissions[i, rows, tags[i]]) * mask[i]
                following = lib.logsumexp(total.unsqueeze(2) + self.trans + emissions[i].unsqueeze(1), dim=1)
                total = lib.where(mask[i].unsqueeze(1), following, total)
            last = tags[mask.long().sum(dim=0) - 1, rows]
            return (score + self.end[last] - lib.logsumexp(total + self.end, dim=1)).sum()

        def decode(self, emissions, mask):
            score, history = self.start + emissions[0], []
            for i in range(1, len(mask)):
                best, index = (score.unsqueeze(2) + self.trans + emissions[i].unsqueeze(1)).max(dim=1)
                score = lib.where(mask[i].unsqueeze(1), best, score)
                history.append(index)
            score, ends, found = score + self.end, mask.long().sum(dim=0) - 1, []
            for b in range(mask.size(1)):
                _, tag = score[b].max(dim=0)
                tags = [tag.item()]
                for hist in reversed(history[: ends[b]]):
                    tags.append(hist[b][tags[-1]].item())
                found.append(tags[::-1])
            return found

    crf = CRF(4)
    em, tags = data(lib, 5, 2, 4, requires_grad=True), lib.tensor([[0, 1, 2, 3, 0], [3, 3, 1, 0, 0]]).t()
    mask = lib.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=lib.bool).t()
    llh = crf(em, tags, mask)
    (-llh).backward()
    return [lib.logsumexp(alpha[-1], 0), beta, gamma, xi.sum(0), new_b, path, llh, em.grad, crf.trans.grad, crf.decode(em, mask)]


def clusters_and_components(lib):
    x = lib.cat([data(lib, 8, 3, seed=s) * 0.3 + s for s in range(3)])

    def kmeans(x, k, iters=5):
        c = x[lib.linspace(0, len(x) - 1, k).long()].clone()
        for _ in range(iters):
            assign = ((x[:, None] - c[None]) ** 2).sum(-1).argmin(1).view(-1)
            c.zero_()
            c.scatter_add_(0, assign[:, None].repeat(1, x.size(1)), x)
            c /= lib.bincount(assign, minlength=k).type_as(c).view(k, 1).clamp_min(1)
        return assign, c

    assign, centers = kmeans(x, 3)
    centred = x - x.mean(dim=0, keepdim=True)
    U, S, Vh = lib.linalg.svd(centred, full_matrices=False)
    u, s, v = lib.svd_lowrank(centred, q=3, niter=4)
    pca = lib.pca_lowrank(x, q=3, center=True)
    projected = (centred @ Vh.mH[:, :2]).abs()
    cov = lib.cov(x.T)
    values, vectors = lib.linalg.eigh(cov)
    white = centred @ (vectors * values.rsqrt()) @ vectors.T
    pi, mu, var = lib.full((3,), 1 / 3), centers.clone(), lib.ones(3, 3)
    for _ in range(4):  # expectation, maximisation
        logp = -0.5 * (((x[:, None] - mu) ** 2 / var).sum(-1) + var.log().sum(-1)) + pi.log()
        resp = lib.softmax(logp, dim=1)
        nk = resp.sum(0)
        pi, mu = nk / len(x), (resp.T @ x) / nk[:, None]
        var = (resp.T @ x**2) / nk[:, None] - mu**2 + 1e-6
    d = lib.pdist(x[:6])
    square = lib.zeros(6, 6)
    i, j = lib.triu_indices(6, 6, offset=1)
    square[i, j] = d
    square = square + square.T
    q1 = lib.quantile(x, lib.tensor([0.25, 0.5]), dim=0, interpolation="midpoint")
    ridge = lib.linalg.lstsq(lib.cat([x, 0.1 * lib.eye(3)]), lib.cat([x[:, :1] ** 2, lib.zeros(3, 1)])).solution
    mds = -0.5 * (square**2 - (square**2).mean(0) - (square**2).mean(1, keepdim=True) + (square**2).mean())
    sk = lib.exp(-square / 0.5)
    a = b = lib.full((6,), 1 / 6)
    f = lib.ones(6)
    for _ in range(20):  # Sinkhorn's iterations
        g = b / (sk.t() @ f)
        f = a / (sk @ g)
    plan = f[:, None] * sk * g[None]
    h = lib.eye(6) - 1 / 6
    hsic = lib.trace(sk @ h @ (square @ square) @ h) / 25
    ranks = x.argsort(0).argsort(0)
    spearman = lib.corrcoef(ranks.T.float())
    mmd = sk[:3, :3].mean() + sk[3:, 3:].mean() - 2 * sk[:3, 3:].mean()
    z = (x - x.median(0).values) / (x - x.median(0).values).abs().median(0)[0]
    return [assign, centers, S, s, pca[1], lib.dist((u * s) @ v.T, centred) < 1e-3, projected, cov, values, white, resp, mu, var, square, q1, ridge, lib.linalg.eigvalsh(mds), plan, hsic, spearman, mmd, z, lib.mode(assign).values]


def spectra_and_sounds(lib):
    """STFT and its inverse, Griffin and Lim's phases, Mel's filters, convolutions by FFT, and windows."""
    n_fft, hop = 32, 8
    t = lib.arange(200) / 100.0
    wave = lib.sin(2 * math.pi * 5 * t) + 0.5 * lib.cos(2 * math.pi * 12 * t)
    window = lib.hann_window(n_fft)
    spec = lib.stft(wave, n_fft, hop_length=hop, window=window, center=True, pad_mode="reflect", return_complex=True)
    back = lib.istft(spec, n_fft, hop_length=hop, window=window, length=200)
    mag, angles = spec.abs(), lib.exp(2j * math.pi * lib.zeros(spec.shape))
    previous = lib.tensor(0.0)
    for _ in range(4):
        inverse = lib.istft(mag * angles, n_fft, hop, window=window, length=200)
        rebuilt = lib.stft(inverse, n_fft, hop, window=window, return_complex=True)
        angles = rebuilt - previous * (0.9 / 1.9)
        angles = angles.div(angles.abs().add(1e-8))
        previous = rebuilt
    griffin = lib.istft(mag * angles, n_fft, hop, window=window, length=200)

    def mel_filters(n_freqs, n_mels, sr):
        freqs = lib.linspace(0, sr // 2, n_freqs)
        m = lib.linspace(0.0, 2595.0 * math.log10(1.0 + sr / 2 / 700.0), n_mels + 2)
        pts = 700.0 * (10 ** (m / 2595.0) - 1.0)
        diff = pts[1:] - pts[:-1]
        slopes = pts.unsqueeze(0) - freqs.unsqueeze(1)
        zero = lib.zeros(1)
        return lib.max(zero, lib.min((-1.0 * slopes[:, :-2]) / diff[:-1], slopes[:, 2:] / diff[1:]))

    fb = mel_filters(n_fft // 2 + 1, 6, 100)
    mel = lib.matmul(spec.abs().pow(2.0).transpose(-1, -2), fb).transpose(-1, -2)
    db = 10.0 * lib.log10(lib.clamp(mel, min=1e-2))
    db = lib.max(db, db.max() - 80.0)
    n = lib.arange(6.0)
    dct = lib.cos(math.pi / 6 * (n + 0.5) * n.unsqueeze(1))
    dct[0] *= 1.0 / math.sqrt(2.0)
    mfcc = dct.mul(math.sqrt(2.0 / 6)) @ db
    kernel = data(lib, 7)
    size = 200 + 7 - 1
    by_fft = lib.fft.irfft(lib.fft.rfft(wave, n=size) * lib.fft.rfft(kernel, n=size), n=size)
    direct = lib.nn.functional.conv1d(wave[None, None], kernel.flip(0)[None, None], padding=6).squeeze()
    shifted = lib.fft.fftshift(lib.fft.fft2(data(lib, 6, 8)))
    low = lib.fft.ifft2(lib.fft.ifftshift(shifted * (lib.arange(8) - 4).abs().le(2))).real
    envelope = lib.fft.ifft(lib.fft.fft(wave) * lib.cat([lib.ones(1), 2 * lib.ones(99), lib.ones(1), lib.zeros(99)])).abs()
    frames = wave.unfold(0, n_fft, hop) * window
    phase = lib.diff(lib.angle(spec), dim=-1)
    phase = phase - 2 * math.pi * lib.round(phase / (2 * math.pi))
    mu = lib.tensor(255.0)
    law = lib.sign(wave / 2) * lib.log1p(mu * lib.abs(wave / 2)) / lib.log1p(mu)
    code = ((law + 1) / 2 * mu + 0.5).to(lib.int64)
    decoded = (code / mu) * 2 - 1
    decoded = lib.sign(decoded) * (lib.exp(lib.abs(decoded) * lib.log1p(mu)) - 1.0) / mu
    pre = lib.cat([wave[:1], wave[1:] - 0.97 * wave[:-1]])
    windows = [lib.hamming_window(8), lib.blackman_window(8, periodic=False), lib.kaiser_window(8, True, 12.0), lib.bartlett_window(5), lib.signal.windows.cosine(6), lib.signal.windows.gaussian(6, std=2.0)]
    sinc = lib.sinc((lib.arange(9.0) - 4) / 2) * lib.hann_window(9, periodic=False)
    snr = 10 * lib.log10((wave**2).sum() / ((wave - back) ** 2).sum().clamp_min(1e-6))
    x = wave.clone().requires_grad_()
    lib.stft(x, n_fft, hop, window=window, return_complex=True).abs().pow(2).mean().backward()
    fno = lib.fft.rfft(data(lib, 2, 3, 16))
    mixed = lib.zeros(2, 4, 9, dtype=lib.cfloat)
    weights = lib.complex(data(lib, 3, 4, 5), data(lib, 3, 4, 5, seed=1))
    mixed[:, :, :5] = lib.einsum("bix,iox->box", fno[:, :, :5], weights)
    return [spec, back, griffin, fb, mel, db, mfcc, by_fft - direct, shifted, low, envelope, frames, (phase.abs() < 4).contiguous(), code, decoded, pre, windows, sinc, snr > 40, x.grad, lib.fft.irfft(mixed, n=16), lib.view_as_real(spec).shape, spec.is_complex()]


def simulations(lib):
    """Heat and waves on grids, n bodies, a spring that is fitted, Game of Life, mazes of walks, Mandelbrot."""
    F = lib.nn.functional
    u = lib.zeros(1, 1, 8, 8)
    u[..., 3:5, 3:5] = 1
    lap = lib.tensor([[0.05, 0.2, 0.05], [0.2, -1.0, 0.2], [0.05, 0.2, 0.05]]).view(1, 1, 3, 3)
    v = 1 - u
    for _ in range(5):  # Gray and Scott's reaction
        uvv = u * v * v
        u = u + (0.16 * F.conv2d(F.pad(u, (1, 1, 1, 1), "circular"), lap) - uvv + 0.035 * (1 - u))
        v = v + (0.08 * F.conv2d(F.pad(v, (1, 1, 1, 1), "circular"), lap) + uvv - 0.095 * v)
    life = lib.tensor([[0, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]], dtype=lib.uint8)
    for _ in range(3):
        near = sum(lib.roll(life, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        life = ((near == 3) | ((life == 1) & (near == 2))).to(lib.uint8)
    pos, vel = data(lib, 4, 2), lib.zeros(4, 2)
    for _ in range(4):
        diff = pos.unsqueeze(0) - pos.unsqueeze(1)
        inv = (diff.square().sum(-1) + 0.1).pow(-1.5)
        inv.fill_diagonal_(0)
        vel.add_((diff * inv.unsqueeze(-1)).sum(1), alpha=0.05)
        pos.addcmul_(vel, lib.tensor(0.1))
    k = lib.tensor(1.0, requires_grad=True)
    x, speed, path = lib.tensor(1.0), lib.tensor(0.0), []
    for _ in range(10):
        speed = speed - 0.1 * k * x
        x = x + 0.1 * speed
        path.append(x)
    (lib.stack(path) - lib.cos(lib.arange(1, 11) * 0.1 * 2)).square().sum().backward()
    yy, xx = lib.meshgrid(lib.linspace(-1.2, 1.2, 7), lib.linspace(-2, 0.6, 9), indexing="ij")
    c = lib.complex(xx, yy)
    z, count = lib.zeros_like(c), lib.zeros(c.shape, dtype=lib.int16)
    for _ in range(10):
        z = lib.where(z.abs() < 2, z * z + c, z)
        count += (z.abs() < 2).to(count.dtype)
    xs = lib.linspace(-1, 1, 6, requires_grad=True)
    net = filled(lib, lib.nn.Sequential(lib.nn.Linear(1, 6), lib.nn.Tanh(), lib.nn.Linear(6, 1)))
    y = net(xs[:, None])
    dy = lib.autograd.grad(y, xs, lib.ones_like(y), create_graph=True)[0]
    ddy = lib.autograd.grad(dy, xs, lib.ones_like(dy), create_graph=True)[0]
    pinn = (ddy + y.squeeze(1)).pow(2).mean() + (y[0] - 1).pow(2).sum()
    pinn.backward()
    rng = lib.Generator().manual_seed(5)
    inside = lib.rand(10, 2, generator=rng).square().sum(1).le(1).float().mean() * 4
    tri = lib.tensor([[0.0, 0], [1, 0], [0, 1]])
    bary = lib.linalg.solve(lib.cat([tri.T, lib.ones(1, 3)]), lib.tensor([0.2, 0.3, 1.0]))
    quat = F.normalize(data(lib, 4), dim=0)
    w, i, j, kk = quat.unbind()
    rot = lib.stack([1 - 2 * (j * j + kk * kk), 2 * (i * j - kk * w), 2 * (i * kk + j * w), 2 * (i * j + kk * w), 1 - 2 * (i * i + kk * kk), 2 * (j * kk - i * w), 2 * (i * kk - j * w), 2 * (j * kk + i * w), 1 - 2 * (i * i + j * j)]).view(3, 3)
    poly = lib.stack([lib.ones(5), *[lib.linspace(-1, 1, 5) ** p for p in (1, 2)]], 1)
    coef = lib.linalg.lstsq(poly, lib.linspace(-1, 1, 5).exp()[:, None])[0]
    return [u, v, life, pos, vel, k.grad, count, pinn, net[0].weight.grad, inside.dtype, bary, rot @ rot.T, lib.det(rot), coef, lib.vander(lib.tensor([1, 2, 3])), lib.cumulative_trapezoid(xs.detach() ** 2, xs.detach()), lib.heaviside(xs.detach(), lib.tensor(0.5))]


def tensors_as_networks(lib):
    """Einstein's sums, trains of tensors, Kronecker's products, and products in chains."""
    a, b, c = data(lib, 2, 3), data(lib, 3, 4), data(lib, 4, 2)
    cores = [data(lib, 1, 2, 3), data(lib, 3, 2, 2), data(lib, 2, 2, 1)]
    train = cores[0]
    for core in cores[1:]:
        train = lib.tensordot(train, core, dims=([-1], [0]))
    full = train.squeeze(0).squeeze(-1)
    rest, found = full.reshape(2, -1), []
    for n in (2, 2):
        U, S, V = lib.linalg.svd(rest, full_matrices=False)
        found.append(S)
        rest = (S.diag_embed() @ V).reshape(S.numel() * n, -1)
    sums = [lib.einsum(e, *ops) for e, ops in (("ij,jk,ki->", (a, b, c)), ("ij,jk->ik", (a, b)), ("ii->i", (data(lib, 3, 3),)), ("bhid,bhjd->bhij", (data(lib, 2, 2, 3, 4), data(lib, 2, 2, 5, 4))),
                                                       ("...ij,...j->...i", (data(lib, 2, 3, 4), data(lib, 2, 4))), ("i,j->ij", (a[0], b[0])), ("bn,anm,bm->ba", (data(lib, 2, 3), data(lib, 5, 3, 4), data(lib, 2, 4))))]  # fmt: skip
    blocks = lib.block_diag(a, b[:1], c)
    kron = lib.kron(a, lib.eye(2))
    chain = lib.linalg.multi_dot([a, b, c]), lib.chain_matmul(a, b, c)
    batch = lib.baddbmm(lib.ones(2, 3, 2), data(lib, 2, 3, 4), data(lib, 2, 4, 2), beta=0.5, alpha=2), lib.addmm(lib.ones(2), a, b[:, :2]), lib.addr(a, a[:, 0], b[:, 0]), lib.bmm(data(lib, 2, 3, 4), data(lib, 2, 4, 1))
    outer = lib.outer(a[0], a[1]), lib.ger(a[0], a[1]), lib.inner(a, a), lib.vdot(a[0], a[1]), lib.matrix_exp(data(lib, 3, 3) * 0.1)
    khatri = (a.t()[:, None, :] * b[:, :2][None]).reshape(-1, 2)
    toeplitz = a.flatten()[(lib.arange(3)[:, None] - lib.arange(3)[None]) % 6]
    hankel = lib.arange(5.0).unfold(0, 3, 1)
    shift = lib.as_strided(a, (2, 2, 2), (3, 1, 1), 0)
    q, r = lib.linalg.qr(data(lib, 4, 3))
    hadamard = lib.ones(1, 1)
    for _ in range(3):
        hadamard = lib.cat([lib.cat([hadamard, hadamard], 1), lib.cat([hadamard, -hadamard], 1)], 0)
    givens = lib.eye(3)
    givens[[0, 0, 2, 2], [0, 2, 0, 2]] = lib.tensor([0.6, -0.8, 0.8, 0.6])
    return [full, found, sums, blocks, kron, chain, batch, outer, khatri, toeplitz, hankel, shift, q @ r, r.abs(), hadamard @ data(lib, 8), givens @ data(lib, 3, 3), lib.tensordot(a, b, 1), lib.cartesian_prod(lib.arange(2), lib.arange(2)), a.T.contiguous().view(-1), a.movedim(0, -1).stride()]


# What is solved or decomposed is row-major here, and column-major as LAPACK has it there.
ANY_STRIDES = (gaussian_processes, clusters_and_components, simulations, tensors_as_networks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", programs_in(globals()), ids=lambda f: f.__name__)
def test_both_compute_the_same(program):
    same(program(fl), program(torch), program.__name__, rtol=3e-4, atol=3e-5, strides=program not in ANY_STRIDES)


