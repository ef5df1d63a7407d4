#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Brings the files of tools/pins.txt into the cache directory.

Archives come from the package registries through their own clients (`pip download`,
`npm pack`), by package name and version. Nothing is trusted for where it came from: an archive
is used only if its SHA-256 is the pinned one, and so is the file made of it. Every file is
written aside and renamed. A verified archive waits in downloads/ until its file is whole, so a
run that failed at part 4 goes on at part 4.

A finished file has a stamp in stamps/ with its hash, size and time; while they agree the next
run reads nothing more and asks no network.

    tools/fetch.py HOME            fetch what is missing
    tools/fetch.py HOME --tests    also what only tests need
    tools/fetch.py HOME --missing  only say what is missing, one "KIND PATH" a line
"""

import argparse
import base64
import csv
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

PINS = pathlib.Path(__file__).resolve().parent / "pins.txt"
MEGA = 1_000_000


class FetchError(Exception):
    """A failure with a message for the person who runs ./dev."""


@dataclasses.dataclass
class Archive:
    registry: str
    package: str
    version: str
    size: int
    sha256: str
    member: str


@dataclasses.dataclass
class Target:
    kind: str
    path: str
    sha256: str
    archives: list
    for_tests: bool = False


def read_pins(path):
    """Reads the table; an error names file and line."""
    targets = []
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#") or len(words) == 2:
            continue
        try:
            if words[0] in ("file", "tree", "test"):
                kind, name, sha256 = words
                for_tests = kind == "test"
                targets.append(Target("file" if for_tests else kind, name, sha256, [], for_tests))
            elif words[0] in CLIENTS:
                registry, package, version, size, sha256, member = words
                archive = Archive(registry, package, version, int(size), sha256, member)
                targets[-1].archives.append(archive)
            else:
                raise ValueError(f"unknown kind '{words[0]}'")
        except (ValueError, IndexError) as error:
            raise FetchError(f"{path}:{number}: {error}; see the top of the file") from error
    return targets


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def require_hash(path, name, expected):
    got = sha256_of(path)
    if got != expected:
        raise FetchError(f"{name}: wrong hash\n  expected {expected}\n  got      {got}")


# --- Registries ---------------------------------------------------------------------------------


def pip_command(archive, folder):
    # The platform is named, so that any Python gets the one wheel that is pinned.
    pip = shutil.which("pip3") or shutil.which("pip")
    if pip is None:
        raise FetchError("pip is missing: apt-get install python3-pip")
    return [
        pip, "download", "--quiet", "--no-deps", "--no-cache-dir", "--only-binary=:all:",
        "--implementation", "cp", "--python-version", "3.11",
        "--platform", "manylinux_2_28_x86_64", "--dest", str(folder),
        f"{archive.package}=={archive.version}",
    ]  # fmt: skip


def npm_command(archive, folder):
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError("npm is missing: apt-get install --no-install-recommends npm")
    return [
        npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder),
        f"{archive.package}@{archive.version}",
    ]  # fmt: skip


CLIENTS = {"pip": pip_command, "npm": npm_command}


def download(archive, downloads):
    """Returns the verified archive; one that an earlier run verified is taken as it is."""
    name = f"{archive.package} {archive.version}"
    kept = downloads / f"{archive.package}-{archive.version}"
    if kept.exists():
        print(f"    {name}: kept from an earlier run", flush=True)
        return kept
    print(f"    {name}: {archive.size / MEGA:.0f} MB", flush=True)
    with tempfile.TemporaryDirectory(dir=downloads, prefix=".part-") as folder:
        command = CLIENTS[archive.registry](archive, folder)
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, check=False)  # fmt: skip
        got = list(pathlib.Path(folder).iterdir())
        if done.returncode != 0 or len(got) != 1:
            raise FetchError(
                f"{name}: {archive.registry} failed with status {done.returncode}; what it said"
                " stands above. Run the same command again: it goes on at this archive"
            )
        require_hash(got[0], f"{name} ({got[0].name})", archive.sha256)
        got[0].rename(kept)
    return kept


# --- Assembly -----------------------------------------------------------------------------------


def copy_member(archive, path, out):
    """Appends the archive's member to the open file `out`."""
    try:
        if archive.registry == "npm":
            with tarfile.open(path) as tar:
                with tar.extractfile(archive.member) as stream:
                    shutil.copyfileobj(stream, out, 1 << 20)
        else:
            with zipfile.ZipFile(path) as wheel, wheel.open(archive.member) as stream:
                shutil.copyfileobj(stream, out, 1 << 20)
    except KeyError as error:
        raise FetchError(f"{path.name}: no member {archive.member}") from error


