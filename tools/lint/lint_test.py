#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lints find what they are for, and nothing else, on small trees made here."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import addresses  # noqa: E402
import common  # noqa: E402
import docs  # noqa: E402
import format  # noqa: E402
import headers  # noqa: E402
import layers  # noqa: E402
import packages_check  # noqa: E402
import prose  # noqa: E402
import rooms  # noqa: E402
import text  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import budget  # noqa: E402
import floors  # noqa: E402
import required  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "build"))
import suites  # noqa: E402

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
OPEN_END = "TO" + "DO"


class Tree(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, name: str, content: str = "") -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def found(self, check) -> list[tuple[str, int, str]]:
        return [(finding.path, finding.line, finding.rule) for finding in check(self.root)]


class Layers(Tree):
    def test_downwards_directly_and_through_others(self):
        self.write("tern/base/b.hpp")
        self.write("tern/net/n.hpp")
        self.write("tern/mobile/m.hpp", "#include <tern/net/n.hpp>\n#include <tern/base/b.hpp>\n")
        self.write("tern/tern.hpp", "#include <tern/mobile/m.hpp>\n")
        self.assertEqual(self.found(layers.check), [])

    def test_upwards(self):
        self.write("tern/net/n.hpp")
        self.write("tern/task/t.cpp", SPDX + "#include <vector>\n  #  include <tern/net/n.hpp>\n")
        self.assertEqual(self.found(layers.check), [("tern/task/t.cpp", 3, "layers")])
        self.assertIn("task may include base trace task", layers.check(self.root)[0].message)

    def test_sideways(self):
        self.write("tern/hetero/h.hpp")
        self.write("tern/net/n.hpp", "#include <tern/hetero/h.hpp>\n")
        self.write("tern/global/g.hpp", "#include <tern/hetero/h.hpp>\n#include <tern/net/n.hpp>\n")
        self.assertEqual(self.found(layers.check), [("tern/net/n.hpp", 1, "layers")])

    def test_relative_paths_are_followed(self):
        self.write("tern/net/n.hpp")
        self.write("tern/base/own.hpp")
        self.write("tern/base/b.hpp", '#include "own.hpp"\n#include "../net/n.hpp"\n')
        self.assertEqual(self.found(layers.check), [("tern/base/b.hpp", 2, "layers")])

    def test_nothing_outside_tern_and_not_tern_hpp(self):
        self.write("tern/tern.hpp")
        self.write("apps/mesh/a.hpp")
        self.write("tern/mobile/m.cpp", "#include <tern/tern.hpp>\n#include <apps/mesh/a.hpp>\n")
        self.assertEqual(self.found(layers.check), [("tern/mobile/m.cpp", 1, "layers"), ("tern/mobile/m.cpp", 2, "layers")])

    def test_unknown_layer(self):
        self.write("tern/attic/a.hpp")
        self.assertEqual(self.found(layers.check), [("tern/attic/a.hpp", 1, "layers")])

    def test_cmake_dependencies(self):
        self.write("tern/base/CMakeLists.txt", "# note\ntern_layer(base SOURCES a.cpp\n  DEPENDS task TESTS a_test.cpp)\n")
        self.write("tern/mobile/CMakeLists.txt", "tern_layer(mobile DEPENDS net PRIVATE fmt::fmt)\n")
        self.assertEqual(self.found(layers.check), [("tern/base/CMakeLists.txt", 2, "layers")])

    def test_dependants(self):
        self.assertEqual(layers.with_dependants({"mobile"}), ["mobile", "balance", "global"])
        self.assertEqual(layers.with_dependants({"base"}), list(layers.GRAPH))
        self.assertEqual(layers.touched(["tern/net/transport/mpi/plugin.cpp", "README.md", "tern/tern.hpp", ""]), {"net"})
        self.assertEqual(layers.touched(["apps/mesh/mesh.cpp"]), {"mesh"})
        self.assertEqual(layers.touched(["tools/tern/run.cpp", "tools/lint/text.py"]), {"tool"})
        self.assertEqual(layers.touched(["CMakeLists.txt"]), set(layers.GRAPH))


