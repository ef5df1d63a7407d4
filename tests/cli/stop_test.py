# SPDX-License-Identifier: Apache-2.0
"""Runs that end before their time, and --resume after each of them."""

import json
import random
import signal
import subprocess
import time
import unittest

from program import (FAILED, HOME, INTERRUPTED, USAGE, Process, ProgramTest, distinct_texts, run)

ROWS = 150  # More than two windows of 64 rows: a signal in the second leaves a rest.
SLOW = ("--batch", "2")  # Many small passes: time to stop in between.


class Stop(ProgramTest):
    wholes = {}

    def setUp(self):
        super().setUp()
        texts = distinct_texts(ROWS)
        texts[40] = texts[3]  # A repeat whose first text may lie before the stop.
        texts[50] = ""        # A row error.
        self.input = self.rows_file("in.jsonl", texts)
        self.output = self.path("out.jsonl")

    def job(self, *more, **how):
        return self.arguments(self.input, "-o", self.output, *more, **how)

    def whole(self, *more):
        """What an undisturbed run writes; the rows are the same in every test."""
        if more not in self.wholes:
            output = self.path("whole.jsonl")
            self.expect(self.classify(self.input, "-o", output, "--quiet", *more), 1)
            self.wholes[more] = output.read_bytes()
        return self.wholes[more]

    def part(self):
        return self.path("out.jsonl.part").read_bytes()

    def resume(self, *more):
        return run(*self.job("--resume", *more))

    def check_resumes_to(self, whole, *more):
        ended = self.resume(*more)
        self.expect(ended, 1)
        self.assertEqual(self.output.read_bytes(), whole)
        left = sorted(path.name for path in self.folder.glob("out.jsonl*"))
        self.assertEqual(left, ["out.jsonl"])

    def test_ctrl_c(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start_and_wait_for_rows(self.job(*SLOW), self.output)
            process.send(number)
            ended = self.expect(process.end(), INTERRUPTED, "--resume", "out.jsonl.state")
            self.assertNotIn("--help", ended.err)
            self.assertFalse(self.output.exists())
            self.assertTrue(self.part().endswith(b"\n"))
            rows = [json.loads(line) for line in self.part().splitlines()]
            self.assertEqual([row["id"] for row in rows], [f"r{i}" for i in range(len(rows))])
            self.assertLess(len(rows), ROWS)
            report = self.path("report.json")
            self.check_resumes_to(self.whole(), "--report", report)
            self.assertEqual(json.loads(report.read_bytes())["resumed"], len(rows))
            self.output.unlink()

    def test_ctrl_c_with_standard_output(self):
        process = Process(self.arguments(self.input, *SLOW), stdout=subprocess.PIPE)
        process.stdout.readline()
        process.send(signal.SIGINT)
        rest = process.stdout.read()
        self.expect(process.end(), INTERRUPTED)
        self.assertTrue(rest == b"" or rest.endswith(b"\n"))

    def test_kill_at_a_random_moment(self):
        whole = self.whole()
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        with self.subTest(seed=seed):
            process = self.start_and_wait_for_rows(self.job(*SLOW), self.output)
            time.sleep(chance.uniform(0, 0.3))
            process.send(signal.SIGKILL)
            process.end()
            # Whatever a crash may leave of the last write is cut away.
            state = self.path("out.jsonl.state")
            if state.exists():
                with state.open("r+b") as file:
                    file.truncate(max(1, state.stat().st_size - chance.randrange(40)))
                self.check_resumes_to(whole)

    def test_kill_under_a_batch_bias(self):
        flags = ("--calibrate", "batch")
        whole = self.whole(*flags)
        process = Process(self.job(*SLOW, *flags))
        state = self.path("out.jsonl.state")
        while not process.has_ended() and not (state.exists() and state.stat().st_size > 4000):
            time.sleep(0.005)
        process.send(signal.SIGKILL)
        process.end()
        self.check_resumes_to(whole, *flags)

    def interrupted(self):
        process = self.start_and_wait_for_rows(self.job(*SLOW), self.output)
        process.send(signal.SIGINT)
        self.expect(process.end(), INTERRUPTED)

    def test_resume_refuses_what_would_not_be_the_same_run(self):
        self.interrupted()
        task = self.task(labels={"billing": {}, "technical": {}, "account": {}, "other": {}})
        for what, arguments in {
                "labels": self.job("--resume", task=task),
                "option": self.job("--resume", "--min-confidence", "0.9"),
                "probabilities": self.job("--resume", "--probabilities"),
                "calibration": self.job("--resume", "--calibrate", "content-free"),
                "precision": self.job("--resume", "--kv-type", "int8"),
        }.items():
            with self.subTest(what):
                self.expect(run(*arguments), USAGE, "out.jsonl.state")
        # Another order of batches is the same run.
        lines = self.input.read_bytes().splitlines(keepends=True)
        self.input.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
        self.expect(self.resume(), USAGE, "in.jsonl", "the input has changed")
        self.input.write_bytes(b"".join(lines))
        self.check_resumes_to(self.whole(), "--batch", "16")

    def test_resume_with_another_model(self):
        self.interrupted()
        other = HOME / "models" / "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
        self.expect(run(*self.job("--resume", model=other)), USAGE, "out.jsonl.state")

    def test_resume_without_a_state_starts_at_the_first_row(self):
        ended = self.expect(self.resume(), 1, "there is no", "starting with the first row")
        self.assertNotIn("interrupted", ended.err)
        self.assertEqual(self.output.read_bytes(), self.whole())

    def test_full_disk(self):
        ended = run(*self.job(*SLOW), file_bytes_max=4000)
        self.expect(ended, FAILED, "out.jsonl", "File too large")
        self.assertFalse(self.output.exists())
        self.check_resumes_to(self.whole())

    def full_device(self):
        """A link to it: a program that renames over its output shall not hit the machine's own."""
        link = self.path("full")
        link.symlink_to("/dev/full")
        return link

    def test_full_device(self):
        ended = self.classify(self.input, "-o", self.full_device())
        self.expect(ended, FAILED, "full", "No space left")
        self.assertTrue(self.path("full").is_symlink())
        with open("/dev/full", "wb") as full:
            ended = self.classify(self.input, stdout=full)
        self.expect(ended, FAILED, "standard output", "No space left")

    def test_full_disk_for_the_report(self):
        ended = self.classify(self.input, "-o", self.output, "--report", self.full_device())
        self.expect(ended, FAILED, "full", "No space left")
        self.assertTrue(self.path("full").is_symlink())
        self.assertTrue(self.output.exists())

    def test_closed_pipe(self):
        process = Process(self.arguments(self.input, *SLOW), stdout=subprocess.PIPE)
        self.assertTrue(process.stdout.readline().startswith(b'{"id":"r0"'))
        process.stdout.close()
        self.expect(process.end(), FAILED, "standard output", "Broken pipe")

    def test_help_into_a_full_device(self):
        for arguments in (["--help"], ["--version"], ["classify", "--help"], ["doctor", "--machine-only"]):
            with self.subTest(arguments), open("/dev/full", "wb") as full:
                self.expect(run(*arguments, stdout=full), FAILED, "standard output")

    def test_the_output_folder_is_missing(self):
        ended = self.classify(self.input, "-o", self.path("none") / "out.jsonl")
        self.expect(ended, USAGE, "none/out.jsonl")

    def test_an_old_output_stays_until_the_new_one_is_whole(self):
        self.output.write_bytes(b"old\n")
        self.interrupted()
        self.assertEqual(self.output.read_bytes(), b"old\n")
        self.check_resumes_to(self.whole())
        self.assertEqual(self.expect(self.classify(self.input, "-o", self.output, "-q"), 1).err, "")


if __name__ == "__main__":
    unittest.main()
