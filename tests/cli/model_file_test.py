# SPDX-License-Identifier: Apache-2.0
"""Model files that cannot be used: a message, exit code 3, never a crash, never gigabytes."""

import struct
import unittest

from program import DONE, FAILED, MODEL, TICKETS, USAGE, ProgramTest, run

PEAK_MIB = 150  # The libraries alone take about 90.


def text(value):
    return struct.pack("<Q", len(value)) + value


def header(tensors=1, values=1, version=3):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, values)


def text_value(key, value):
    return text(key) + struct.pack("<I", 8) + text(value)


def tensor(name=b"token_embd.weight", extents=(32, 32), kind=0, offset=0):
    return (text(name) + struct.pack("<I", len(extents)) +
            b"".join(struct.pack("<Q", extent) for extent in extents) +
            struct.pack("<IQ", kind, offset))


ARCHITECTURE = text_value(b"general.architecture", b"llama")
HUGE = (1 << 62) + 1
HOSTILE = {
    "tensor_count": header(tensors=HUGE) + bytes(64),
    "value_count": header(values=HUGE) + bytes(64),
    "key_length": header() + struct.pack("<Q", HUGE) + bytes(64),
    "text_length": header() + text(b"general.architecture") + struct.pack("<IQ", 8, HUGE) + bytes(64),
    "array_length": header() + text(b"a") + struct.pack("<IIQ", 9, 6, HUGE) + bytes(64),
    "array_of_texts": header() + text(b"a") + struct.pack("<IIQ", 9, 8, HUGE) + bytes(64),
    "array_of_arrays": header() + text(b"a") + struct.pack("<IIQ", 9, 9, HUGE) + bytes(64),
    "value_type": header() + text(b"a") + struct.pack("<I", 77) + bytes(64),
    "key_twice": header(values=2) + ARCHITECTURE + ARCHITECTURE + tensor() + bytes(8192),
    "dimension": header() + ARCHITECTURE + tensor(extents=(1 << 62, 4)) + bytes(8192),
    "dimensions_that_wrap": header() + ARCHITECTURE + tensor(extents=(1 << 33, 1 << 33)) + bytes(8192),
    "dimension_of_nothing": header() + ARCHITECTURE + tensor(extents=(0, 4)) + bytes(8192),
    "dimension_count": header() + ARCHITECTURE + tensor(extents=(1,) * 40) + bytes(8192),
    "tensor_type": header() + ARCHITECTURE + tensor(kind=9999) + bytes(8192),
    "tensor_offset": header() + ARCHITECTURE + tensor(offset=1 << 63) + bytes(8192),
    "alignment": (header(values=2) + ARCHITECTURE + text(b"general.alignment") +
                  struct.pack("<II", 4, 1 << 31) + tensor() + bytes(8192)),
    "alignment_of_nothing": (header(values=2) + ARCHITECTURE + text(b"general.alignment") +
                             struct.pack("<II", 4, 0) + tensor() + bytes(8192)),
    "version": header(version=4_000_000_000) + bytes(64),
    "no_layers": header() + ARCHITECTURE + tensor() + bytes(8192),
}


class ModelFile(ProgramTest):
    def refuse(self, model, *messages):
        ended = self.classify(TICKETS, model=model)
        self.expect(ended, FAILED, str(model), *messages)
        self.assertEqual(ended.out, b"")
        self.assertLess(ended.peak_mib, PEAK_MIB)

    def test_missing(self):
        self.refuse(self.path("none.gguf"), "No such file", "--model")

    def test_folder(self):
        self.refuse(self.folder, "directory")

    def test_empty(self):
        self.refuse(self.file("empty.gguf", b""), "not a GGUF file")

    def test_garbage(self):
        self.refuse(self.file("garbage.gguf", bytes(range(256)) * 64), "not a GGUF file")

    def test_truncated(self):
        whole = MODEL.read_bytes()
        for share, message in ((0.001, "the file ends"), (0.5, "cut short"), (0.999, "cut short")):
            cut = self.file("cut.gguf", whole[:int(len(whole) * share)])
            self.refuse(cut, message, "get the file again")

    def test_wrong_architecture(self):
        other = text_value(b"general.architecture", b"mamba")
        whole = MODEL.read_bytes()
        self.assertEqual(whole.count(ARCHITECTURE), 1)
        self.refuse(self.file("mamba.gguf", whole.replace(ARCHITECTURE, other)), "mamba", "llama")

    def test_hostile_lengths(self):
        for name, content in HOSTILE.items():
            with self.subTest(name):
                self.refuse(self.file(name + ".gguf", content))

    def test_architecture_with_terminal_codes_prints_none(self):
        evil = header() + text_value(b"general.architecture", b"\x1b[2Jgone\n") + tensor() + bytes(8192)
        ended = self.classify(TICKETS, model=self.file("evil.gguf", evil))
        self.expect(ended, FAILED, "gone")
        self.assertNotIn("\x1b", ended.err)

    def test_doctor_lists_a_bad_model_and_goes_on(self):
        home = self.path("home")
        (home / "models").mkdir(parents=True)
        (home / "models" / "bad.gguf").write_bytes(HOSTILE["dimension"])
        ended = run("doctor", "--machine-only", env={"INCIPIT_HOME": str(home)})
        self.expect(ended, DONE)
        self.assertIn(b"bad.gguf: cannot be used", ended.out)

    def test_more_cells_than_memory(self):
        ended = self.classify(TICKETS, "-c", "1000000000")
        self.expect(ended, FAILED, "--ctx-size", "1000000000")
        self.assertRegex(ended.err, r"\d+ (cells |tokens )?would fit|at most \d+|up to \d+")
        self.assertLess(ended.peak_mib, 2000)

    def test_context_too_small_for_the_task(self):
        self.expect(self.classify(TICKETS, "-c", "64"), USAGE, "room for 64", "context size")


if __name__ == "__main__":
    unittest.main()
