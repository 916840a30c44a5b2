"""sentence-transformers: a model from modules with a tokenizer in memory, losses, similarity, training, evaluation, saving, pairs."""
import json
import os
import tempfile
import warnings

import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer, evaluation, losses, models, util
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

warnings.simplefilter('ignore')
transformers.logging.set_verbosity_error()
WORDS = ['[PAD]', '[CLS]', '[SEP]', '[UNK]', '[MASK]', *'a cat dog sat ran on the mat road red blue big small fast slow and or of in to'.split()]


def fix(model, scale=0.3):
    with torch.no_grad():
        for i, (name, p) in enumerate(sorted(model.named_parameters())):
            if p.ndim > 1 or 'linear' in name:
                p.copy_((torch.sin(torch.arange(p.numel()).double() * (1.37 + 0.01 * i) + i) * scale).view(p.shape))
    return model


def make(folder):
    raw = Tokenizer(WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token='[UNK]'))
    raw.pre_tokenizer = Whitespace()
    raw.post_processor = TemplateProcessing(single='[CLS] $A [SEP]', pair='[CLS] $A [SEP] $B:1 [SEP]:1', special_tokens=[('[CLS]', 1), ('[SEP]', 2)])
    PreTrainedTokenizerFast(tokenizer_object=raw, pad_token='[PAD]', cls_token='[CLS]', sep_token='[SEP]', unk_token='[UNK]', mask_token='[MASK]').save_pretrained(folder)
    config = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, vocab_size=len(WORDS), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    fix(BertModel(config)).save_pretrained(folder)
    transformer = models.Transformer(folder, max_seq_length=16)
    model = SentenceTransformer(modules=[transformer, models.Pooling(32, pooling_mode='mean'), models.Dense(32, 16), models.Normalize()], device='cpu')
    fix(model[2])
    return model


sentences = ['the cat sat on the mat', 'a dog ran on the road', 'big red cat', 'small blue dog and cat', 'fast dog', 'the slow cat ran to the mat in the road', 'red or blue', 'dog of the road']
out = {}
with tempfile.TemporaryDirectory() as folder:
    model = make(folder)
    vectors = model.encode(sentences, convert_to_tensor=True, batch_size=3)
    out['vectors'] = vectors.double().abs().sum(1).tolist()
    out['similar'] = model.similarity(vectors, vectors)[0].tolist()
    out['pairwise'] = model.similarity_pairwise(vectors[:4], vectors[4:]).tolist()
    out['search'] = [[(h['corpus_id'], h['score']) for h in hits] for hits in util.semantic_search(vectors[:2], vectors, top_k=3)]
    out['communities'] = util.community_detection(vectors, threshold=0.9, min_community_size=2)
    out['mining'] = util.paraphrase_mining_embeddings(vectors, top_k=2)[:4]
    out['quantized'] = __import__('sentence_transformers').quantize_embeddings(vectors.numpy(), 'ubinary').tolist()
    given = [model.tokenize(sentences[:4]), model.tokenize(sentences[4:])]
    triple = [*given, model.tokenize(sentences[2:6])]
    scores, classes = torch.tensor([0.1, 0.9, 0.4, 0.6]), torch.tensor([0, 1, 0, 1])
    for loss, inputs, labels in (
        (losses.CosineSimilarityLoss(model), given, scores), (losses.MultipleNegativesRankingLoss(model), given, None), (losses.ContrastiveLoss(model), given, classes),
        (losses.OnlineContrastiveLoss(model), given, classes), (losses.CoSENTLoss(model), given, scores), (losses.AnglELoss(model), given, scores), (losses.TripletLoss(model), triple, None),
        (losses.BatchAllTripletLoss(model), given[:1], classes), (losses.BatchHardTripletLoss(model), given[:1], classes), (losses.BatchSemiHardTripletLoss(model), given[:1], classes),
        (losses.MultipleNegativesSymmetricRankingLoss(model), given, None), (losses.GISTEmbedLoss(model, model), given, None), (losses.MegaBatchMarginLoss(model, use_mini_batched_version=False), given, None),
        (losses.MatryoshkaLoss(model, losses.CoSENTLoss(model), [16, 8, 4]), given, scores), (losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=2), given, None),
        (losses.MarginMSELoss(model), triple, scores), (losses.MSELoss(model), given[:1], vectors[:4].clone() * 0.5)):  # fmt: skip
        model.zero_grad()
        value = loss([dict(g) for g in inputs], labels)
        value.backward()
        out[type(loss).__name__] = [value.item(), model[0].auto_model.embeddings.word_embeddings.weight.grad.abs().sum().item()]
    check = evaluation.EmbeddingSimilarityEvaluator(sentences[:4], sentences[4:], [0.1, 0.9, 0.4, 0.6])
    objective, optimizer = losses.CoSENTLoss(model), torch.optim.AdamW(model.parameters(), 5e-3)
    for _ in range(4):
        value = objective([dict(g) for g in given], scores)
        value.backward()
        optimizer.step(), optimizer.zero_grad()
        out.setdefault('training', []).append(value.item())
    out['evaluated'] = check(model)
    model.save(os.path.join(folder, 'saved'))
    again = SentenceTransformer(os.path.join(folder, 'saved'), device='cpu')
    out['same'] = bool(torch.equal(again.encode(sentences, convert_to_tensor=True), model.encode(sentences, convert_to_tensor=True)))
    cross = CrossEncoder(folder, num_labels=1, device='cpu')
    fix(cross.model)
    out['cross'] = cross.predict(list(zip(sentences[:4], sentences[4:]))).tolist()
    out['ranked'] = [r['corpus_id'] for r in cross.rank(sentences[0], sentences[1:])]
print(json.dumps(out, default=float))
