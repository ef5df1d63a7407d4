#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the pinned clang-format and clang-tidy over the project's C++.

clang-tidy takes seconds a file, so a clean verdict is kept under a hash of all that it depends
on: the file, every header of ours that it reaches, the configuration and the tool. The next
run looks only at what changed.

    tools/lint.py format --tools BIN
    tools/lint.py tidy --tools BIN --build build --verdicts DIR [FILE ...]
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.M)
INCLUDE_ROOTS = ["include", "src", "tests", "apps"]


def project_files(*patterns):
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z", *patterns]
    names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    return sorted(ROOT / name for name in names if name and (ROOT / name).is_file())


def run_format(options):
    files = project_files("*.cc", "*.h")
    command = [options.tools / "clang-format", "--dry-run", "--Werror", *files]
    if subprocess.run(command, check=False).returncode != 0:
        print("lint: ./dev format rewrites these files", file=sys.stderr)
        return 1
    print(f"lint: {len(files)} files are formatted")
    return 0


def reached_files(source, seen):
    """Adds `source` and every file of ours that it includes, directly or not."""
    if source in seen:
        return
    seen.add(source)
    for name in INCLUDE.findall(source.read_bytes()):
        for folder in [source.parent, *(ROOT / root for root in INCLUDE_ROOTS)]:
            header = folder / name.decode()
            if header.is_file():
                reached_files(header.resolve(), seen)
                break


def verdict_key(entry, version):
    seen = set()
    reached_files(pathlib.Path(entry["file"]), seen)
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + version)
    # The checkout's own place does not count: any checkout may use the verdict.
    digest.update(entry["command"].replace(str(ROOT), "").encode())
    for path in sorted(seen):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def tidy_one(options, entry, key):
    command = [options.tools / "clang-tidy", "-p", options.build, "--quiet",
               "--extra-arg=-Wthread-safety", "--extra-arg=-Wno-unknown-warning-option",
               "--extra-arg=-Wno-error", entry["file"]]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        (options.verdicts / key).touch()
        return True
    print(done.stdout.replace(f"{ROOT}/", ""), done.stderr, flush=True)
    return False


def run_tidy(options):
    version = subprocess.run([options.tools / "clang-tidy", "--version"], check=True,
                             capture_output=True).stdout  # fmt: skip
    options.verdicts.mkdir(parents=True, exist_ok=True)
    ours = set(project_files("*.cc"))
    wanted = {path.resolve() for path in options.files} or ours
    entries = json.loads((options.build / "compile_commands.json").read_text(encoding="utf-8"))
    todo = []
    for entry in entries:
        if pathlib.Path(entry["file"]) in ours & wanted:
            key = verdict_key(entry, version)
            if not (options.verdicts / key).exists():
                todo.append((entry, key))
    print(f"lint: clang-tidy looks at {len(todo)} of {len(wanted)} files", flush=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        clean = list(pool.map(lambda pair: tidy_one(options, *pair), todo))
    print(f"lint: {clean.count(False)} files with findings")
    return 1 if False in clean else 0


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["format", "tidy"])
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--verdicts", type=pathlib.Path)
    parser.add_argument("files", type=pathlib.Path, nargs="*")
    options = parser.parse_intermixed_args(arguments)
    return run_format(options) if options.kind == "format" else run_tidy(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