class Addresses(Tree):
    def lines(self, *code: str) -> list[int]:
        self.write("tern/task/a.cpp", "\n".join(code) + "\n")
        found = self.found(addresses.check)
        self.assertEqual({(name, rule) for name, _, rule in found} - {("tern/task/a.cpp", "address")}, set())
        return [line for _, line, _ in found]

    def test_containers(self):
        self.assertEqual(self.lines(
            "std::map<const fiber*, int> a;",
            "std::unordered_set<std::pair<int, void*>> b;",
            "std::set<std::shared_ptr<node>> c;",
            "std::multimap<std::uintptr_t, std::string> d;",
            "std::map<std::thread::id, int> e;",
            "std::set<",
            "    fiber*> f;",
            "std::map<fiber*, int, std::less<>> g;",
            "auto h = std::hash<const void*>{}(p);",
            "bool i = std::less<fiber*>()(p, q);",
            "std::priority_queue<fiber*> j;",
            "using handle = fiber*;",
            "std::unordered_map<handle, int> k;"), [1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13])

    def test_containers_with_other_keys(self):
        self.assertEqual(self.lines(
            "#include <map>",
            "std::map<std::string, fiber*, std::less<>> a;",
            "std::unordered_map<std::uint64_t, std::unique_ptr<fiber>> b;",
            "std::set<fiber*, by_id> c;",
            "std::unordered_map<object_id, int, std::hash<object_id>> d;",
            "template <class K> struct codec<std::set<K, Less, Allocator>> : set_codec<K> {};",
            "std::vector<fiber*> e; // std::set<fiber*>",
            'auto f = "std::set<fiber*> \\" std::less<int*>", g = R"(std::hash<int*>)";',
            "std::map<int, int> h; /* std::set<fiber*>",
            "std::set<fiber*> */ auto i = 1'000, j = 2'000;"), [])

    def test_sorts(self):
        self.assertEqual(self.lines(
            "std::vector<fiber*> all;",
            "std::vector<int> numbers;",
            "std::sort(all.begin(), all.end());",
            "std::ranges::sort(all);",
            "std::stable_sort(all.begin(), all.end(), std::greater<>());",
            "std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return a < b; });",
            "std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->id < b->id; });",
            "std::ranges::sort(all, {}, &fiber::id);",
            "std::ranges::sort(all, by_id);",
            "std::sort(numbers.begin(), numbers.end());",
            "std::nth_element(all.begin(), middle, all.end());",
            "bool less = &a < &b;"), [3, 4, 5, 6, 11, 12])

    def test_numbers(self):
        self.assertEqual(self.lines(
            "using word = std::uintptr_t;",
            "auto a = reinterpret_cast<std::uintptr_t>(p) % 16;",
            "auto b = (uintptr_t)p;",
            "auto c = reinterpret_cast<word>(p);",
            "auto d = std::bit_cast<std::uintptr_t>(p);",
            "auto e = reinterpret_cast<std::size_t>(&here);",
            "std::uintptr_t f(std::uintptr_t);",
            "auto g = reinterpret_cast<std::uintptr_t*>(p), h = sizeof(std::uintptr_t) + 1;",
            "auto i = std::bit_cast<std::uint64_t>(1.0), j = word{1};"), [2, 3, 4, 5, 6])

    def test_what_the_machine_says(self):
        self.assertEqual(self.lines(
            "std::random_device a;",
            "auto b = std::chrono::system_clock::now();",
            "auto c = time(nullptr), d = std::time(0);",
            "int e = std::rand() + rand();",
            "std::mt19937 f(getpid());",
            "auto g = std::hash<std::thread::id>{}(std::this_thread::get_id());",
            "auto h = world.time(0), i = own::time(nullptr), j = operand(1);",
            "process_vm_readv(getpid(), to); bool k = std::this_thread::get_id() == owner;"), [1, 2, 3, 4, 5, 6, 6])

    def test_exempt(self):
        self.assertEqual(self.lines(
            "auto a = (uintptr_t)p; // address: alignment",
            "auto b = (uintptr_t)p;",
            "// address: only the distance counts,",
            "// wherever the stack lies",
            "std::set<fiber*> c;",
            "// address: too far away",
            "",
            "std::random_device d;",
            "auto e = std::rand(); // address:",
            "// the address: no word of this",
            "auto f = std::rand();"), [2, 8, 9, 11])
        self.assertIn("without a reason", addresses.check(self.root)[2].message)

    def test_not_in_tests_and_not_elsewhere(self):
        for name in ("tern/task/a_test.cpp", "tern/task/a_test.hpp", "tests/a.cpp", "bench/b.cpp"):
            self.write(name, "std::set<int*> a;\n")
        self.assertEqual(self.found(addresses.check), [])


