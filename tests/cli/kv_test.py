# SPDX-License-Identifier: Apache-2.0
"""incipit kv and incipit bench kv, as a user runs them."""

import unittest

from program import DONE, FAILED, MODEL, ROOT, USAGE, ProgramTest, run


class Kv(ProgramTest):
    def test_usage(self):
        self.expect(run("kv"), USAGE, "kv ls")
        self.expect(run("kv", "nonsense"), USAGE, "nonsense")
        self.expect(run("kv", "ls"), USAGE, "--folder")
        self.assertIn(b"verify", self.expect(run("kv", "--help"), DONE).out)
        self.expect(run("kv", "drop", "--folder", self.folder / "x", "-m", MODEL), USAGE, "--all")

    def test_lists_what_is_there(self):
        self.expect(run("kv", "ls", "--folder", self.folder / "missing"), FAILED, "missing")
        states = self.folder / "states"
        states.mkdir()
        self.assertIn(b"0 states", self.expect(run("kv", "ls", "--folder", states), DONE).out)
        (states / "bad.safetensors").write_bytes(b"\xff" * 100)
        ended = self.expect(run("kv", "ls", "--folder", states), DONE)
        self.assertIn(b"unusable", ended.out)
        self.assertIn(b"bad.safetensors", ended.out)
        self.assertTrue((states / "bad.safetensors").exists(), "ls changes nothing")

    def test_looks_into_an_empty_folder(self):
        states = self.folder / "states"
        flags = ("--folder", states, "-m", MODEL, "--ctx-size", "512")
        ended = self.expect(run("kv", "explain", *flags, "Where is my parcel?"), DONE)
        self.assertIn(b"never cached", ended.out)
        self.assertIn(b"all the same", self.expect(run("kv", "verify", *flags), DONE).out)
        self.assertIn(b"0 tokens", self.expect(run("kv", "drop", *flags, "--all"), DONE).out)

    def test_saves_and_restores(self):
        here, there = self.folder / "here", self.folder / "there"
        flags = ("-m", MODEL, "--ctx-size", "512")
        prompt = ("--system", "You help the customers of a parcel service.", "Where is my parcel?")
        state = self.folder / "state.safetensors"
        first = self.expect(run("kv", "save", "--folder", here, *flags, state, *prompt), DONE)
        tokens = int(first.out.split()[0])
        self.assertIn(b"%d of them computed" % tokens, first.out)
        ended = self.expect(run("kv", "restore", "--folder", there, *flags, state), DONE)
        self.assertIn(b"%d tokens restored" % tokens, ended.out)
        # Another process finds it, and the same bits.
        ended = self.expect(run("kv", "explain", "--folder", there, *flags, *prompt), DONE)
        self.assertIn(b"%d tokens, %d cached" % (tokens, tokens - 1), ended.out)
        ended = self.expect(run("kv", "verify", "--folder", there, *flags, "--all"), DONE)
        self.assertIn(b"1 of 1 prefix computed anew, all the same", ended.out)

    def test_refuses_what_save_did_not_write(self):
        flags = ("--folder", self.folder / "states", "-m", MODEL, "--ctx-size", "512")
        state = self.folder / "state.safetensors"
        self.expect(run("kv", "restore", *flags, state), USAGE, "state.safetensors")
        self.expect(run("kv", "save", *flags, state, "Where is my parcel?"), DONE)
        whole = state.read_bytes()
        for place in (0, 20, len(whole) - 1):
            state.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1:])
            self.expect(run("kv", "restore", *flags, state), FAILED, "state.safetensors")
        state.write_bytes(whole[:-1])
        self.expect(run("kv", "restore", *flags, state), FAILED, "state.safetensors")
        state.write_bytes(whole)
        other = ("--folder", self.folder / "states", "-m", MODEL, "--ctx-size", "512",
                 "--precision", "f32", "--kv-type", "int8")
        self.expect(run("kv", "restore", *other, state), USAGE, "another KV type")
        self.expect(run("kv", "save", *flags, self.folder / "no" / "where", "Hello"), USAGE,
                    "where")

    def test_bench_proves_what_it_times(self):
        ended = self.expect(run("bench", "kv", "-m", MODEL, "--prefix", "100", "--rounds", "1",
                                "--ctx-size", "1024"), DONE)
        self.assertIn(b"after a restart", ended.out)
        self.assertIn(b"do not fit", ended.out, "requests in turn")
        for lie in (b"NOT A HIT", b"DIFFERENT"):
            self.assertNotIn(lie, ended.out)

    def test_bench_window(self):
        flags = ("-m", MODEL, "--ctx-size", "512", "--precision", "f32")
        ended = self.expect(run("bench", "window", *flags, "--window", "64", "--tokens", "256",
                                ROOT / "README.md"), DONE)
        self.assertIn(b"256 tokens under a window of 64", ended.out)
        self.assertIn(b"computed anew", ended.out)
        # 255 tokens went through: 191 behind the window, in slides of 7.
        self.assertIn(b"lossy: a sliding window forgot 196 tokens", ended.out)
        self.expect(run("bench", "window", *flags, "--window", "600"), USAGE, "--window")
        self.expect(run("bench", "window", *flags, "--window", "64",
                        self.folder / "missing.md"), USAGE, "missing")

    def test_bench_fragments(self):
        ended = self.expect(run("bench", "fragments", "-m", MODEL, "--ctx-size", "2048",
                                "--questions", "2", "--bytes", "300", "--answer", "4",
                                ROOT / "README.md"), DONE)
        self.assertIn(b"2 questions", ended.out)
        for way in (b"all computed", b"moved, head of 0", b"moved, head of 16"):
            self.assertIn(way, ended.out)


if __name__ == "__main__":
    unittest.main()
