#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The project's own rules that neither compiler nor clang-tidy knows.

Each rule is a function that yields (line, message); each message says what to do. tidy_test.py
feeds every rule a small bad file.

    tools/tidy.py [ROOT]
"""

import ast
import pathlib
import re
import subprocess
import sys

# A folder includes itself and the folders before it (ARCHITECTURE.md). `include` is the public
# API and includes itself only. The tiers stand on one level: none includes another.
LAYERS = ["include", "src/base", "src/model", "src/policy", "src/store", "src/prompt",
          "src/exact", "src/semantic", "src/kv", "src/decode", "src/engine", "src/api",
          "src/server", "apps"]  # fmt: skip
TIERS = {"src/exact", "src/semantic", "src/kv"}

# Third-party headers that only one folder may see.
OWNED_HEADERS = [
    (re.compile(r"^(llama|ggml|gguf|jinja/|openvino/)"), "src/model"),
    (re.compile(r"^boost/"), "src/server"),
]

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

BANNED_WORDS = {
    "tr" + "ie": "label tree, or radix tree for prefixes",
    "bl" + "ob": "KV state, or bytes",
    "pur" + "ge": "eviction, expiry or invalidation",
    "prim" + "ing": "warm-up",
    "hit" + " rate": "hit ratio or token hit ratio",
    "FIX" + "ME": "an issue and TODO(#number)",
}
BANNED_NAME = re.compile(r"(^|[_/.-])(utils?|common|helpers?|managers?|v2|new|impl2)([_/.-]|$)")

# Calls in src/ and what to write instead.
BANNED_CALLS = [
    (r"std::c(out|err)\b|(?<![\w.>:])(printf|puts|fprintf)\s*\(", "EngineOptions::on_event; the library never prints"),
    (r"(?<![\w.>])(std::)?(_?exit|quick_exit|abort)\s*\(", "a Result, or INCIPIT_CHECK; the library never exits"),
    (r"\bthrow\b(?!\s*\()", "failure(ErrorCode, message)"),
    (r"(?<![\w.>])(std::)?assert\s*\(", "INCIPIT_CHECK"),
    (r"\bstd::sto(i|l|ll|ul|ull|f|d|ld)\b|(?<![\w.>])(std::)?(ato[ifl]|strto[a-z]+)\s*\(", "std::from_chars; no exceptions, no locale"),
    (r"(?<![\w.>])(std::)?(s|vs)printf\s*\(|\bstr(cpy|cat)\s*\(", "std::string"),
    (r"(?<![\w.>])(std::)?s?rand\s*\(|\bstd::random_device\b", "a seeded generator that the caller hands in"),
    (r"\bsleep_for\b|(?<![\w.>])u?sleep\s*\(", "a wait with a deadline and a stop_token"),
    (r"(?<![>\w]\()\bnew\s+[A-Za-z_:]+\s*[({\[]|(?<!=)\s\bdelete(\[\])?\s+[a-z]", "std::make_unique, or unique_ptr<T>(new T) for a private constructor"),
    (r"\bstd::regex\b", "a parser by hand; std::regex can recurse without bound"),
]  # fmt: skip
BANNED_CALLS = [(re.compile(pattern), instead) for pattern, instead in BANNED_CALLS]
CALLS_ALLOWED = {
    "src/base/check.h",  # Ends the process: that is what it is for.
    "src/model/cpu.cc",  # Ends a child process that tried an instruction.
}

ALLOWED_HOSTS = {"localhost", "127.0.0.1", "example.com", "www.apache.org", "www.w3.org"}
HOST = re.compile(r"https?://\[?([\w.:-]+?)\]?(?=[:/\s\"'`)>,;]|$)")
REGISTRY_HOST = re.compile(
    r"\b(registry|index|proxy|repo1?|static|deb|files|mirrors?|pypi|crates)\.[a-z0-9-]+"
    r"(\.[a-z0-9-]+)*\.?(org|com|net|io|dev)\b"
)
HOME_PATH = re.compile(r"(?<![\w.$}])/(root|home/\w+|Users/\w+|work|tmp/wt)(/|\b)")
TODO = re.compile(r"\bTODO\b(?!\(#\d+\))")
SKIPPED_TEST = re.compile(r"\bGTEST_SKIP\b|\bDISABLED_|SKIP_RETURN_CODE|\bunittest\.skip|pytest\.skip")

CODE = {".cc", ".h", ".py", ".cmake", ".in", ".txt", ".sh", ""}
PROSE = {".md"}


# --- Rules on one file --------------------------------------------------------------------------


def strip_cpp(text):
    """Blanks comments and literals, keeping every newline, so that rules see only code."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'',
        re.S,
    )

    def blank(match):
        found = match.group(0)
        newlines = "\n" * found.count("\n")
        return newlines if found.startswith("/") else '""' + newlines

    return pattern.sub(blank, text)