class Headers(Tree):
    def test_public_is_what_is_installed(self):
        self.write("tern/base/CMakeLists.txt", "tern_layer(base SOURCES a.cpp\n HEADERS a.hpp detail/b.hpp DEPENDS)\n")
        for name in ("a.hpp", "detail/b.hpp", "own.hpp"):
            self.write(f"tern/base/{name}")
        self.write("tern/CMakeLists.txt", "target_sources(tern INTERFACE FILE_SET HEADERS BASE_DIRS x FILES tern.hpp)\n")
        self.write("tern/tern.hpp")
        self.write("tern/task/t.hpp")
        self.assertEqual(headers.public_headers(self.root),
                         ["tern/base/a.hpp", "tern/base/detail/b.hpp", "tern/task/t.hpp", "tern/tern.hpp"])

    def test_only_standard_and_own(self):
        self.write("tern/base/CMakeLists.txt", "tern_layer(base HEADERS a.hpp b.hpp c.h)")
        self.write("tern/base/b.hpp")
        self.write("tern/base/own.hpp")
        self.write("tern/base/c.h", "#include <stdint.h>\n")
        self.write("tern/base/a.hpp", "#include <vector>\n#include <tern/base/b.hpp>\n#include \"b.hpp\"\n"
                   "#include <fmt/core.h>\n#include <sys/mman.h>\n#include <stdint.h>\n#include <tern/base/own.hpp>\n"
                   "#include <tern/base/gone.hpp>\n")
        self.assertEqual([line for _, line, _ in self.found(headers.check_includes)], [4, 5, 6, 7, 8])

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_self_contained(self):
        self.write("tern/base/good.hpp", "#pragma once\n#include <vector>\ninline std::vector<int> f() { return {}; }\n")
        self.write("tern/base/bad.hpp", "#pragma once\n\ninline std::vector<int> g() { return {}; }\n")
        self.write("tern/base/unguarded.hpp", "struct s {};\n")
        self.assertEqual(self.found(headers.check_self_contained),
                         [("tern/base/bad.hpp", 3, "self-contained"), ("tern/base/unguarded.hpp", 1, "self-contained")])


