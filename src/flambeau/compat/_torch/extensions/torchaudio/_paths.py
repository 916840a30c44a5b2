"""Paths through grids of labels and times: the best one of CTC, and all of a transducer."""

from __future__ import annotations

import numpy as np

import flambeau as fl
from flambeau._C import Tensor


def forced_align(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The most probable path of CTC that says `targets` (Viterbi), and the log probabilities as they are given.

    Shape: log_probs [1, T, C], targets [1, L], results [1, T] and [1, T, C].
    """
    if log_probs.dim() != 3 or targets.dim() != 2 or log_probs.shape[0] != 1 or targets.shape[0] != 1:
        given = f"log_probs {list(log_probs.shape)} and targets {list(targets.shape)}"
        raise ValueError(f"forced_align: {given}; expected [1, T, C] and [1, L]")
    scores, labels = log_probs.detach().double().numpy()[0, : int(input_lengths[0])], targets.numpy()[0, : int(target_lengths[0])]
    if log_probs.shape[1] != int(input_lengths[0]) or targets.shape[1] != int(target_lengths[0]):
        raise ValueError("forced_align: the lengths are not those of log_probs and targets; expected a batch of one without padding")
    repeats = int((labels[1:] == labels[:-1]).sum())
    steps, states = len(scores), 2 * len(labels) + 1
    if steps < len(labels) + repeats:
        found = f"log_probs length: {steps}, targets length: {len(labels)}, and number of repeats: {repeats}"
        raise ValueError(f"targets length is too long for CTC. Found {found}")
    said = np.full(states, blank, dtype=labels.dtype)
    said[1::2] = labels
    may_skip = np.zeros(states, dtype=bool)  # from two states before: to a label, from another one
    may_skip[3::2] = labels[1:] != labels[:-1]
    best = np.full(states, -np.inf)
    best[:2] = scores[0, said[:2]]
    came = np.zeros((steps, states), dtype=np.int64)
    for t in range(1, steps):
        ways = np.full((3, states), -np.inf)
        ways[0], ways[1, 1:] = best, best[:-1]
        ways[2, 2:] = np.where(may_skip[2:], best[:-2], -np.inf)
        came[t] = ways.argmax(0)
        best = ways.max(0) + scores[t, said]
    state = states - 1 if states == 1 or best[-1] > best[-2] else states - 2
    path = np.zeros((1, steps), dtype=labels.dtype)
    for t in range(steps - 1, -1, -1):
        path[0, t] = said[state]
        state -= came[t, state]
    return fl.from_numpy(path), log_probs.clone()


def rnnt_loss_forward(
    logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor, blank: int, clamp: float, fused_log_softmax: bool
) -> tuple[Tensor, Tensor]:
    """Minus the log probability of all paths of a transducer that say `targets`, and its gradient by the logits.

    Gradients are kept within -clamp to clamp where that is > 0.

    Source: Graves 2012, Sequence Transduction with Recurrent Neural Networks.

    Shape: logits [B, T, U + 1, C], targets [B, U], lengths [B], results [B] and as logits.
    """
    x = logits.detach().double().numpy()
    blank = blank % x.shape[-1]
    if fused_log_softmax:
        shifted = x - x.max(-1, keepdims=True)
        x = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    costs, gradients = np.zeros(len(x)), np.zeros_like(x)
    for b, (steps, count) in enumerate(zip(logit_lengths.tolist(), target_lengths.tolist())):
        log_p, labels = x[b, :steps, : count + 1], targets.numpy()[b, :count]
        stay = log_p[:, :, blank]
        say = log_p[:, np.arange(count), labels]  # [steps, count]
        alpha, beta = np.full((steps, count + 1), -np.inf), np.full((steps + 1, count + 2), -np.inf)
        alpha[0, 0], beta[steps, count] = 0.0, 0.0
        for t in range(steps):
            for u in range(count + 1):
                if t:
                    alpha[t, u] = np.logaddexp(alpha[t, u], alpha[t - 1, u] + stay[t - 1, u])
                if u:
                    alpha[t, u] = np.logaddexp(alpha[t, u], alpha[t, u - 1] + say[t, u - 1])
        for t in range(steps - 1, -1, -1):
            for u in range(count, -1, -1):
                by_label = beta[t, u + 1] + say[t, u] if u < count else -np.inf
                beta[t, u] = np.logaddexp(beta[t + 1, u] + stay[t, u], by_label)
        costs[b] = -beta[0, 0]
        by_log_p = np.zeros_like(log_p)  # minus the share of the paths that take the step
        by_log_p[:, :, blank] = -np.exp(alpha + stay + beta[1:, : count + 1] - beta[0, 0])
        at = np.arange(count)
        by_log_p[:, at, labels] -= np.exp(alpha[:, :count] + say + beta[:steps, 1 : count + 1] - beta[0, 0])
        if fused_log_softmax:
            by_log_p -= np.exp(log_p) * by_log_p.sum(-1, keepdims=True)
        gradients[b, :steps, : count + 1] = np.clip(by_log_p, -clamp, clamp) if clamp > 0 else by_log_p
    return fl.from_numpy(costs).to(logits.dtype), fl.from_numpy(gradients).to(logits.dtype)
