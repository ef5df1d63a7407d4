#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the peers and incipit on the same tickets in one run and prints the ratios.

Every measurement is a fresh process on this machine. Before each peer incipit runs again, and a
ratio is formed of such a pair, so that a machine that slows down hits both. The printed ratio is
the median over the repeats. A peer that is not set up or fails is named with its reason, and the
exit code is then 1.
"""

import argparse
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys

import places

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEER_LIMIT_S = 900
BUSY_LOAD = 0.5  # Runnable programs before the run, from where on the figures are doubtful.


class MissingPeer(Exception):
    """A peer that cannot be measured; the text is the reason."""


class OurFailure(Exception):
    """incipit itself could not be measured; the text says what to do."""


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"


def peer_commands(peer, options):
    """The processes that measure one peer once."""
    python = places.python_of(peer) if peer != "llama-server" else sys.executable
    command = [python, HERE / f"{peer.replace('-', '_')}_peer.py", "--model",
               places.model_of(peer), "--prefix", options.prefix, "--tickets", options.tickets,
               "--threads", options.threads]
    if peer == "openvino-genai":  # A process holds one pipeline: with a prefix cache or without.
        kinds = [[], ["--full"]] if options.full else [[]]
        return [[*command, "--precision", precision, *kind]
                for precision in options.precisions for kind in kinds]
    if options.full:
        command.append("--full")
    if peer == "llama-server":
        return [[*command, "--server", places.llama_build() / "bin" / "llama-server"]]
    return [command]


def check_ready(peer):
    if places.ready_stamp(peer).exists():
        return
    note = places.failure_note(peer)
    reason = note.read_text(encoding="utf-8").strip() if note.exists() else "not set up"
    raise MissingPeer(f"{reason} (set up with bench/peers/setup.py --peers {peer})")


def run_peer(command):
    """One process of a peer; returns its measurements."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                              timeout=PEER_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingPeer(str(error)) from error
    if done.returncode != 0:
        raise MissingPeer(f"ended with {done.returncode}: {last_line(done.stderr)}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def run_ours(options):
    """Our batched time by precision, from a fresh process."""
    command = [str(options.ours), *shlex.split(options.ours_arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise OurFailure(f"{error}: build it first or name it with --ours") from error
    if done.returncode != 0:
        raise OurFailure(f"{shlex.join(command)} ended with {done.returncode}: "
                         f"{last_line(done.stderr)}")
    return batched_times(json.loads(done.stdout))


def batched_times(report):
    """Picks the batched mode of each precision out of `incipit bench classify --json`."""
    times = {mode["precision"]: mode["ms_per_ticket"] for mode in report["modes"]
             if mode["mode"] == "batched"}
    if not times:
        raise OurFailure("incipit bench classify --json reports no mode 'batched'")
    return times


class Results:
    """Measurements of all repeats, and ratios of neighbours in time."""

    def __init__(self):
        self.rows = {}     # (peer, mode, precision) -> {"ms": [...], "row": last measurement}
        self.ratios = {}   # (peer, mode, precision, our precision) -> [...]
        self.ours = {}     # precision -> [...]
        self.missing = {}  # peer -> reason

    def add_ours(self, times):
        for precision, ms in times.items():
            self.ours.setdefault(precision, []).append(ms)

    def add(self, row, ours):
        key = (row["peer"], row["mode"], row["precision"])
        kept = self.rows.setdefault(key, {"ms": []})
        kept["ms"].append(row["ms_per_ticket"])
        kept["row"] = row
        for precision, ms in ours.items():
            # A peer that has our precisions is compared with the same one only.
            if key[0] == "openvino-genai" and key[2] != precision:
                continue
            self.ratios.setdefault((*key, precision), []).append(row["ms_per_ticket"] / ms)

    def as_json(self):
        return {
            "ours": [{"mode": "batched", "precision": precision,
                      "ms_per_ticket": round(statistics.median(ms), 3), "runs": ms}
                     for precision, ms in self.ours.items()],
            "peers": [{**kept["row"], "ms_per_ticket": round(statistics.median(kept["ms"]), 3),
                       "runs": kept["ms"]} for kept in self.rows.values()],
            "ratios": [{"peer": peer, "mode": mode, "peer_precision": precision,
                        "our_precision": our, "ratio": round(statistics.median(values), 2),
                        "lowest": round(min(values), 2), "highest": round(max(values), 2)}
                       for (peer, mode, precision, our), values in self.ratios.items()],
            "missing": [{"peer": peer, "reason": reason} for peer, reason in self.missing.items()],
        }


def measure(options, results):
    for repeat in range(options.repeats):
        for peer in options.peers:
            if peer in results.missing:
                continue
            print(f"repeat {repeat + 1} of {options.repeats}: {peer}", file=sys.stderr, flush=True)
            try:
                check_ready(peer)
                ours = run_ours(options)
                results.add_ours(ours)
                for command in peer_commands(peer, options):
                    for row in run_peer(command):
                        results.add(row, ours)
            except MissingPeer as error:
                results.missing[peer] = str(error)


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    name = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")),
                platform.processor())
    return {"cpu": name, "cores": len(os.sched_getaffinity(0)), "system": platform.platform(),
            "load_before": round(os.getloadavg()[0], 2)}


def print_table(report):
    def line(*cells):
        print(f"{cells[0]:<40}{cells[1]:<10}{cells[2]:>14}{cells[3]:>12}{cells[4]:>18}")

    facts = report["machine"]
    print(f"{facts['cpu']}, {facts['cores']} cores; {report['tickets']} tickets, "
          f"median of {report['repeats']}")
    if facts["load_before"] > BUSY_LOAD:
        print(f"warning: the load was {facts['load_before']} before the run: other programs took "
              "part of the cores, so these figures say little")
    line("", "precision", "ms per ticket", "correct", "")
    for row in report["ours"]:
        line("incipit, batched", row["precision"], f"{row['ms_per_ticket']:.1f}", "", "")
    for row in report["peers"]:
        line(f"{row['peer']}, {row['mode']}", row["precision"], f"{row['ms_per_ticket']:.1f}",
             f"{row['correct']} of {row['n']}", "")
    print()
    line("incipit batched against", "ours", "times faster", "", "lowest - highest")
    for row in report["ratios"]:
        line(f"{row['peer']} {row['peer_precision']}, {row['mode']}", row["our_precision"],
             f"{row['ratio']:.1f}x", "", f"{row['lowest']:.1f}x - {row['highest']:.1f}x")
    for row in report["missing"]:
        print(f"not measured: {row['peer']}: {row['reason']}")


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tickets", type=pathlib.Path,
                        default=ROOT / "examples" / "tickets" / "bench_tickets.jsonl")
    parser.add_argument("--prefix", type=pathlib.Path,
                        default=ROOT / "tests" / "golden" / "prefix.txt")
    parser.add_argument("--ours", type=pathlib.Path, default=ROOT / "build" / "incipit")
    parser.add_argument("--ours-arguments", default="bench classify --json",
                        help="what makes it print its times as JSON (default: %(default)s)")
    parser.add_argument("--peers", nargs="+", choices=places.PEERS, default=list(places.PEERS))
    parser.add_argument("--precisions", nargs="+", choices=["bf16", "f32"],
                        default=["bf16", "f32"], help="of OpenVINO GenAI")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--full", action="store_true", help="also time the peers' full prompts")
    parser.add_argument("--json", action="store_true", help="print JSON, not tables")
    options = parser.parse_args(arguments)
    for path in (options.tickets, options.prefix):
        if not path.is_file():
            parser.error(f"no file {path}")
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    facts, results = machine(), Results()
    try:
        measure(options, results)
    except OurFailure as error:
        print(error, file=sys.stderr)
        return 3
    tickets = sum(bool(line.strip()) for line in options.tickets.read_text("utf-8").splitlines())
    report = {"machine": facts, "tickets": tickets, "repeats": options.repeats,
              **results.as_json()}
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        print_table(report)
    return 1 if results.missing else 0


if __name__ == "__main__":
    sys.exit(main())