class Text(Tree):
    def test_licences(self):
        self.write("tern/a.cpp", SPDX)
        self.write("run", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n")
        self.write("apps/mesh/m.cpp", "// SPDX-License-Identifier: GPL-3.0-or-later\n")
        self.write("apps/mesh/wrong.cpp", SPDX)
        self.write("bare", "#!/bin/sh\n")
        self.write("notes.md", "no licence needed\n")
        self.assertEqual(self.found(text.check), [("apps/mesh/wrong.cpp", 1, "licence"), ("bare", 1, "licence")])

    def test_comments_are_narrow_but_for_examples(self):
        prose, code = "// " + "word " * 20 + "\n", "//     " + "word " * 20 + "\n"
        self.write("tern/a.cpp", SPDX + "\n" + code + "int a; " + prose + prose)
        self.assertEqual([rule for _, _, rule in self.found(text.check)], ["comment-width"])

    def test_length(self):
        self.write("tern/a.cpp", SPDX + "\n" * 599)
        self.write("tern/b.cpp", SPDX + "\n" * 600)
        self.assertEqual(self.found(text.check), [("tern/b.cpp", 601, "length")])

    def test_open_ends(self):
        self.write("tern/a.cpp", f"{SPDX}// {OPEN_END}: later\n// {OPEN_END}(#7): planned\n// mkstemp: XXXXXX\n")
        self.assertEqual(self.found(text.check), [("tern/a.cpp", 2, "open-end")])

    def test_machine_paths(self):
        self.write("tern/a.cpp", SPDX + 'auto a = "/ho' + 'me/me/x";\nauto b = "../wo' + 'rk/x"; // and/or\n'
                   'auto c = "../sha' + 'red/x";\nauto d = "/usr/lib";\n')
        self.assertEqual(self.found(text.check), [("tern/a.cpp", 2, "machine-path"), ("tern/a.cpp", 4, "machine-path")])


class Docs(Tree):
    def test_quotations(self):
        self.write("examples/a.cpp", SPDX + "int a;\n")
        quoted = f"# A\n\n<!-- examples/a.cpp -->\n```cpp\n{SPDX}int a;\n```\n"
        self.write("docs/a.md", quoted)
        self.assertEqual(self.found(docs.check), [])
        self.write("docs/a.md", quoted.replace("int a;", "int b;"))
        self.assertEqual(self.found(docs.check), [("docs/a.md", 6, "docs")])
        self.write("docs/b.md", "<!-- examples/a.cpp -->\ntext\n<!-- examples/b.cpp -->\n")
        self.assertEqual(self.found(docs.check)[1:], [("docs/b.md", 1, "docs"), ("docs/b.md", 3, "docs")])

    def test_links(self):
        self.write("docs/a.md", "[a](../docs/a.md#x) [b](b.md), [c](https://c.org/d.md)\n```\n[d](d.md)\n```\n")
        self.assertEqual(self.found(docs.check), [("docs/a.md", 1, "docs")])

    def test_each_example_is_a_step(self):
        self.write("examples/01_a_b.cpp", SPDX)
        self.write("examples/on.hpp", SPDX)
        self.assertEqual(self.found(docs.check), [])  # a tree without a tutorial
        self.write("docs/tutorial/README.md", "# Tutorial\n")
        self.assertEqual(self.found(docs.check), [("examples/01_a_b.cpp", 1, "docs"), (docs.INDEX, 1, "docs")])
        self.write("docs/tutorial/README.md", "[1](01-a-b.md)\n")
        self.write("docs/tutorial/01-a-b.md", f"<!-- examples/01_a_b.cpp -->\n```cpp\n{SPDX}```\n")
        self.assertEqual(self.found(docs.check), [])

    def test_fix_quotes_anew_and_keeps_the_rest(self):
        self.write("examples/a.cpp", SPDX + "int a;\n")
        block = f"<!-- examples/a.cpp -->\n```cpp\n{SPDX}int a;\n```\n"
        kept = "```\n<!-- examples/a.cpp -->\n```\n<!-- examples/b.cpp -->\n```cpp\nint b;\n```\n"
        self.write("docs/a.md", f"A\n\n<!-- examples/a.cpp -->\n```cpp\nint b;\n\nint c;\n```\n\nB\n{kept}")
        self.write("docs/b.md", "A\n\n<!-- examples/a.cpp -->\n\nB\n")
        docs.fix(self.root)
        self.assertEqual((self.root / "docs/a.md").read_text(), f"A\n\n{block}\nB\n{kept}")
        self.assertEqual((self.root / "docs/b.md").read_text(), f"A\n\n{block}\nB\n")


class Prose(Tree):
    def lines(self, content: str, name: str = "docs/a.md") -> list[tuple[int, str]]:
        self.write(name, content)
        return [(line, rule) for path, line, rule in self.found(prose.check) if path == name]

    def test_width(self):
        long = "x " * 50 + "y"
        self.assertEqual(self.lines("x " * 49 + "xé\n" + long + "\n"), [(2, "width")])
        self.assertEqual(self.lines(f"```\n{long}\n```\n| {long} |\n<!-- {long} -->\n"), [])
        self.assertEqual(self.lines(f"- [a](b/{'c' * 99}.md), [d]\n\n[d]: https://e.org/{'f' * 99}\n"), [])
        self.assertEqual(self.lines(f"- {long} [a](b.md)\n"), [(1, "width")])

    def test_not_yet_names_an_issue(self):
        self.assertEqual(self.lines("Arrays do not\nyet exist.\n"), [(1, "not-yet")])
        self.assertEqual(self.lines("Arrays exist. They are not there\nyet on GPUs. See issue 28.\n"), [(1, "not-yet")])
        self.assertEqual(self.lines("Arrays (see e.g. issue 29) are\nnot yet there. Pages are.\n"), [])
        self.assertEqual(self.lines("- Not yet: arrays, [issue 29](x).\n- not yet\n\nIssue 3.\n"), [(2, "not-yet")])
        self.assertEqual(self.lines("# Not there yet\nIssue 3.\n| a | not yet |\n| b | not yet: issue 3 |\n"),
                         [(1, "not-yet"), (3, "not-yet")])
        self.assertEqual(self.lines("```\nnot yet\n```\nIt is not here. Yet it moves; `not_yet`.\n"), [])

    def test_which_pages(self):
        for name in ("README.md", "docs/b/c.md", "tern/net/README.md"):
            self.assertEqual(self.lines("not yet\n", name), [(1, "not-yet")], name)
        for name in ("docs/decisions/0001-a.md", "CHANGELOG.md", "tern/net/job/README.md", "docs/a.txt"):
            self.assertEqual(self.lines("not yet\n", name), [], name)

    def test_the_list_of_exemptions_only_shrinks(self):
        self.write(prose.EXEMPT, "# files\nnot-yet docs/a.md\nwidth docs/a.md\nwidth docs/b.md\n")
        self.write("docs/a.md", "not yet\n")
        self.assertEqual(self.found(prose.check), [(prose.EXEMPT, 3, "prose"), (prose.EXEMPT, 4, "prose")])


class Packages(Tree):
    def test_includes_and_cmake(self):
        self.write("packages.txt", "# head\nbuild  libfmt-dev  # text\n")
        self.write("tern/base/own.hpp")
        self.write("tern/base/a.cpp", "#include <fmt/core.h>\n#include <unistd.h>\n#include <vector>\n#include <hwloc.h>\n"
                   "#include \"own.hpp\"\n#include <mystery/m.h>\n")
        self.write("CMakeLists.txt", "find_package(fmt)\nfind_package(CGAL REQUIRED)\npkg_check_modules(C REQUIRED cairo)\n")
        self.assertEqual(self.found(packages_check.check), [
            ("CMakeLists.txt", 2, "packages"), ("CMakeLists.txt", 3, "packages"),
            ("tern/base/a.cpp", 4, "packages"), ("tern/base/a.cpp", 6, "packages")])

    def test_form_of_the_list(self):
        self.write("packages.txt", "build  g++  # compiler\nlater  g++  # what\nbuild  cmake\nrun  g++  # again\n")
        self.assertEqual([line for _, line, _ in self.found(packages_check.check)], [2, 3, 4])


class Format(Tree):
    @unittest.skipUnless(format.find_tool(), "needs clang-format")
    def test_names_the_file(self):
        self.write(".clang-format", "BasedOnStyle: LLVM\n")
        self.write("a.cpp", "int a;\n")
        self.write("b.cpp", "int a;\nint   b;\n")
        self.assertEqual(self.found(format.check), [("b.cpp", 2, "format")])


class Common(Tree):
    def test_build_folders_are_skipped(self):
        self.write("build/x.cpp")
        self.write("src/x.cpp")
        self.assertEqual(common.files(self.root), ["src/x.cpp"])



class Suites(Tree):
    LISTED = ("stacks.\n  overflow\n  are_kept\nwith/started.  # TypeParam = int\n  ends/mpich  # GetParam() = \"mpich\"\n"
              "  ends/inproc  # GetParam() = \"inproc\"\nonly.\n  one\n")

    def test_suites_are_read(self):
        self.assertEqual(suites.suites("Running main() from x.cc\n" + self.LISTED),
                         {"stacks": ["overflow", "are_kept"], "with/started": ["ends/mpich", "ends/inproc"], "only": ["one"]})

    def test_what_may_be_skipped_is_alone(self):
        made = suites.entries(suites.suites(self.LISTED), "task.", ["/mpich", r"^task\.only\."])
        self.assertEqual(made, [("task.stacks", "stacks.*"), ("task.with/started", "with/started.*-with/started.ends/mpich"),
                                ("task.with/started.ends/mpich", "with/started.ends/mpich"), ("task.only.one", "only.one")])

    def program(self, last: str) -> str:
        self.write("program", f"#!/bin/sh\necho '[ RUN      ] a.b'\n{last}\n")
        (self.root / "program").chmod(0o755)
        return str(self.root / "program")

    def test_a_skip_is_told_and_hides_no_failure(self):
        runner = str(pathlib.Path(suites.__file__).parent / "suite.sh")
        for last, code in (("exit 0", 0), ("echo '[  SKIPPED ] a.b'", 77), ("echo '[  SKIPPED ] a.b'; exit 1", 1)):
            self.assertEqual(subprocess.run([runner, self.program(last)], capture_output=True, check=False).returncode, code)


class KeptObjects(Tree):
    """What tools/build/timed.sh tells ccache."""

    def run_timed(self, *command: str) -> str:
        script = pathlib.Path(suites.__file__).parent / "timed.sh"
        done = subprocess.run([str(script), str(self.root / "log"), *command], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def told(self, *words: str) -> str:
        return self.run_timed("sh", "-c", 'echo "${CCACHE_DEPEND-no} ${CCACHE_EXTRAFILES-none}"', "sh", *words)

    def test_files_are_kept_by_what_the_compiler_has_read(self):
        self.assertEqual(self.told("-o", "a.o", "-c", "a.cpp"), "1 none")
        self.assertEqual(self.told("-o", "x/Unity/a.o", "-c", "a.cpp"), "no none")

    def test_a_changed_precompiled_header_is_another_one(self):
        headers = self.root / "cmake_pch.hxx"
        use = ("-include", str(headers), "-o", "a.o", "-c", "a.cpp")
        self.assertEqual(self.told(*use), "no none")  # not known what is in it
        sums = []
        for text in ("int a;\n", "int aa;\n", "int a;\n"):
            self.write("in.hpp", text)
            self.write("made.d", f"made: {self.root}/in.hpp \\\n  {self.root}/log\n")
            self.write("log", "")
            self.run_timed("true", "-MF", str(self.root / "made.d"), "-o", f"{headers}.gch")
            self.assertEqual(self.told(*use), f"1 {headers}.gch.sum")
            sums.append((self.root / "cmake_pch.hxx.gch.sum").read_text())
        self.assertEqual(sums[0], sums[2])
        self.assertNotEqual(sums[0], sums[1])


class Floors(unittest.TestCase):
    LOG = ("Label Time Summary:\nmpi    =   4.80 sec*proc (4 tests)\nsim    =   0.10 sec*proc (1 test)\n\n"
           "The following tests did not run:\n\t12 - hetero.gpu.it_runs (Skipped)\n")

    def test_enough_tests_ran(self):
        self.assertEqual(floors.missed("tests", self.LOG, "tests mpi 4\nskip \\.gpu\\. # needs one\nother mpi 9\n"), [])

    def test_too_few_ran_and_one_was_skipped(self):
        found = floors.missed("tests", self.LOG, "# floors\ntests mpi 5\ntests net 1\n")
        self.assertEqual(len(found), 3)
        self.assertIn("4 tests with the label mpi ran, at least 5 should", found[0])
        self.assertIn("0 tests with the label net ran", found[1])
        self.assertIn("See tools/required.py", found[1])
        self.assertIn("hetero.gpu.it_runs", found[2])

    def test_what_one_run_may_skip_others_may_not(self):
        self.assertEqual(floors.missed("a", self.LOG, "a mpi 1\nskip a . # why\n"), [])
        self.assertEqual(len(floors.missed("b", self.LOG, "b mpi 1\nskip a . # why\n")), 1)

    def test_a_run_that_did_not_end_is_told(self):
        self.assertIn("did ctest run to its end", floors.missed("tests", "nothing", "tests mpi 1\n")[0])

    def test_what_a_label_needs_is_said_and_kept(self):
        rules = "tests mpi 9 # needs mpich\n"
        self.assertIn("Install mpich", floors.missed("tests", self.LOG, rules + "skip . # all\n")[0])
        self.assertIn("tests mpi 3 # needs mpich\n", floors.update("tests", self.LOG, rules))

    def test_a_run_without_floors_is_told(self):
        self.assertIn("no line for this run", floors.missed("new", self.LOG, "tests mpi 1\nskip . # all\n")[0])
        self.assertEqual(floors.missed("new", self.LOG, "free new # why\nskip . # all\n"), [])

    def test_update_keeps_what_is_of_other_runs(self):
        new = floors.update("tests", self.LOG, "skip x # why\nother mpi 9\ntests mpi 400\n")
        self.assertEqual(new, "skip x # why\nother mpi 9\ntests mpi 3\ntests sim 1\n")

    def test_lines_of_another_form_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "neither"):
            floors.missed("tests", self.LOG, "tests mpi many\n")


class Rooms(Tree):
    LAYER = "tern_layer(net\n  HEADERS\n    a.hpp)\n"

    def set_up(self):
        self.write("tern/net/CMakeLists.txt", self.LAYER)
        self.write("tern/net/README.md", "# net\n\n## For layers above\n\n- `one/x.hpp`: why\n")
        self.write("tern/net/a.hpp")
        for room in ("one", "two"):
            self.write(f"tern/net/{room}/README.md", "# room\n")

    def messages(self, check):
        return [finding.message for finding in check(self.root)]

    def test_a_layers_root_holds_public_headers_only(self):
        self.set_up()
        self.write("tern/net/b.cpp")
        self.write("tern/net/detail/c.hpp")
        found = self.messages(rooms.check_root)
        self.assertEqual(len(found), 2)
        self.assertIn("move it into a room", found[0])
        self.assertIn("detail is no room", found[1])

    def test_a_room_is_small_and_has_a_page(self):
        self.set_up()
        for number in range(26):
            self.write(f"tern/net/one/f{number}.cpp")
        self.write("tern/net/three/x.cpp")
        self.write("tern/net/two/z.cpp")
        self.write("tern/net/two/README.md", "line\n" * 16)
        found = self.messages(rooms.check_sizes)
        self.assertEqual(len(found), 3)
        self.assertIn("26 files", found[0])
        self.assertIn("missing", found[1])
        self.assertIn("16 lines", found[2])

    def test_private_headers_used_from_above_are_listed_and_no_others(self):
        self.set_up()
        self.write("tern/net/one/x.hpp")
        self.write("tern/net/one/y.hpp")
        self.write("tern/mobile/room/m.cpp", "#include <tern/net/one/y.hpp>\n")
        found = self.messages(rooms.check_private)
        self.assertEqual(len(found), 2)
        self.assertIn("y.hpp is private to net", found[0])
        self.assertIn("one/x.hpp is listed, but nothing", found[1])

    def test_rooms_that_include_each_other_are_found(self):
        self.set_up()
        self.write("tern/net/one/x.hpp", "#include <tern/net/two/z.hpp>\n")
        self.write("tern/net/two/z.hpp")
        self.assertEqual(self.messages(rooms.check_circles), [])
        self.write("tern/net/two/u.cpp", "#include <tern/net/one/x.hpp>\n")
        self.assertIn("one and two of net include each other", self.messages(rooms.check_circles)[0])

    def test_longer_circles_are_found(self):
        self.set_up()
        for room, other in (("one", "two"), ("two", "three"), ("three", "one")):
            self.write(f"tern/net/{room}/{room}.hpp", f"#include <tern/net/{other}/{other}.hpp>\n")
        self.assertEqual(self.messages(rooms.check_circles), ["rooms include each other in a circle: one, three, two"])


class Budget(unittest.TestCase):
    CPU = "1.500 tern/net/CMakeFiles/tern_net.dir/job/node.cpp.o\n0.250 tests/net/CMakeFiles/x.o\n1.000 bench/b.o\n"
    LOG = (" 1/3 Test   #1: net.delivery ...........   Passed   10.00 sec\n"
           " 2/3 Test #2: tern_epoch_ranks_test.sim.1 .***Failed    2.50 sec\n 3/3 Test #3: tool.x ....   Passed 1.00 sec\n")

    def test_what_was_taken_goes_to_its_layer(self):
        self.assertEqual(budget.build_seconds(self.CPU), {"net": 1.75, "bench": 1.0})
        self.assertEqual(budget.test_seconds(self.LOG), {"net": 12.5, "tools": 1.0})

    def test_a_fifth_more_is_over(self):
        budgets = budget.read_budgets("asan", "# why\nasan net 2 10\nasan tools 0 1\ntsan net 1 1\n")
        lines, failed = budget.table("asan", {"net": 1.75}, {"net": 12.5, "tools": 1.0}, budgets)
        self.assertEqual(failed, 0)  # a few seconds are noise
        lines, failed = budget.table("asan", {"net": 1.75}, {"net": 13.5, "tools": 1.0}, budgets)
        self.assertEqual(failed, 1)
        self.assertRegex("\n".join(lines), r"net +2 +2 +14 +10  OVER\n")

    def test_update_keeps_other_presets(self):
        self.assertEqual(budget.update("asan", {"net": 10}, {"net": 20}, "# why\nasan net 1 1\ntsan net 1 1\n"),
                         "# why\ntsan net 1 1\nasan net 12 23\n")

    def test_lines_of_another_form_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "PRESET PART BUILD TESTS"):
            budget.read_budgets("asan", "asan nett 1 1\n")


