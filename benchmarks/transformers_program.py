"""One measurement of a language model of the package transformers, in a process of its own; `transformers_models.py` starts it.

It says `import torch`: PyTorch is measured by Python, flambeau by `flambeau run`. The task `save` makes a model of random weights and saves
it; the others load it, so that both libraries have the same one. What is printed last is JSON: seconds of each repetition, tokens of one,
and bytes.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers

SIZES: dict[str, dict[str, Any]] = {
    # 134 M parameters, those of the smallest Llama-like models that people run on processors
    "llama": {
        "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4,
        "vocab_size": 32000, "max_position_embeddings": 1024,
    },
    # 110 M parameters: bert-base-uncased
    "bert": {},
}  # fmt: skip
PROMPT, NEW, BATCH = 256, 32, 4  # tokens; sequences of a training step


KINDS = {
    "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig),
    "bert": (transformers.BertForMaskedLM, transformers.BertConfig),
}


def resident() -> int:
    """The most bytes of memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def timed(work: Callable[[], Any], seconds: float) -> list[float]:
    """Seconds of each call, after one that does not count, for that long and three times at least."""
    work()
    took: list[float] = []
    end = time.perf_counter() + seconds
    while len(took) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return took


def main() -> None:
    """Measures and prints."""
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=SIZES)
    p.add_argument("task", choices=("save", "first", "prompt", "generate", "train"))
    p.add_argument("folder", help="where the saved model lies")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seconds", type=float, default=5.0)
    chosen = p.parse_args()
    torch.set_num_threads(chosen.threads)
    model_class, config_class = KINDS[chosen.model]
    if chosen.task == "save":
        torch.manual_seed(0)
        model_class(config_class(**SIZES[chosen.model])).save_pretrained(chosen.folder)
        print("{}")
        return
    model = model_class.from_pretrained(chosen.folder, dtype=torch.float32).eval()
    ids = (torch.arange(BATCH * PROMPT) * 7919 % 30000 + 5).view(BATCH, PROMPT)
    one = ids[:1]
    if chosen.task != "first":  # weights of a mapped file are in memory when they have been read
        with torch.no_grad():
            for x in (*model.parameters(), *model.buffers()):
                float(x.sum())
    before = resident()
    tokens, took, said, peak = PROMPT, [], 0.0, 0
    if chosen.task == "train":
        tokens = ids.numel()
        model.train()
        for module in model.modules():  # the same numbers in both
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

        def step() -> None:
            nonlocal said
            optimizer.zero_grad()
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            said = said or loss.item()

        took = timed(step, chosen.seconds)
    else:
        with torch.no_grad():
            if chosen.task == "generate":
                tokens = NEW
                cache = model(input_ids=one, use_cache=True)
                start, past = cache.logits[:, -1:].argmax(-1), cache.past_key_values
                said = float(start)

                def generate() -> None:
                    token = start
                    for _ in range(NEW):
                        token = model(input_ids=token, past_key_values=past, use_cache=True).logits[:, -1:].argmax(-1)
                    past.crop(-NEW)

                took = timed(generate, chosen.seconds)
            elif chosen.task == "prompt":
                took = timed(lambda: model(input_ids=one), chosen.seconds)
                peak = resident()  # the mean of the logits in double precision takes more than the model
                said = float(model(input_ids=one).logits.double().mean())
            else:
                said = float(model(input_ids=one).logits[:, -1].argmax(-1))
    print(json.dumps({
        "took": took, "tokens": tokens, "before": before, "peak": peak or resident(), "at": time.monotonic(), "said": said,
        "version": torch.__version__, "transformers": transformers.__version__,
    }))  # fmt: skip


main()
