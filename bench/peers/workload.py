# SPDX-License-Identifier: Apache-2.0
"""What every peer gets: one prompt prefix, tickets, and the way an answer is counted.

The prefix is a file that holds the rendered chat up to and including "Ticket:"; a ticket adds a
space, its text and the end of the turn. So all peers, and our own benchmark, see the same tokens.
"""

import argparse
import json
import os
import pathlib

# The end of the user's turn and the cue, as the default model's ChatML template writes them.
TAIL = "<|im_end|>\n<|im_start|>assistant\n"


class Workload:
    def __init__(self, prefix_file, tickets_file):
        self.prefix = pathlib.Path(prefix_file).read_text(encoding="utf-8").rstrip(" ")
        lines = pathlib.Path(tickets_file).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        self.labels = [row["label"] for row in rows]
        self.suffixes = [f" {row['text']}{TAIL}" for row in rows]
        # The same words backwards: as long as the tickets and in no cache afterwards.
        self.warm_up = [f" {' '.join(reversed(row['text'].split()))}{TAIL}" for row in rows]

    def correct(self, answers):
        """Counts the answers (each the first token's text) that begin the gold label."""
        pairs = zip(answers, self.labels, strict=True)
        return sum(bool(answer.strip()) and label.startswith(answer.strip())
                   for answer, label in pairs)


def arguments(description):
    """The command line that all peers share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", required=True, help="the peer's GGUF file")
    parser.add_argument("--prefix", required=True, help="rendered prompt prefix")
    parser.add_argument("--tickets", required=True, help="JSONL with text and label")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--full", action="store_true",
                        help="also time full prompts, nothing kept between tickets")
    return parser


def report(peer, version, mode, precision, seconds, workload, answers):
    """Prints one measurement as a line of JSON."""
    count = len(workload.labels)
    print(json.dumps({
        "peer": peer, "version": version, "mode": mode, "precision": precision,
        "ms_per_ticket": round(1000 * seconds / count, 3),
        "correct": workload.correct(answers), "n": count,
    }), flush=True)
