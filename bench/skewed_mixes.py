#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far `--calibrate batch` misleads when one label dominates a file.

usage: skewed_mixes.py [--incipit build/incipit] [--task FILE] [--tickets FILE] [--draws N]

Scores the labelled tickets once. Then, without the model, draws files of 60 rows in which one
label has a given share, subtracts the log of the mean label probability of each file, and prints
the accuracy with and without that, the mean over all labels and draws.
"""
import argparse
import json
import math
import random
import subprocess
import tempfile

ROWS = 60


def right(rows, bias):
    return sum(max(scores, key=lambda l: scores[l] - bias[l]) == gold for scores, gold in rows)


def batch_bias(rows):
    labels = rows[0][0]
    return {l: math.log(sum(math.exp(s[l]) for s, _ in rows) / len(rows)) for l in labels}


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--incipit", default="build/incipit")
    flags.add_argument("--task", default="examples/tickets/task.json")
    flags.add_argument("--tickets", default="examples/tickets/tickets.jsonl")
    flags.add_argument("--draws", type=int, default=200)
    given = flags.parse_args()
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as out:
        subprocess.run([given.incipit, "classify", "--task", given.task, given.tickets, "-q",
                        "--probabilities", "-o", out.name], check=True)
        scored = [json.loads(line) for line in open(out.name, encoding="utf-8")]
    golds = [json.loads(line)["label"] for line in open(given.tickets, encoding="utf-8")]
    by_label = {}
    for row, gold in zip(scored, golds):
        scores = {l: math.log(p) for l, p in row["probabilities"].items()}
        by_label.setdefault(gold, []).append((scores, gold))
    none = dict.fromkeys(by_label, 0.0)
    draw = random.Random(7)
    print("share of one label   plain   --calibrate batch")
    for share in (1 / len(by_label), 0.5, 0.7, 0.8, 0.9, 1.0):
        plain = batch = 0
        for label in by_label:
            others = [row for l, rows in by_label.items() if l != label for row in rows]
            for _ in range(given.draws):
                many = round(ROWS * share)
                rows = draw.choices(by_label[label], k=many) + draw.choices(others, k=ROWS - many)
                plain += right(rows, none)
                batch += right(rows, batch_bias(rows))
        total = ROWS * given.draws * len(by_label) / 100
        print(f"{share:17.0%} {plain / total:8.1f} % {batch / total:10.1f} %")


if __name__ == "__main__":
    main()