def layer_of(path):
    for index, layer in enumerate(LAYERS):
        if path.startswith(layer + "/"):
            return index
    return None


def check_layers(path, text):
    own = layer_of(path)
    is_test = path.endswith("_test.cc")
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        header = match.group(2)
        for pattern, owner in OWNED_HEADERS:
            if pattern.match(header) and not path.startswith((owner + "/", "tests/", "bench/")):
                yield number, f"only {owner} includes {header}: use what {owner} offers"
        if match.group(1) == "<" or own is None:
            continue
        folder = header.split("/")[0]
        other = "include" if folder == "incipit" else f"src/{folder}"
        if other not in LAYERS:
            continue
        if LAYERS[own] == "include" and other != "include":
            yield number, f"the public API includes only itself, not {header}"
        elif LAYERS.index(other) > own and not is_test:
            yield number, f"{LAYERS[own]} includes {header}, which lies above it: turn it round"
        elif {LAYERS[own], other} <= TIERS and LAYERS[own] != other:
            yield number, f"a tier includes another tier ({header}): let engine join them"


def check_length(_, text):
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield 1, f"{lines} lines; split it: {FILE_LINES_MAX} is the limit, 400 the aim"


def blank_directives(code):
    lines, goes_on = [], False
    for line in code.split("\n"):
        directive = goes_on or line.lstrip().startswith("#")
        goes_on = directive and line.endswith("\\")
        lines.append("" if directive else line)
    return "\n".join(lines)


def cpp_functions(text):
    """Yields (first line, lines) of each function body at namespace or class level."""
    code = blank_directives(strip_cpp(text))
    stack, start = [], 0
    for position, char in enumerate(code):
        if char == "{":
            head = code[start:position]
            stack.append((block_kind(head, stack), start + len(head) - len(head.lstrip())))
            start = position + 1
        elif char == "}":
            kind, begin = stack.pop() if stack else ("inner", position)
            if kind == "function":
                yield code.count("\n", 0, begin) + 1, code.count("\n", begin, position) + 1
            start = position + 1
        elif char == ";":
            start = position + 1


def block_kind(head, stack):
    outer = stack[-1][0] if stack else "space"
    if outer not in ("space", "type"):
        return "inner"
    if re.search(r"\bnamespace\b[^()]*$", head) or re.search(r'\bextern\s*""\s*$', head):
        return "space"
    if re.search(r"\b(class|struct|union|enum)\b[^()=]*$", head):
        return "type"
    return "function" if "(" in head and not re.search(r"=\s*$", head) else "inner"


def check_functions(path, text):
    if path.endswith(".py"):
        functions = (
            (node.lineno, node.end_lineno - node.lineno + 1)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        )
    else:
        functions = cpp_functions(text)
    for first, lines in functions:
        if lines > FUNCTION_LINES_MAX:
            yield first, f"a function of {lines} lines; split it: {FUNCTION_LINES_MAX} is the limit"


def check_words(path, text):
    if path in ("docs/glossary.md", "tools/tidy.py") or path.startswith("third_party/"):
        return
    for word, instead in BANNED_WORDS.items():
        for match in re.finditer(rf"\b{word}\b", text, re.I):
            yield text.count("\n", 0, match.start()) + 1, f"'{match.group(0)}': write {instead}"


def check_calls(path, text):
    if path in CALLS_ALLOWED or path.endswith("_test.cc"):
        return
    for number, line in enumerate(strip_cpp(text).splitlines(), 1):
        for pattern, instead in BANNED_CALLS:
            match = pattern.search(line)
            if match:
                yield number, f"'{match.group(0).strip()}': use {instead}"


