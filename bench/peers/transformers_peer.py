# SPDX-License-Identifier: Apache-2.0
"""Peer: Hugging Face transformers in f32, one ticket after the other over a kept prefix cache."""

import pathlib
import time

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

import workload as w

PEER = "transformers"


class Scorer:
    """The model, the prefix's KV and the labels' first tokens."""

    def __init__(self, model_file, prefix, labels):
        path = pathlib.Path(model_file)
        source = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
        self.tokenizer = AutoTokenizer.from_pretrained(**source)
        self.model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
        self.prefix = self.encode(prefix)
        self.labels = sorted(set(labels))
        self.first = [int(self.encode(label)[0, 0]) for label in self.labels]
        self.cache = DynamicCache(config=self.model.config)
        self.model(self.prefix, cache=self.cache, use_cache=True)

    def encode(self, text):
        return self.tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids

    def best_label(self, output):
        return self.labels[int(torch.argmax(output.logits[0, -1][self.first]))]

    def full(self, suffix):
        tokens = torch.cat([self.prefix, self.encode(suffix)], dim=1)
        return self.best_label(self.model(tokens, use_cache=False, logits_to_keep=1))

    def cached(self, suffix):
        tokens = self.encode(suffix)
        output = self.model(tokens, cache=self.cache, use_cache=True, logits_to_keep=1)
        self.cache.crop(-tokens.shape[1])
        return self.best_label(output)


@torch.inference_mode()
def main():
    options = w.arguments(__doc__).parse_args()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    load = w.Workload(options.prefix, options.tickets)
    scorer = Scorer(options.model, load.prefix, load.labels)
    for mode in ["full", "cached"] if options.full else ["cached"]:
        score = getattr(scorer, mode)
        for suffix in load.warm_up[:3]:
            score(suffix)
        start = time.perf_counter()
        answers = [score(suffix) for suffix in load.suffixes]
        seconds = time.perf_counter() - start
        w.report(PEER, transformers.__version__, mode, "f32", seconds, load, answers)


if __name__ == "__main__":
    main()
