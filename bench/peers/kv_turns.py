#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Throughput beside llama-server: 64 requests at once, in turn to 4 new prefixes of 500 tokens,
each with 20 new tokens and an answer of 20.

llama-server runs with each of several settings, and its best one counts. `incipit bench kv --only
turns` runs right before it, in each precision. Exit code 1: the peer is not set up or failed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time
import urllib.request

import llama_server_peer
import places

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PREFIXES, PREFIX_TOKENS, REQUESTS, NEW_TOKENS, ANSWER_TOKENS = 4, 500, 64, 20, 20
CONTEXT = 12288
KEEP = ("--cache-ram", "2048")
SETTINGS = {
    "4 slots": (4, KEEP),
    "8 slots, unified cache": (8, ("--kv-unified", *KEEP)),
    "16 slots, unified cache": (16, ("--kv-unified", *KEEP)),
    "16 slots, unified cache, flash attention": (16, ("--kv-unified", "-fa", "on", *KEEP)),
}


def some_tokens(seed, count):
    numbers = random.Random(seed)
    return [numbers.randrange(1000, 21000) for _ in range(count)]


def answer(address, index):
    body = {"prompt": some_tokens(index % PREFIXES, PREFIX_TOKENS) +
                      some_tokens(500 + index, NEW_TOKENS),
            "n_predict": ANSWER_TOKENS, "temperature": 0, "ignore_eos": True,
            "cache_prompt": True}
    request = urllib.request.Request(f"{address}/completion", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)["tokens_predicted"]


def time_peer(options, slots, flags):
    """Requests per second of a fresh server."""
    with llama_server_peer.server(options, slots, CONTEXT, flags) as address:
        warm_up = {"prompt": some_tokens(99, 64), "n_predict": 2}
        urllib.request.urlopen(urllib.request.Request(
            f"{address}/completion", json.dumps(warm_up).encode(),
            {"Content-Type": "application/json"}), timeout=120).read()
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(REQUESTS) as pool:
            written = sum(pool.map(lambda index: answer(address, index), range(REQUESTS)))
        seconds = time.perf_counter() - start
    if written != REQUESTS * ANSWER_TOKENS:
        raise RuntimeError(f"llama-server wrote {written} tokens, not all")
    return REQUESTS / seconds


def time_ours(program, precision):
    """Answer tokens per second over the answers' length: a text that ended early counts less."""
    done = subprocess.run([program, "bench", "kv", "--only", "turns", "-q", "--precision",
                           precision], capture_output=True, text=True, check=False)
    found = re.search(r": (\d+) ms, .*; (\d+) answer tokens of (\d+)", done.stdout)
    if done.returncode != 0 or not found:
        sys.exit(f"{program} bench kv ended with {done.returncode}: {done.stderr.strip()}")
    ms, written, wanted = map(int, found.groups())
    assert wanted == REQUESTS * ANSWER_TOKENS
    return written / ANSWER_TOKENS / ms * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default=str(ROOT / "build" / "incipit"))
    parser.add_argument("--precisions", nargs="+", choices=["bf16", "f32"],
                        default=["bf16", "f32"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    options.server = places.llama_build() / "bin" / "llama-server"
    options.model = places.model_of("llama-server")
    if not places.ready_stamp("llama-server").exists():
        print("llama-server is not set up (bench/peers/setup.py --peers llama-server)")
        return 1
    ours = {precision: time_ours(options.ours, precision) for precision in options.precisions}
    for precision, rate in ours.items():
        print(f"incipit, {precision}: {rate:.2f} requests/s")
    best = 0.0
    for name, (slots, flags) in SETTINGS.items():
        try:
            rate = time_peer(options, slots, flags)
        except (RuntimeError, OSError) as error:
            print(f"llama-server Q4_0, {name}: failed: {error}")
            continue
        best = max(best, rate)
        print(f"llama-server Q4_0, {name}: {rate:.2f} requests/s", flush=True)
    if best == 0:
        return 1
    for precision, rate in ours.items():
        print(f"incipit {precision} against its best: {rate / best:.1f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
