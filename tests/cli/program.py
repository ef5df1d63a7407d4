# SPDX-License-Identifier: Apache-2.0
"""Runs the program as a user does: a process, its files, its exit code, its memory.

Tests use the small model, which loads in a second. INCIPIT_PROGRAM names the program (default: the
release build of this checkout), INCIPIT_HOME the cache directory.
"""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("INCIPIT_PROGRAM", str(ROOT / "build" / "incipit"))
CACHE = os.environ.get("XDG_CACHE_HOME", str(pathlib.Path.home() / ".cache"))
HOME = pathlib.Path(os.environ.get("INCIPIT_HOME") or CACHE + "/incipit")
MODEL = HOME / "models" / "smollm2-135m-instruct-q4_1.gguf"
TICKETS = ROOT / "examples" / "tickets" / "tickets.jsonl"
TASK = ROOT / "examples" / "tickets" / "bench_task.json"

DONE, ROW_ERRORS, USAGE, FAILED, MISMATCH, INTERRUPTED = 0, 1, 2, 3, 4, 130
TIMEOUT_S = 300


class Ended:
    """A process that has ended. A negative code is the signal that killed it."""

    def __init__(self, code, out, err, peak_mib):
        self.code = code
        self.out = out  # bytes
        self.err = err.decode("utf-8", "backslashreplace")
        self.peak_mib = peak_mib

    def rows(self):
        return [json.loads(line) for line in self.out.splitlines()]


class Process:
    """A process under way. Its standard output goes to a file unless `stdout` is given."""

    def __init__(self, arguments, stdin=b"", stdout=None, stderr=None, env=None, file_bytes_max=None):
        self._in = tempfile.TemporaryFile()
        self._in.write(stdin)
        self._in.seek(0)
        self._out = tempfile.TemporaryFile()
        self._err = tempfile.TemporaryFile()
        environment = {**os.environ, "INCIPIT_HOME": str(HOME), **(env or {})}
        if not env or "NO_COLOR" not in env:
            environment.pop("NO_COLOR", None)

        def limit_files():
            # Python ignores this signal and its children inherit that; users' shells do not.
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            if file_bytes_max is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))

        self._child = subprocess.Popen(
            [PROGRAM, *map(str, arguments)], stdin=self._in, stdout=stdout or self._out,
            stderr=stderr or self._err, env=environment, preexec_fn=limit_files)
        self.pid = self._child.pid
        self.stdout = self._child.stdout

    def send(self, number):
        os.kill(self.pid, number)

    def has_ended(self):
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self):
        """Waits for the end; kills what takes longer than any test should."""
        timer = threading.Timer(TIMEOUT_S, lambda: os.kill(self.pid, signal.SIGKILL))
        timer.start()
        try:
            _, status, usage = os.wait4(self.pid, 0)
        finally:
            timer.cancel()
        code = os.waitstatus_to_exitcode(status)
        self._child.returncode = code  # It is waited for: Popen shall not wait again.
        if self.stdout:
            self.stdout.close()
        texts = []
        for file in (self._out, self._err):
            file.seek(0)
            texts.append(file.read())
            file.close()
        self._in.close()
        return Ended(code, *texts, usage.ru_maxrss / 1024)


def run(*arguments, **how):
    return Process(arguments, **how).end()


class ProgramTest(unittest.TestCase):
    """A test with a folder of its own and the task of the example tickets."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="incipit-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return self.folder / name

    def file(self, name, content):
        path = self.path(name)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def rows_file(self, name, texts, **fields):
        lines = (json.dumps({"id": f"r{i}", "text": text, **fields}) for i, text in enumerate(texts))
        return self.file(name, "".join(line + "\n" for line in lines))

    def task(self, **changes):
        """The example task, changed; a change to None leaves the key out."""
        task = {**json.loads(TASK.read_bytes()), **changes}
        return self.file("task.json", json.dumps({k: v for k, v in task.items() if v is not None}))

    def arguments(self, *more, task=TASK, model=MODEL):
        return ["classify", "--task", task, "-m", model, *more]

    def classify(self, *more, task=TASK, model=MODEL, **how):
        return run(*self.arguments(*more, task=task, model=model), **how)

    def expect(self, ended, code, *messages):
        self.assertEqual(ended.code, code, ended.err)
        for message in messages:
            self.assertIn(message, ended.err)
        return ended

    def start_and_wait_for_rows(self, arguments, output, **how):
        """Starts a run and waits until the first rows are in `output`.part."""
        process = Process(arguments, **how)
        part = pathlib.Path(str(output) + ".part")
        until = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until and not process.has_ended():
            if part.exists() and part.stat().st_size > 0:
                return process
            time.sleep(0.005)
        ended = process.end()
        self.fail(f"no row before the end; exit code {ended.code}: {ended.err}")


def distinct_texts(count):
    """Short texts, all different."""
    topics = ["My invoice is wrong", "The app crashes", "I cannot sign in", "Please refund order",
              "An error appears", "Change my address"]
    return [f"{topics[i % len(topics)]} {i}" for i in range(count)]


def lines_by_id(data):
    return {json.loads(line)["id"]: line for line in data.splitlines()}