def check_lines(path, text):
    """Rules that look at one line of any file."""
    own_rules = path in ("tools/tidy.py", "tools/tidy_test.py")
    for number, line in enumerate(text.splitlines(), 1):
        if TODO.search(line) and not own_rules:
            yield number, "a TO" + "DO needs an issue: TODO(#number)"
        if SKIPPED_TEST.search(line) and not own_rules:
            yield number, "a skipped test proves nothing: make it run or delete it"
        for match in HOST.finditer(line):
            if match.group(1) not in ALLOWED_HOSTS and not own_rules:
                yield number, f"names the host {match.group(1)}: name the project or package"
        match = REGISTRY_HOST.search(line)
        if match:
            yield number, f"names the host {match.group(0)}: name the registry's client"
        match = HOME_PATH.search(line)
        if match:
            yield number, f"the path {match.group(0)} exists on one machine only"


def check_ascii(_, text):
    for number, line in enumerate(text.splitlines(), 1):
        odd = next((char for char in line if ord(char) > 126 or (ord(char) < 32 and char != "\t")), None)
        if odd:
            yield number, f"U+{ord(odd):04X}: write ASCII; in a string an escape"


def check_spdx(_, text):
    head = "\n".join(text.splitlines()[:2])
    if "SPDX-License-Identifier: Apache-2.0" not in head:
        yield 1, "begin with the line SPDX-License-Identifier: Apache-2.0"


def check_header(_, text):
    if "#pragma once" not in text:
        yield 1, "a header needs #pragma once"


def check_markdown(path, text):
    """One title, and links that lead somewhere."""
    prose = re.sub(r"```.*?```", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    titles = [n for n, line in enumerate(prose.splitlines(), 1) if line.startswith("# ")]
    if len(titles) != 1 and not path.startswith("changes/"):
        yield (titles[1] if titles else 1), f"{len(titles)} titles ('# '): a document has one"


def rules_for(path):
    """The rules that a file is under, by its name."""
    suffix = pathlib.PurePosixPath(path).suffix
    cpp = suffix in (".cc", ".h")
    rules = []
    if suffix in CODE | PROSE and not path.startswith(("LICENSE", "examples/", "tests/golden/")):
        rules += [check_words, check_lines, check_ascii]
    if cpp or suffix == ".py":
        rules += [check_length, check_functions, check_spdx]
    if cpp:
        rules += [check_layers]
    if suffix == ".h":
        rules += [check_header]
    if cpp and path.startswith("src/"):
        rules += [check_calls]
    if suffix == ".md":
        rules += [check_markdown]
    return rules


# --- Rules on the whole tree --------------------------------------------------------------------


def check_names(paths):
    for path in paths:
        if path.startswith("third_party/"):
            continue
        for part in pathlib.PurePosixPath(path).parts:
            match = BANNED_NAME.search(pathlib.PurePosixPath(part).stem)
            if match:
                yield path, 1, f"'{match.group(2)}' in a name says nothing: name what it holds"


def check_tests_exist(root, paths):
    """A source has its test beside it, or another test includes its header or names the file."""
    tests = [path for path in paths if path.endswith("_test.cc")]
    text = "\n".join((root / path).read_text(encoding="utf-8", errors="replace") for path in tests)
    for path in paths:
        if not path.startswith("src/") or not path.endswith(".cc") or path in tests:
            continue
        stem = path.removesuffix(".cc")
        header = f'#include "{stem.removeprefix("src/")}.h"'
        if f"{stem}_test.cc" in tests or header in text or f"// Tests {path}" in text:
            continue
        yield path, 1, f"no test: write {stem}_test.cc, or begin another test with '// Tests {path}'"


def check_links(root, paths):
    for path in paths:
        if not path.endswith(".md"):
            continue
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        for match in re.finditer(r"\]\((?!https?:|#|mailto:)([^)#\s]+)[^)]*\)", text):
            if not (root / path).parent.joinpath(match.group(1)).exists():
                line = text.count("\n", 0, match.start()) + 1
                yield path, line, f"the link {match.group(1)} leads nowhere"


def tracked_files(root):
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"]
    names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    return sorted(name for name in names if name and (root / name).is_file())


def check_tree(root):
    """Yields (path, line, message) for everything that is wrong under `root`."""
    paths = tracked_files(root)
    yield from check_names(paths)
    yield from check_tests_exist(root, paths)
    yield from check_links(root, paths)
    for path in paths:
        rules = rules_for(path)
        if not rules:
            continue
        try:
            text = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            yield path, 1, "is not UTF-8"
            continue
        for rule in rules:
            for line, message in rule(path, text):
                yield path, line, message


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else __file__).resolve()
    root = root if root.is_dir() else root.parent.parent
    findings = list(check_tree(root))
    for path, line, message in findings:
        print(f"{path}:{line}: {message}")
    print(f"tidy: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
