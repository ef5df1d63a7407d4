# SPDX-License-Identifier: Apache-2.0
"""Peer: OpenVINO GenAI, continuous batching with prefix caching, tickets not seen before.

Its cache would answer a ticket that it has seen, so a process times each mode once.
"""

import time

import openvino_genai as genai

import workload as w

PEER = "openvino-genai"


def open_pipeline(options):
    scheduler = genai.SchedulerConfig()
    scheduler.enable_prefix_caching = not options.full
    scheduler.cache_size = 2  # GiB
    scheduler.max_num_batched_tokens = 4096
    scheduler.max_num_seqs = 64
    return genai.LLMPipeline(options.model, "CPU", scheduler_config=scheduler,
                             INFERENCE_PRECISION_HINT=options.precision,
                             INFERENCE_NUM_THREADS=options.threads)


def one_token():
    config = genai.GenerationConfig()
    config.max_new_tokens = 1
    config.do_sample = False
    config.apply_chat_template = False
    return config


def main():
    parser = w.arguments(__doc__)
    parser.add_argument("--precision", choices=["bf16", "f32"], required=True)
    options = parser.parse_args()
    load = w.Workload(options.prefix, options.tickets)
    pipeline, config = open_pipeline(options), one_token()
    pipeline.generate([load.prefix + suffix for suffix in load.warm_up[:1]], config)
    pipeline.generate([load.prefix + suffix for suffix in load.warm_up], config)
    start = time.perf_counter()
    prompts = [load.prefix + suffix for suffix in load.suffixes]
    answers = pipeline.generate(prompts, config).texts
    seconds = time.perf_counter() - start
    mode = "full batched" if options.full else "batched"
    w.report(PEER, genai.__version__, mode, options.precision, seconds, load, answers)


if __name__ == "__main__":
    main()