class Timed(unittest.TestCase):
    """tools/build/timed.sh, between Ninja and compilers."""

    def run_it(self, output: str) -> tuple[int, bool, str]:
        """Of a command that fails with code 3: its code, whether it found an output from before, and the log."""
        script = pathlib.Path(__file__).resolve().parent.parent / "build" / "timed.sh"
        with tempfile.TemporaryDirectory() as folder:
            made, log = pathlib.Path(folder, output), pathlib.Path(folder, "cpu.log")
            made.write_text("old")
            there = 'test -e "$1" && echo there; exit 3' # -o is $0
            done = subprocess.run([script, log, "sh", "-c", there, "-o", made.name], cwd=folder, capture_output=True,
                                  text=True, check=False)
            return done.returncode, done.stdout == "there\n", log.read_text()

    def test_a_precompiled_header_from_before_is_gone(self):
        for name in ("cmake_pch.hxx.gch", "cmake_pch.hxx.pch"):
            self.assertEqual(self.run_it(name)[:2], (3, False))

    def test_other_outputs_stay_and_times_are_noted(self):
        code, there, log = self.run_it("a.o")
        self.assertEqual((code, there), (3, True))
        self.assertRegex(log, r"^[0-9]+\.[0-9]{3} a\.o\n$")


class Required(unittest.TestCase):
    class Bare(required.Machine):
        def program(self, *names):
            return False

        def says(self, pattern, *command):
            return False

        def opencl_driver(self, word):
            return False

    def test_each_thing_that_is_missing_is_told_with_its_package(self):
        found = required.missing(self.Bare(), san=True, long=True)
        for package in ("libopenmpi-dev", "libmpich-dev", "openmpi-bin", "mpich", "pocl-opencl-icd", "clang-19", "gdb", "llvm-19",
                        "spin", "clang-tidy-19"):
            self.assertTrue(any(f"install {package}" in line for line in found), package)

    def test_all_of_them_are_in_packages_txt(self):
        packages = (pathlib.Path(required.__file__).parents[1] / "packages.txt").read_text()
        for line in required.missing(self.Bare(), san=True, long=True):
            for package in re.search("install (.*?);", line).group(1).split(" and "):
                self.assertRegex(packages, rf"(?m)^(build|run|test)\s+{re.escape(package)}\s")

    def test_one_of_several_names_does(self):
        class Other(self.Bare):
            def says(self, pattern, *command):
                return command[0] == "mpirun" and pattern == "HYDRA"

        self.assertFalse(any("launcher of MPICH" in line for line in required.missing(Other(), san=False, long=False)))

    def test_only_what_the_run_needs(self):
        self.assertFalse(any("spin" in line for line in required.missing(self.Bare(), san=False, long=False)))


if __name__ == "__main__":
    unittest.main()
