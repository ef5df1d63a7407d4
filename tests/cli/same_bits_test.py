# SPDX-License-Identifier: Apache-2.0
"""One text, one answer: whatever the batch, the order, the threads, the process."""

import random
import re
import unittest

from program import DONE, TICKETS, ProgramTest, lines_by_id, run


class SameBits(ProgramTest):
    def by_id(self, *flags, rows=TICKETS):
        ended = self.classify(rows, "--no-dedupe", "--probabilities", "--quiet", *flags)
        self.expect(ended, DONE)
        return lines_by_id(ended.out)

    def check_precision(self, precision):
        alone = self.by_id("--precision", precision, "--batch", "1")
        self.assertEqual(len(alone), len(TICKETS.read_bytes().splitlines()))
        lines = TICKETS.read_bytes().splitlines(keepends=True)
        random.Random(7).shuffle(lines)
        shuffled = self.file("shuffled.jsonl", b"".join(lines))
        together = self.by_id("--precision", precision, "--batch", "64", rows=shuffled)
        self.assertEqual(alone, together)
        one_thread = self.by_id("--precision", precision, "--threads", "1")
        self.assertEqual(alone, one_thread)

    def test_batch_order_and_threads_in_f32(self):
        self.check_precision("f32")

    def test_batch_order_and_threads_in_bf16(self):
        machine = run("doctor", "--machine-only")
        self.expect(machine, DONE)
        precisions = re.search(rb"precisions: ([^)]*)\)", machine.out).group(1)
        if b"bf16" in precisions:
            self.check_precision("bf16")
        else:
            refused = self.classify(TICKETS, "--precision", "bf16")
            self.expect(refused, 2, "bf16", "--precision f32")

    def test_int8_cells(self):
        alone = self.by_id("--kv-type", "int8", "--batch", "1")
        self.assertEqual(alone, self.by_id("--kv-type", "int8", "--batch", "64"))

    def test_a_second_process_writes_the_same_bytes(self):
        outputs = [self.path(name) for name in ("a.jsonl", "b.jsonl")]
        for output in outputs:
            self.expect(self.classify(TICKETS, "-o", output, "--quiet"), DONE)
        self.assertEqual(outputs[0].read_bytes(), outputs[1].read_bytes())

    # Public report (C47): wrong output with prefix caching, seen by nobody.
    def test_verify_compares_every_ticket_with_its_whole_prompt(self):
        count = len(TICKETS.read_bytes().splitlines())
        ended = self.classify(TICKETS, "--verify", "all")
        self.expect(ended, DONE, f"cached = full: {count} of {count}, to the bit")


if __name__ == "__main__":
    unittest.main()
