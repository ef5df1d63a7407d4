# SPDX-License-Identifier: Apache-2.0
"""Where the peers live: $INCIPIT_HOME/peers, apart from our own build."""

import os
import pathlib

DEFAULT_MODEL = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
PEERS = ("transformers", "openvino-genai", "llama-server")
QUANTISED = {"llama-server": "Q4_0", "openvino-genai": "Q8_0"}


def home():
    if named := os.environ.get("INCIPIT_HOME"):
        return pathlib.Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "incipit"


def peer_folder(peer):
    return home() / "peers" / peer


def python_of(peer):
    return peer_folder(peer) / "venv" / "bin" / "python"


def llama_build():
    return peer_folder("llama-server") / "build"


def default_model():
    return home() / "models" / DEFAULT_MODEL


def model_of(peer):
    """The file that a peer runs: ours, or one that llama-quantize made of it."""
    if peer not in QUANTISED:
        return default_model()
    return peer_folder(peer) / f"{default_model().stem.rsplit('-', 1)[0]}-{QUANTISED[peer]}.gguf"


def ready_stamp(peer):
    return peer_folder(peer) / "ready"


def failure_note(peer):
    return peer_folder(peer) / "failure.txt"
