#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Feeds every rule of tidy.py a small bad file, and a good one that it must leave alone."""

import pathlib
import subprocess
import tempfile
import unittest

import tidy

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
HEADER = SPDX + "#pragma once\n"


def function_of(lines):
    return "int f(int x) {\n" + "  x += 1;\n" * (lines - 2) + "}\n"


class TidyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def findings(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        found = [f"{path}:{line}: {message}" for path, line, message in tidy.check_tree(self.root)]
        for name in files:
            (self.root / name).unlink()
        return found

    def expect(self, name, text, wanted):
        found = self.findings({name: text})
        self.assertEqual(len(found), 1, found)
        self.assertIn(wanted, found[0])

    def expect_clean(self, name, text):
        self.assertEqual(self.findings({name: text}), [])

    def test_layers(self):
        up = '#include "engine/pipeline.h"\n'
        self.expect("src/store/a.h", HEADER + up, "src/store/a.h:3: src/store includes")
        self.expect("src/store/a.h", HEADER + '#include "api/x.h"\n', "lies above it")
        self.expect_clean("src/store/a.h", HEADER + '#include "base/file.h"\n')

    def test_public_api_includes_only_itself(self):
        self.expect("include/incipit/a.h", HEADER + '#include "base/file.h"\n', "only itself")
        self.expect_clean("include/incipit/a.h", HEADER + '#include "incipit/types.h"\n')

    def test_tiers_do_not_include_each_other(self):
        self.expect("src/kv/a.h", HEADER + '#include "exact/b.h"\n', "another tier")

    def test_third_party_headers_have_one_owner(self):
        self.expect("src/api/a.h", HEADER + "#include <llama.h>\n", "only src/model")
        self.expect("apps/incipit/a.h", HEADER + "#include <openvino/core.hpp>\n", "src/model")
        self.expect("src/api/a.h", HEADER + "#include <boost/beast.hpp>\n", "only src/server")
        self.expect_clean("src/api/a.h", HEADER)
        self.expect("apps/incipit/a.h", HEADER + '#include "gguf.h"\n', "only src/model")

    def test_file_length(self):
        self.expect("src/base/a.h", HEADER + "int x;\n" * 599, "601 lines")
        self.expect_clean("src/base/a.h", HEADER + "int x;\n" * 598)

    def test_function_length(self):
        self.expect("src/base/a.h", HEADER + function_of(71), "a.h:3: a function of 71 lines")
        self.expect_clean("src/base/a.h", HEADER + function_of(70))
        body = "class A {\n int f() const\n {\n" + "  g();\n" * 70 + " }\n};\n"
        self.expect("src/base/a.h", HEADER + "namespace n {\n" + body + "}\n", "a.h:5: a function")
        braces = 'const char* kOpen = "{";  // {\nchar c = \'{\';\n'
        self.expect_clean("src/base/a.h", HEADER + braces + function_of(10))
        self.expect_clean("src/base/a.h", HEADER + "struct A {\n" + "  int x;\n" * 90 + "};\n")
        python = "# SPDX-License-Identifier: Apache-2.0\ndef f():\n" + "    x = 1\n" * 70
        self.expect("tools/a.py", python, "a.py:2: a function of 71 lines")

    def test_macros_do_not_move_line_numbers(self):
        macro = "#define A(x) \\\n  { \\\n  x\n"
        self.expect("src/base/a.h", HEADER + macro + function_of(71), "a.h:6: a function")

    def test_banned_words(self):
        self.expect("src/base/a.h", HEADER + "// The tr" + "ie of labels.\n", "a.h:3: 'tr")
        self.expect("docs/a.md", "# A\n\nPur" + "ge it.\n", "a.md:3: 'Pur")
        self.expect_clean("docs/a.md", "# A\n")
        self.expect_clean("src/base/a.h", HEADER + "int sqlite3_bind_" + "bl" + "ob;\n")

    def test_banned_calls(self):
        for call in ("std::cout << 1;", "exit(1);", "throw 1;", "std::stoi(s);", "assert(x);",
                     "rand();", "auto p = new A();", "delete p;", "sprintf(b, s);",
                     "std::regex r;", "std::this_thread::sleep_for(x);"):  # fmt: skip
            with self.subTest(call):
                self.expect("src/base/a.h", HEADER + "  " + call + "\n", "use ")
        good = ("A(const A&) = delete;", "// throw away", 'f("exit(1)");', "p.exit(1);",
                "return std::unique_ptr<A>(new A(1));", "static_assert(x);")  # fmt: skip
        for call in good:
            with self.subTest(call):
                self.expect_clean("src/base/a.h", HEADER + "  " + call + "\n")

    def test_source_needs_a_test(self):
        self.expect("src/base/a.cc", SPDX, "src/base/a.cc:1: no test")
        for test in ("", '#include "base/a.h"\n', "// Tests src/base/a.cc: by its use.\n"):
            name = "src/base/b_test.cc" if test else "src/base/a_test.cc"
            self.assertEqual(self.findings({"src/base/a.cc": SPDX, name: SPDX + test}), [])

    def test_todo_needs_an_issue(self):
        self.expect("src/base/a.h", HEADER + "// TO" + "DO: later\n", "needs an issue")
        self.expect_clean("src/base/a.h", HEADER + "// TO" + "DO(#12): later\n")

    def test_skipped_tests(self):
        self.expect("src/base/a_test.cc", SPDX + "GTEST_" + "SKIP();\n", "skipped test")
        self.expect("src/base/a_test.cc", SPDX + "TEST(A, DISABLED_" + "B) {}\n", "skipped test")

    def test_hosts_and_paths(self):
        self.expect("docs/a.md", "# A\nhttps://else" + "where.org/x\n", "host elsewhere.org")
        self.expect("docs/a.md", "# A\nregis" + "try.acme.org\n", "host regis")
        self.expect("docs/a.md", "# A\n/ro" + "ot/x\n", "one machine only")
        self.expect("docs/a.md", "# A\n/home" + "/ann/x\n", "one machine only")
        self.expect_clean("docs/a.md", "# A\nhttp://127.0.0.1:8080/x ~/.cache $HOME/notes/x\n")

    def test_ascii(self):
        self.expect("src/base/a.h", HEADER + "// \u2014\n", "a.h:3: U+2014")
        self.expect_clean("src/base/a.h", HEADER)
        self.expect_clean("tests/golden/a.txt", "\u2014\n")

    def test_heads(self):
        self.expect("src/base/a.h", "#pragma once\n", "SPDX")
        self.expect("src/base/a.h", SPDX, "#pragma once")

    def test_names(self):
        for name in ("src/base/string_utils.h", "src/common/a.h", "src/base/cache_manager.h"):
            with self.subTest(name):
                found = self.findings({name: HEADER})
                self.assertEqual(len(found), 1, found)

    def test_documents(self):
        self.expect("docs/a.md", "# A\n\n# B\n", "2 titles")
        self.expect("docs/a.md", "# A\n[x](gone.md)\n", "leads nowhere")
        self.expect_clean("docs/a.md", "# A\n[x](a.md#b)\n```sh\n# not a title\n```\n")

    def test_text_that_is_not_utf8(self):
        (self.root / "a.h").write_bytes(b"\xff\n")
        self.assertEqual(self.findings({}), ["a.h:1: is not UTF-8"])


if __name__ == "__main__":
    unittest.main()
