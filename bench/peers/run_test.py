# SPDX-License-Identifier: Apache-2.0
"""Tests of run.py with stand-ins for incipit and the peers: python3 -m unittest run_test"""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import places
import run
import workload

OURS = {"modes": [
    {"precision": "bf16", "mode": "batched", "ms_per_ticket": 16.0},
    {"precision": "f32", "mode": "batched", "ms_per_ticket": 32.0},
    {"precision": "bf16", "mode": "full", "ms_per_ticket": 220.0},
]}


def row(peer, precision, ms):
    return {"peer": peer, "version": "1", "mode": "cached", "precision": precision,
            "ms_per_ticket": ms, "correct": 1, "n": 2}


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        before = os.environ.get("INCIPIT_HOME")
        self.addCleanup(self.restore_home, before)
        os.environ["INCIPIT_HOME"] = folder.name
        (self.folder / "prefix.txt").write_text("Ticket: ")
        (self.folder / "tickets.jsonl").write_text('{"text": "a b", "label": "billing"}\n')
        (self.folder / "ours.json").write_text(json.dumps(OURS))

    @staticmethod
    def restore_home(value):
        if value is None:
            os.environ.pop("INCIPIT_HOME", None)
        else:
            os.environ["INCIPIT_HOME"] = value

    def make_ready(self, peer, python_text):
        """Puts a peer in place whose Python is a shell script."""
        python = places.python_of(peer)
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\n{python_text}\n")
        python.chmod(0o755)
        places.ready_stamp(peer).write_text("made by a test")

    def run_main(self, *more):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()) as said:
            code = run.main(["--tickets", str(self.folder / "tickets.jsonl"),
                             "--prefix", str(self.folder / "prefix.txt"), "--ours", "/bin/cat",
                             "--ours-arguments", str(self.folder / "ours.json"), "--json", *more])
        return code, output.getvalue(), said.getvalue()

    def test_ratio_is_formed_of_neighbours_and_the_median_is_printed(self):
        results = run.Results()
        for ms, ours in ((100, 10), (300, 20), (900, 30)):
            results.add(row("transformers", "f32", ms), {"bf16": ours})
        ratio = results.as_json()["ratios"][0]
        self.assertEqual((ratio["lowest"], ratio["ratio"], ratio["highest"]), (10, 15, 30))

    def test_openvino_genai_is_compared_in_its_own_precision_only(self):
        results = run.Results()
        results.add(row("openvino-genai", "f32", 64), {"bf16": 16, "f32": 32})
        results.add(row("llama-server", "Q4_0", 160), {"bf16": 16, "f32": 32})
        found = {(r["peer"], r["our_precision"]): r["ratio"] for r in results.as_json()["ratios"]}
        self.assertEqual(found, {("openvino-genai", "f32"): 2, ("llama-server", "bf16"): 10,
                                 ("llama-server", "f32"): 5})

    def test_peer_that_answers_is_in_the_report(self):
        self.make_ready("transformers", f"echo '{json.dumps(row('transformers', 'f32', 208))}'")
        code, output, _ = self.run_main("--peers", "transformers", "--repeats", "2")
        report = json.loads(output)
        self.assertEqual(code, 0)
        self.assertEqual([r["ratio"] for r in report["ratios"]], [13, 6.5])
        self.assertEqual(len(report["peers"][0]["runs"]), 2)

    def test_peer_that_is_not_set_up_is_named_with_its_reason(self):
        note = places.failure_note("openvino-genai")
        note.parent.mkdir(parents=True)
        note.write_text("pip ended with 1: no such wheel\n")
        code, output, _ = self.run_main("--peers", "openvino-genai", "llama-server")
        missing = {m["peer"]: m["reason"] for m in json.loads(output)["missing"]}
        self.assertEqual(code, 1)
        self.assertIn("no such wheel", missing["openvino-genai"])
        self.assertIn("setup.py --peers llama-server", missing["llama-server"])

    def test_peer_that_fails_is_named_and_not_tried_again(self):
        self.make_ready("transformers", f"echo try >> {self.folder}/tries; echo broken >&2; exit 7")
        code, output, _ = self.run_main("--peers", "transformers", "--repeats", "3")
        self.assertEqual(code, 1)
        self.assertEqual(json.loads(output)["missing"],
                         [{"peer": "transformers", "reason": "ended with 7: broken"}])
        self.assertEqual((self.folder / "tries").read_text(), "try\n")

    def test_failure_of_our_own_benchmark_is_not_a_peers_fault(self):
        self.make_ready("transformers", "exit 0")
        code, output, said = self.run_main("--peers", "transformers", "--ours", "/bin/false")
        self.assertEqual((code, output), (3, ""))
        self.assertIn("/bin/false", said)

    def test_an_answer_counts_when_it_begins_the_label(self):
        load = workload.Workload(self.folder / "prefix.txt", self.folder / "tickets.jsonl")
        self.assertEqual([load.correct([answer]) for answer in ("bill", " billing", "", "tech")],
                         [1, 1, 0, 0])
        self.assertEqual(load.prefix + load.suffixes[0],
                         "Ticket: a b<|im_end|>\n<|im_start|>assistant\n")


if __name__ == "__main__":
    unittest.main()
