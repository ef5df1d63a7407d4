# SPDX-License-Identifier: Apache-2.0
"""Peer: llama-server on this machine, `cache_prompt` with one slot and with four in parallel."""

import concurrent.futures
import contextlib
import ctypes
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import workload as w

PEER = "llama-server"
SLOTS = 4
START_LIMIT_S = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(address, process):
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"llama-server ended with {process.returncode}")
        with contextlib.suppress(OSError, urllib.error.URLError):
            with urllib.request.urlopen(f"{address}/health", timeout=5) as reply:
                if reply.status == 200:
                    return
        time.sleep(0.2)
    raise RuntimeError(f"llama-server did not become ready in {START_LIMIT_S} s")


def end_with_parent():
    """Asks the kernel to end the server when this script dies, even if it is killed."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)


@contextlib.contextmanager
def server(options, slots=SLOTS, context=4096, flags=("--cache-ram", "0")):
    """Starts a server of our own, yields its address, and ends that very process."""
    port = free_port()
    command = [options.server, "-m", options.model, "-c", str(context), "-np", str(slots),
               "-t", str(options.threads), "--host", "127.0.0.1", "--port", str(port), *flags]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                   preexec_fn=end_with_parent)
        try:
            wait_until_ready(f"http://127.0.0.1:{port}", process)
            yield f"http://127.0.0.1:{port}"
        except RuntimeError:
            log.seek(0)
            sys.stderr.write(log.read()[-2000:].decode(errors="replace"))
            raise
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Client:
    def __init__(self, address, prefix):
        self.address, self.prefix = address, prefix

    def first_token(self, suffix, slot, cache_prompt):
        body = {"prompt": self.prefix + suffix, "n_predict": 1, "temperature": 0,
                "id_slot": slot, "cache_prompt": cache_prompt}
        request = urllib.request.Request(f"{self.address}/completion", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.load(reply)["content"]

    def run_full(self, suffixes):
        return [self.first_token(suffix, 0, cache_prompt=False) for suffix in suffixes]

    def run_cached(self, suffixes):
        return [self.first_token(suffix, 0, cache_prompt=True) for suffix in suffixes]

    def run_slots(self, suffixes):
        def lane(slot):
            return [self.first_token(s, slot, cache_prompt=True) for s in suffixes[slot::SLOTS]]

        answers = [""] * len(suffixes)
        with concurrent.futures.ThreadPoolExecutor(SLOTS) as pool:
            for slot, found in enumerate(pool.map(lane, range(SLOTS))):
                answers[slot::SLOTS] = found
        return answers


def version(binary):
    run = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    lines = (run.stdout + run.stderr).splitlines()
    return next((line.removeprefix("version: ") for line in lines if "version" in line), "unknown")


def main():
    parser = w.arguments(__doc__)
    parser.add_argument("--server", required=True, help="the llama-server program")
    options = parser.parse_args()
    load = w.Workload(options.prefix, options.tickets)
    with server(options) as address:
        client = Client(address, load.prefix)
        modes = {"cached": client.run_cached, f"cached, {SLOTS} slots": client.run_slots}
        if options.full:
            modes = {"full": client.run_full, **modes}
        for mode, run in modes.items():
            run(load.warm_up[:SLOTS])
            start = time.perf_counter()
            answers = run(load.suffixes)
            seconds = time.perf_counter() - start
            precision = pathlib.Path(options.model).stem.split("-")[-1].upper()
            w.report(PEER, version(options.server), mode, precision, seconds, load, answers)


if __name__ == "__main__":
    main()