def assemble_file(target, paths, final):
    aside = final.with_name(f".{final.name}.part")
    try:
        with open(aside, "wb") as out:
            for archive, path in zip(target.archives, paths):
                copy_member(archive, path, out)
            out.flush()
            os.fsync(out.fileno())
        require_hash(aside, target.path, target.sha256)
        aside.rename(final)
    finally:
        aside.unlink(missing_ok=True)


def assemble_tree(target, paths, final):
    aside = final.with_name(f".{final.name}.part")
    shutil.rmtree(aside, ignore_errors=True)
    with zipfile.ZipFile(paths[0]) as wheel:
        wheel.extractall(aside)
    require_tree(target, aside)
    shutil.rmtree(final, ignore_errors=True)
    aside.rename(final)


def require_tree(target, root):
    """Checks the folder against its RECORD, and the RECORD against the pin."""
    record = root / target.archives[0].member
    require_hash(record, f"{target.path}/{target.archives[0].member}", target.sha256)
    with open(record, newline="", encoding="utf-8") as stream:
        for name, digest, _ in csv.reader(stream):
            if digest:
                raw = base64.urlsafe_b64decode(digest.removeprefix("sha256=") + "=")
                require_hash(root / name, f"{target.path}/{name}", raw.hex())


# --- The cache directory ------------------------------------------------------------------------


def stamp_of(target, final):
    status = final.stat()
    return f"{target.sha256} {status.st_size} {status.st_mtime_ns}\n"


class Cache:
    def __init__(self, home):
        self.home = home
        self.downloads = home / "downloads"
        self.stamps = home / "stamps"

    def is_ready(self, target):
        """True for a finished file. One without a stamp is hashed once, then stamped."""
        final = self.home / target.path
        if not final.exists():
            return False
        stamp = self.stamp_path(target)
        if stamp.exists() and stamp.read_text(encoding="ascii") == stamp_of(target, final):
            return True
        try:
            if target.kind == "file":
                require_hash(final, target.path, target.sha256)
            else:
                require_tree(target, final)
        except (FetchError, FileNotFoundError) as error:
            print(f"  {target.path} is fetched again: {error}", file=sys.stderr)
            return False
        self.write_stamp(target)
        return True

    def fetch(self, target):
        final = self.home / target.path
        final.parent.mkdir(parents=True, exist_ok=True)
        self.downloads.mkdir(parents=True, exist_ok=True)
        total = sum(archive.size for archive in target.archives) / MEGA
        print(f"  {target.path} ({len(target.archives)} archives, {total:.0f} MB)", flush=True)
        paths = []
        for archive in target.archives:
            paths.append(download(archive, self.downloads))
        try:
            assemble = assemble_file if target.kind == "file" else assemble_tree
            assemble(target, paths, final)
        except (zipfile.BadZipFile, tarfile.TarError) as error:
            raise FetchError(f"{target.path}: {error}") from error
        self.write_stamp(target)
        for path in paths:
            path.unlink()

    def stamp_path(self, target):
        return self.stamps / target.path.replace("/", "__")

    def write_stamp(self, target):
        self.stamps.mkdir(parents=True, exist_ok=True)
        stamp = self.stamp_path(target)
        aside = stamp.with_name(f".{stamp.name}.part")
        aside.write_text(stamp_of(target, self.home / target.path), encoding="ascii")
        aside.rename(stamp)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("home", type=pathlib.Path, help="the cache directory")
    parser.add_argument("--missing", action="store_true", help="only say what is missing")
    parser.add_argument("--tests", action="store_true", help="also what only tests need")
    parser.add_argument("--pins", type=pathlib.Path, default=PINS, help="another table")
    options = parser.parse_args(arguments)
    try:
        cache = Cache(options.home)
        wanted = [t for t in read_pins(options.pins) if options.tests or not t.for_tests]
        missing = [t for t in wanted if not cache.is_ready(t)]
        if options.missing:
            for target in missing:
                print(target.archives[0].registry, target.path)
            return 0
        for target in missing:
            cache.fetch(target)
    except FetchError as error:
        print(f"fetch: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"fetch: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
