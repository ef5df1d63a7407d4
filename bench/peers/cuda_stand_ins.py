# SPDX-License-Identifier: Apache-2.0
"""Lets the CUDA build of PyTorch load on a machine without CUDA.

PyTorch's wheel on the package index is the CUDA build. Its libraries name a dozen NVIDIA
libraries of some 2.5 GB that a run on the CPU never calls, yet the loader wants them. This puts
small libraries of the same names beside PyTorch: each symbol is there and stops the program with
its library's name if it is called after all. The CUDA runtime itself is called while loading, so
it must be the real one (nvidia-cuda-runtime, 2 MB).
"""

import pathlib
import re
import subprocess
import tempfile

# Libraries whose functions carry no version: told apart by how their names begin. The driver
# (libcuda) has no stand-in: without it the CUDA runtime reports "no device", which is the truth.
UNVERSIONED = {
    "libcufile.so.": "cuFile",
    "libcusparseLt.so.": "cusparseLt",
    "libnccl.so.": "nccl",
}
NVIDIA = re.compile(r"lib(cu(?!da)|nccl|nvrtc|nvshmem|nvJitLink)")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed_libraries(libraries):
    """The NVIDIA libraries that the given ones name, the CUDA runtime aside."""
    names = set()
    for library in libraries:
        found = re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", library))
        names.update(name for name in found if NVIDIA.match(name))
    return sorted(names)


def needed_versions(libraries):
    """Maps each symbol version that the given libraries import to the library that has it."""
    owners = {}
    for library in libraries:
        soname = ""
        for line in output("readelf", "-V", "-W", library).splitlines():
            if found := re.search(r"Version: 1  File: (\S+)", line):
                soname = found[1]
            elif soname and (found := re.search(r"Name: (\S+)  Flags", line)):
                owners[found[1]] = soname
    return owners


def wanted_symbols(libraries):
    """Pairs of symbol and version (empty if it has none) that the given libraries import."""
    symbols = set()
    for library in libraries:
        for line in output("nm", "-D", "--undefined-only", library).splitlines():
            name, _, version = line.split()[-1].partition("@")
            symbols.add((name, version.lstrip("@")))
    return sorted(symbols)


def symbols_of(soname, symbols, owners):
    """What `soname` has to define, by version."""
    by_version = {}
    prefix = next((p for name, p in UNVERSIONED.items() if soname.startswith(name)), None)
    for name, version in symbols:
        if owners.get(version) == soname or (not version and prefix and name.startswith(prefix)):
            by_version.setdefault(version, []).append(name)
    return by_version


def build_stand_in(soname, by_version, folder):
    """Compiles one library that defines the given symbols under their versions."""
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch, "stand_in.c")
        text = "#include <stdlib.h>\n#include <unistd.h>\n"
        text += f'static const char text[] = "a stand-in for {soname} was called\\n";\n'
        text += "static void stop(void) { (void)!write(2, text, sizeof text - 1); abort(); }\n"
        names = [name for version in by_version.values() for name in version]
        source.write_text(text + "".join(f"void {name}(void) {{ stop(); }}\n" for name in names))
        script = pathlib.Path(scratch, "versions")
        script.write_text("".join(f"{version} {{ global: {'; '.join(versioned)}; }};\n"
                                  for version, versioned in by_version.items() if version))
        command = ["cc", "-shared", "-fPIC", "-fno-builtin", "-w", f"-Wl,-soname,{soname}"]
        if script.stat().st_size:
            command.append(f"-Wl,--version-script,{script}")
        subprocess.run([*command, "-o", str(folder / soname), str(source)], check=True)


def install(folder):
    """Builds the stand-ins for every NVIDIA library that the libraries in `folder` name."""
    libraries = sorted(str(path) for path in folder.glob("*.so"))
    symbols, owners = wanted_symbols(libraries), needed_versions(libraries)
    for soname in needed_libraries(libraries):
        build_stand_in(soname, symbols_of(soname, symbols, owners), folder)
