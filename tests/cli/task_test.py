# SPDX-License-Identifier: Apache-2.0
"""Task files and the ways to score: what is refused, and what comes out."""

import json
import unittest

from program import DONE, TICKETS, USAGE, ProgramTest, distinct_texts

THREE = {"billing": {}, "technical": {}, "account": {}}


class TaskFile(ProgramTest):
    def refuse(self, content, *messages, flags=()):
        task = self.file("task.json", content)
        ended = self.classify(TICKETS, *flags, task=task)
        self.expect(ended, USAGE, "task.json", *messages)
        self.assertEqual(ended.out, b"")

    def test_what_is_refused_before_a_model_is_read(self):
        for content, messages in (
                ('{"labels": {"a": {},\n "a": {}}}', (":2:", "labels.a")),
                ('{"labels": {"a": {},\n " a": {}}}', (":2:", "labels.a", "twice")),
                ('{"labels": {"a": {},\n "": {}}}', (":2:", "labels", "needs a name")),
                ('{"labels": {}}', (":1:", "labels")),
                ('{"instructions": "x"}', ("labels",)),
                ('{"labels": {"a": {}, "b": {}},\n "lables": {}}', (":2:", "lables")),
                ('{"labels": {"a": {"colour": "red"}, "b": {}}}', (":1:", "labels.a.colour")),
                ('{"labels": {"a": {}, "b": {}},\n "options": {"scorng": "auto"}}',
                 (":2:", "options.scorng")),
                ('{"labels": {"a": {}, "b": {}},\n "options": {"scoring": "fast"}}',
                 (":2:", "options.scoring", "sequence")),
                ('{"labels": {"a": {"surfaces": ["x"]}, "b": {"surfaces": ["x"]}}}', ("labels.b", "x")),
                ('{"labels": {"a": {}}, "examples": [{"text": "t", "label": "c"}]}',
                 (":1:", "examples[0].label", "c")),
                ('{"labels": {"a": {}, "b": {}}', (":1:",)),
                ('', ("task.json",)),
                (b'\xff\xfe{', ("task.json",)),
                ('[' * 100_000, ("task.json",)),
        ):
            with self.subTest(content[:60]):
                self.refuse(content, *messages)

    def test_missing_task_file(self):
        self.expect(self.classify(TICKETS, task=self.path("none.json")), USAGE, "none.json")

    def test_labels_with_one_first_token_in_first_mode(self):
        labels = {"accounting": {}, "accounting team": {}, "access": {}}
        content = json.dumps({"labels": labels, "options": {"scoring": "first"}})
        self.refuse(content, "accounting", "accounting team", "sequence")
        task = self.file("task.json", json.dumps({"labels": labels}))
        report = self.path("report.json")
        self.expect(self.classify(TICKETS, "--report", report, task=task), DONE)
        self.assertEqual(json.loads(report.read_bytes())["scoring"], "sequence")


class Scores(ProgramTest):
    def setUp(self):
        super().setUp()
        self.input = self.rows_file("in.jsonl", distinct_texts(12))

    def rows(self, *flags, task=None):
        ended = self.classify(self.input, "--probabilities", *flags, task=task or self.task())
        return self.expect(ended, DONE).rows()

    def test_sequence_mode_compares_whole_labels(self):
        labels = {"card lost": {}, "card late": {}, "refund": {}}
        task = self.task(labels=labels, examples=None, instructions="Name the topic: {labels}")
        for row in self.rows("--verify", "all", task=task):
            self.assertEqual(list(row["probabilities"]), list(labels))
            self.assertAlmostEqual(sum(row["probabilities"].values()), 1, places=4)

    def test_sequence_by_flag_agrees_between_batches(self):
        alone = self.rows("--scoring", "sequence", "--batch", "1")
        self.assertEqual(alone, self.rows("--scoring", "sequence", "--batch", "12"))

    def test_multi_label(self):
        task = self.task(options={"multi_label": True}, examples=None)
        rows = self.rows("--verify", "all", task=task)
        for row in rows:
            self.assertNotIn("label", row)
            self.assertLessEqual(set(row["labels"]), set(THREE))
            chosen = {name for name, p in row["probabilities"].items() if p >= 0.5}
            self.assertEqual(set(row["labels"]), chosen)

    def test_label_paths_report_the_node_that_is_sure_enough(self):
        labels = {"billing/refund": {}, "billing/invoice": {}, "account/login": {}}
        task = self.task(labels=labels, examples=None, instructions="Sort tickets: {labels}")
        for row in self.rows("--hierarchy-threshold", "0.99", task=task):
            if row["status"] == "ok":
                self.assertEqual(row["level"], row["label"].count("/") + 1)
        deep = self.rows("--hierarchy-threshold", "0.1", task=task)
        self.assertTrue(any(row.get("level") == 2 for row in deep), deep)

    def test_calibrations(self):
        plain = self.rows()
        prior = self.file("prior.json", '{"billing": 0.8, "technical": 0.1, "account": 0.1}')
        for calibration in ("content-free", "batch", f"prior:{prior}"):
            with self.subTest(calibration):
                report = self.path("report.json")
                rows = self.rows("--calibrate", calibration, "--report", report)
                self.assertNotEqual([row["confidence"] for row in rows],
                                    [row["confidence"] for row in plain])
                self.assertEqual(set(json.loads(report.read_bytes())["calibration"]["bias"]), set(THREE))

    def test_calibrations_that_are_refused(self):
        for content, message in (('{"billing": 1}', "technical"),
                                 ('{"billing": 1, "technical": 0, "account": 1}', "technical"),
                                 ('{"billing": 1, "technical": 1, "account": 1, "x": 1}', "'x'"),
                                 ("{", "prior.json")):
            with self.subTest(content):
                prior = self.file("prior.json", content)
                self.expect(self.classify(self.input, "--calibrate", f"prior:{prior}"), USAGE, message)
        self.expect(self.classify(self.input, "--calibrate", "prior:"), USAGE, "prior:FILE")

    def test_a_fit_on_too_few_rows_is_refused(self):
        few = self.rows_file("few.jsonl", distinct_texts(4), label="billing")
        self.expect(self.classify(self.input, "--calibrate-on", few), USAGE, "few.jsonl", "10")

    def test_a_fit_on_labelled_rows(self):
        report = self.path("report.json")
        ended = self.classify(self.input, "--calibrate-on", TICKETS, "--report", report)
        self.expect(ended, DONE, "fit on 66 rows")
        self.assertEqual(json.loads(report.read_bytes())["fit"]["rows"], 66)

    def test_review_instead_of_a_weak_label(self):
        ended = self.classify(self.input, "--min-confidence", "0.999999", "--fail-on-review")
        self.expect(ended, 1, "review")
        row = ended.rows()[0]
        self.assertEqual((row["status"], row["label"], row["reason"]), ("review", None, "low_confidence"))
        self.assertIn(row["best"], THREE)


if __name__ == "__main__":
    unittest.main()
