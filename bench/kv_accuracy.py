#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What INT8 cells cost in accuracy, and what they save.

Sorts labelled texts twice, with bf16 cells and with INT8 cells by token, and compares the labels
text by text: the difference in accuracy with a 95 % interval from a paired bootstrap. The data is
a folder with test.csv (text,category), such as Banking77; its categories become the labels. The
result so far is printed after every few hundred texts, which come in a random order.
"""

import argparse
import csv
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESAMPLES = 10_000
KV_TYPES = ("bf16", "int8")
CELLS = "16384"  # Many labels make wide passes where there is room for them.
CHUNK = 440  # Texts that are sorted, and calibrated, in one run.


def task_of(labels):
    return {
        "instructions": "You sort the questions of a bank's customers. Answer with exactly one "
                        "of: {labels}.",
        "input": "Question: {text}",
        "labels": {label: {} for label in labels},
    }


def sort_texts(program, folder, rows, kv_type, precision):
    """The label of each text."""
    out = folder / f"{kv_type}.jsonl"
    done = subprocess.run(
        [program, "classify", "--task", folder / "task.json", folder / "texts.jsonl", "-o", out,
         "--kv-type", kv_type, "--precision", precision, "--ctx-size", CELLS,
         "--calibrate", "batch"], check=False)
    if done.returncode != 0:
        sys.exit(f"incipit classify --kv-type {kv_type} ended with {done.returncode}")
    labels = [json.loads(line)["label"] for line in out.read_text("utf-8").splitlines()]
    if len(labels) != len(rows):
        sys.exit(f"{len(labels)} labels of {len(rows)} texts")
    return labels


def cell_bytes(program, kv_type, precision):
    done = subprocess.run([program, "bench", "kv", "--only", "memory", "-q", "--kv-type", kv_type,
                           "--precision", precision, "--ctx-size", "1024"],
                          capture_output=True, text=True, check=True)
    return int(re.search(r"memory of a token: (\d+) bytes", done.stdout).group(1))


def interval(differences):
    """95 % of the means of paired resamples (Efron and Tibshirani 1993, percentile method)."""
    draw = random.Random(1)
    count = len(differences)
    means = [sum(draw.choices(differences, k=count)) / count for _ in range(RESAMPLES)]
    means.sort()
    return means[int(RESAMPLES * 0.025)], means[int(RESAMPLES * 0.975) - 1]


def sort_chunk(options, labels, rows):
    """The labels by kind of cells."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "task.json").write_text(json.dumps(task_of(labels)), "utf-8")
        (folder / "texts.jsonl").write_text(
            "".join(json.dumps({"text": text}) + "\n" for text, _ in rows), "utf-8")
        return {kv: sort_texts(options.ours, folder, rows, kv, options.precision)
                for kv in KV_TYPES}


def print_result(found, rows):
    right = {kv: [a == gold for a, (_, gold) in zip(found[kv], rows, strict=True)]
             for kv in KV_TYPES}
    differences = [int(b) - int(a) for a, b in zip(right["bf16"], right["int8"], strict=True)]
    low, high = interval(differences)
    same = sum(a == b for a, b in zip(found["bf16"], found["int8"], strict=True))
    share = {kv: 100 * sum(right[kv]) / len(rows) for kv in KV_TYPES}
    print(f"{len(rows)} texts: {share['bf16']:.2f} % right with bf16 cells, {share['int8']:.2f} % "
          f"with INT8; difference {100 * sum(differences) / len(rows):+.2f} points, 95 % interval "
          f"{100 * low:+.2f} to {100 * high:+.2f}; {same} labels equal", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder with test.csv")
    parser.add_argument("--limit", type=int, help="only so many texts, drawn with a fixed seed")
    parser.add_argument("--precision", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--ours", default=str(ROOT / "build" / "incipit"))
    options = parser.parse_args()
    with open(options.data / "test.csv", encoding="utf-8", newline="") as file:
        rows = [(row["text"], row["category"].replace("_", " ")) for row in csv.DictReader(file)]
    labels = sorted({label for _, label in rows})
    random.Random(1).shuffle(rows)
    rows = rows[:options.limit]
    size = {kv: cell_bytes(options.ours, kv, options.precision) for kv in KV_TYPES}
    print(f"memory of a token: {size['bf16']} bytes with bf16 cells, {size['int8']} with INT8 "
          f"({100 * size['int8'] / size['bf16']:.1f} %)", flush=True)
    found = {kv: [] for kv in KV_TYPES}
    for begin in range(0, len(rows), CHUNK):
        for kv, chosen in sort_chunk(options, labels, rows[begin:begin + CHUNK]).items():
            found[kv] += chosen
        print_result(found, rows[:begin + CHUNK])


if __name__ == "__main__":
    main()
