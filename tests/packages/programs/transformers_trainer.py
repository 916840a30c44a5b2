"""transformers: a GPT-2 trained by Trainer, saved with save_pretrained and loaded again."""
import json
import tempfile

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

transformers.logging.set_verbosity_error()


class Counting(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.arange(i, i + 16) % 50
        return {'input_ids': ids, 'labels': ids}


model = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=32, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0))
with torch.no_grad():
    for i, (key, p) in enumerate(sorted(model.named_parameters())):
        if p.ndim > 1:
            p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float64) * 1.37 + i).view(p.shape) * 0.1)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(output_dir=folder, num_train_epochs=3, per_device_train_batch_size=8, learning_rate=5e-4, logging_steps=1, save_strategy='no',
                                  report_to=[], use_cpu=True, disable_tqdm=True, lr_scheduler_type='linear', weight_decay=0.01, max_grad_norm=1.0,
                                  train_sampling_strategy='sequential')
    trainer = Trainer(model=model, args=arguments, train_dataset=Counting(), eval_dataset=Counting())
    trainer.train()
    losses = [entry['loss'] for entry in trainer.state.log_history if 'loss' in entry]
    evaluated = trainer.evaluate()['eval_loss']
    model.save_pretrained(folder)
    again = GPT2LMHeadModel.from_pretrained(folder)
same = all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values()))
print(json.dumps({'losses': losses, 'evaluated': evaluated, 'same': same}))
