# SPDX-License-Identifier: Apache-2.0
"""The program on libllama: approximate, and it says so; the labels are those of OpenVINO."""

import json
import unittest

from program import DONE, TASK, TICKETS, USAGE, ProgramTest, lines_by_id, run


class Llama(ProgramTest):
    def test_classify_reports_the_runtime_and_never_claims_bits(self):
        path = self.path("report.json")
        ended = self.classify(TICKETS, "--runtime", "llama", "--report", path, "--verify", "5")
        self.expect(ended, DONE, "approximate: within the tolerance")
        self.assertNotIn("to the bit", ended.err)
        report = json.loads(path.read_bytes())
        self.assertIn("llama.cpp", report["runtime"])
        self.assertIs(report["exact"], False)
        self.assertEqual(report["verify"]["n"], 5)

    def test_labels_agree_with_openvino(self):
        labels = []
        for runtime in ("openvino", "llama"):
            ended = self.classify(TICKETS, "--runtime", runtime, "--quiet")
            self.expect(ended, DONE)
            labels.append({key: json.loads(line)["label"] for key, line in lines_by_id(ended.out).items()})
        same = sum(labels[0][key] == labels[1][key] for key in labels[0])
        # OpenVINO stores weights as int8, libllama computes with the file's: near ties may differ.
        self.assertGreaterEqual(same, 0.9 * len(labels[0]))

    def test_kv_verify_compares_within_a_tolerance(self):
        folder = self.path("states")
        kv = ("--folder", folder, "-m", self.arguments()[4], "--runtime", "llama")
        ended = run("kv", "verify", *kv)
        self.expect(ended, DONE)
        self.assertIn(b"approximate", ended.out)

    def test_mistakes(self):
        self.expect(self.classify(TICKETS, "--runtime", "torch"), USAGE, "--runtime", "auto|openvino|llama")
        self.expect(self.classify(TICKETS, "--runtime", "llama", "--precision", "f32"), USAGE, "--precision")

    def test_explain(self):
        ended = run("explain", "--task", TASK, "-m", self.arguments()[4], "--runtime", "llama", "My card was charged")
        self.expect(ended, DONE)
        self.assertIn(b"approximate", ended.out)

    def test_doctor_lists_both_runtimes(self):
        ended = run("doctor", "--machine-only")
        self.expect(ended, DONE)
        self.assertIn(b"OpenVINO", ended.out)
        self.assertRegex(ended.out, rb"llama\.cpp .*approximate")


if __name__ == "__main__":
    unittest.main()
