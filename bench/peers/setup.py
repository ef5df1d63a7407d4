#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets up the peers that incipit is compared with, in $INCIPIT_HOME/peers.

transformers and OpenVINO GenAI each get a virtual environment from pinned, hashed packages;
llama-server is built for this very machine from the llama.cpp checkout that ./dev made, and its
llama-quantize makes the Q4_0 and Q8_0 files. About 0.7 GB to download and 20 minutes on two
cores the first time; what is there already is kept. A peer that fails does not stop the others:
its reason is kept for run.py.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import cuda_stand_ins
import llama_server_peer
import places

HERE = pathlib.Path(__file__).resolve().parent
# llama.cpp's switches by the kernel's names, without AMX.
INSTRUCTIONS = {"sse4_2": "SSE42", "avx": "AVX", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C",
                "bmi2": "BMI2", "avx512f": "AVX512", "avx512vbmi": "AVX512_VBMI",
                "avx512_vnni": "AVX512_VNNI", "avx512_bf16": "AVX512_BF16",
                "avx_vnni": "AVX_VNNI"}


def run(peer, *command):
    """Runs a command with its output in the peer's log; a failure names the log's last lines."""
    log = places.peer_folder(peer) / "setup.log"
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(map(str, command))}\n")
        file.flush()
        done = subprocess.run(list(map(str, command)), stdout=file, stderr=subprocess.STDOUT,
                              check=False)
    if done.returncode != 0:
        lines = log.read_text(errors="replace").splitlines()[-3:]
        raise RuntimeError(f"{pathlib.Path(command[0]).name} ended with {done.returncode} "
                           f"(log: {log}): {' / '.join(lines)}")


def set_up_environment(peer):
    venv = places.peer_folder(peer) / "venv"
    run(peer, sys.executable, "-m", "venv", "--clear", venv)
    run(peer, venv / "bin" / "pip", "install", "--no-deps", "--require-hashes", "--only-binary",
        ":all:", "-r", HERE / f"requirements-{peer}.txt")


def set_up_transformers(_options):
    set_up_environment("transformers")
    python = places.python_of("transformers")
    found = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                           check=True, capture_output=True, text=True).stdout.strip()
    cuda_stand_ins.install(pathlib.Path(found) / "torch" / "lib")
    run("transformers", python, "-c", "import torch, transformers; torch.ones(2) + 1")


def set_up_llama_server(options):
    if not (options.llama_source / "CMakeLists.txt").exists():
        raise RuntimeError(f"no llama.cpp checkout at {options.llama_source}: run ./dev demo first "
                           "or name one with --llama-source")
    try:
        build_llama_server(options, ["-DGGML_NATIVE=ON"])
    except RuntimeError as error:
        known = set(pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
        if "amx_tile" not in known:
            raise
        # Some virtual CPUs announce AMX and stop whoever uses it; on others only llama-server dies.
        # Switches of its own, because -march=native less AMX was 1.6 times slower.
        print(f"llama-server: {error}; once more without AMX", flush=True)
        build_llama_server(options, ["-DGGML_NATIVE=OFF"] + [
            f"-DGGML_{switch}={'ON' if name in known else 'OFF'}"
            for name, switch in INSTRUCTIONS.items()])


def build_llama_server(options, instructions):
    """Builds the server and its tool, makes its model file, and starts it once."""
    build = places.llama_build()
    switches = [f"-D{name}=OFF" for name in (
        "BUILD_SHARED_LIBS", "LLAMA_OPENSSL", "LLAMA_BUILD_UI", "LLAMA_USE_PREBUILT_UI",
        "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP")]
    if shutil.which("ccache"):
        switches += [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")]
    run("llama-server", "cmake", "--fresh", "-S", options.llama_source, "-B", build, "-G", "Ninja",
        "-DCMAKE_BUILD_TYPE=Release", *instructions, *switches)
    run("llama-server", "cmake", "--build", build, f"-j{options.jobs}", "--target",
        "llama-server", "llama-quantize")
    quantise("llama-server")
    trial = argparse.Namespace(server=build / "bin" / "llama-server",
                               model=places.model_of("llama-server"), threads=options.jobs)
    with llama_server_peer.server(trial):
        pass


def quantise(peer):
    """Makes the peer's model file of ours, aside and renamed, so that it is whole or absent."""
    target = places.model_of(peer)
    if target.exists():
        return
    if not places.default_model().exists():
        raise RuntimeError(f"no model at {places.default_model()}: run ./dev demo first")
    aside = target.with_suffix(".part")
    run(peer, places.llama_build() / "bin" / "llama-quantize", "--allow-requantize",
        places.default_model(), aside, places.QUANTISED[peer])
    aside.rename(target)


def set_up_openvino_genai(_options):
    set_up_environment("openvino-genai")
    if not (places.llama_build() / "bin" / "llama-quantize").exists():
        raise RuntimeError("its Q8_0 file needs llama-quantize: set up llama-server first")
    quantise("openvino-genai")
    run("openvino-genai", places.python_of("openvino-genai"), "-c", "import openvino_genai")


STEPS = {  # llama-server first: its llama-quantize makes OpenVINO GenAI's file.
    "llama-server": set_up_llama_server,
    "openvino-genai": set_up_openvino_genai,
    "transformers": set_up_transformers,
}


def recipe(peer):
    """What a finished set-up was made from; another recipe means to do it again."""
    sources = [HERE / "setup.py", HERE / "cuda_stand_ins.py", HERE / f"requirements-{peer}.txt"]
    text = b"".join(path.read_bytes() for path in sources if path.exists())
    return hashlib.sha256(text).hexdigest()


def set_up(peer, options):
    stamp, note = places.ready_stamp(peer), places.failure_note(peer)
    if stamp.exists() and stamp.read_text() == recipe(peer):
        print(f"{peer}: ready", flush=True)
        return True
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    note.unlink(missing_ok=True)
    print(f"{peer}: setting up, log in {stamp.parent / 'setup.log'}", flush=True)
    try:
        STEPS[peer](options)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        note.write_text(f"{error}\n")
        print(f"{peer}: failed: {error}", file=sys.stderr, flush=True)
        return False
    stamp.write_text(recipe(peer))
    print(f"{peer}: ready", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="+", choices=places.PEERS, default=list(STEPS))
    parser.add_argument("--llama-source", type=pathlib.Path,
                        default=places.home() / "src" / "llama.cpp")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    done = [set_up(peer, options) for peer in STEPS if peer in options.peers]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
