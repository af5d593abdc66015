"""One bad tree per rule, and tidy must name the file, the line and the rule. One good tree, and it must be silent."""

import pathlib
import subprocess
import sys

import pytest

TIDY = pathlib.Path(__file__).parent / "tidy.py"
HEADER = "// What this is.\n#pragma once\n"


def tidy(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    ran = subprocess.run([sys.executable, TIDY, root], capture_output=True, text=True)
    return ran.returncode, ran.stdout


BAD = [
    # Include direction.
    ("src/base/a.cc", '#include "core/rows.h"\n', 1, "base does not include core"),
    ("src/core/a.cc", '\n#include "store/store.h"\n', 2, "core does not include store"),
    ("src/store/a.cc", '#include "engine/engine.h"\n', 1, "store does not include engine"),
    ("src/engine/a.cc", '#include "server/server.h"\n', 1, "engine does not include server"),
    ("src/server/a.cc", '#include "demo/demo.h"\n', 1, "server does not include demo"),
    ("src/verify/a.cc", '#include "core/rows.h"\n', 1, "verify does not include core"),
    ("src/supervisor/a.cc", '#include "net/http.h"\n', 1, "supervisor does not include net"),
    ("src/net/a.cc", '#include "core/rows.h"\n', 1, "net does not include core"),
    ("src/api/a.cc", '#include "gateway/bound.h"\n', 1, "api does not include gateway"),
    ("src/cli/a.cc", '#include "engine/engine.h"\n', 1, "cli does not include engine"),
    ("src/core/a_test.cc", '#include "engine/engine.h"\n', 1, "core does not include engine"),
    ("src/new_folder/a.cc", '#include "base/id.h"\n', 1, "new_folder does not include base"),
    # The spelling of an include.
    ("src/core/a.cc", '#include "rows.h"\n', 1, 'includes are written "folder/file.h"'),
    ("src/core/a.cc", '#include "../base/id.h"\n', 1, 'includes are written "folder/file.h"'),
    ("src/core/a.cc", "#include <base/good.h>\n", 1, 'includes are written "folder/file.h"'),
    ("src/core/a.cc", '#include "core/../base/id.h"\n', 1, 'includes are written "folder/file.h"'),
    ("src/core/a.cc", '#include "core/../id.h"\n', 1, 'includes are written "folder/file.h"'),
    ("src/api/a.cc", '#include "gateway/dialects/openai.h"\n', 1, "api does not include gateway"),
    ("sim/a.cc", '#include "world.h"\n', 1, 'includes are written "folder/file.h"'),
    # The core is pure.
    ("src/core/a.cc", "auto at = std::chrono::system_clock::now();\n", 1, "core reads no clock"),
    ("src/core/a.cc", "auto at = time(nullptr);\n", 1, "core reads no clock"),
    ("src/core/a.cc", "auto at = std::time(nullptr);\n", 1, "core reads no clock"),
    ("src/core/a.cc", "clock_gettime(CLOCK_REALTIME, &at);\n", 1, "core reads no clock"),
    ("src/core/a.cc", "gettimeofday(&at, nullptr);\n", 1, "core reads no clock"),
    ("src/core/a.cc", "int dice = rand();\n", 1, "core draws no random numbers"),
    ("src/core/a.cc", "#include <random>\n", 1, "core draws no random numbers"),
    ("src/core/a.cc", "std::random_device dice;\n", 1, "core draws no random numbers"),
    ("src/core/a.cc", "getrandom(&dice, 8, 0);\n", 1, "core draws no random numbers"),
    ("src/core/a.cc", "#include <thread>\n", 1, "core has no threads and no locks"),
    ("src/core/a.cc", "#include <mutex>\n", 1, "core has no threads and no locks"),
    ("src/core/a.cc", "#include <atomic>\n", 1, "core has no threads and no locks"),
    ("src/core/a.cc", "#include <condition_variable>\n", 1, "core has no threads and no locks"),
    ("src/core/a.cc", "#include <future>\n", 1, "core has no threads and no locks"),
    ("src/core/a.cc", "#include <fstream>\n", 1, "core does no input or output"),
    ("src/core/a.cc", "#include <iostream>\n", 1, "core does no input or output"),
    ("src/core/a.cc", "#include <filesystem>\n", 1, "core does no input or output"),
    ("src/core/a.cc", "#include <cstdio>\n", 1, "core does no input or output"),
    ("src/core/a.cc", 'std::printf("hello");\n', 1, "core does no input or output"),
    ("src/core/a.cc", 'int file = open("x", 0);\n', 1, "core does no input or output"),
    ("src/core/a.cc", 'int file = ::open("x", 0);\n', 1, "core does no input or output"),
    ("src/core/a.cc", "sqlite3_step(s);\n", 1, "core does no input or output"),
    ("src/core/a.cc", 'auto v = std::getenv("V");\n', 1, "only src/server and src/program read the environment"),
    # Who may name what.
    ("src/store/memory_store.cc", "sqlite3* db;\n", 1, "sqlite3 is named only in src/store/sqlite_*"),
    ("src/verify/a.cc", "#include <sqlite3.h>\n", 1, "sqlite3 is named only in src/store/sqlite_*"),
    ("sim/a.cc", "sqlite3_open(p, &db);\n", 1, "sqlite3 is named only in src/store/sqlite_*"),
    ("src/store/store.cc", "#include <libpq-fe.h>\n", 1, "libpq is named only in src/store/postgres_*"),
    ("src/api/a_test.cc", "PQclear(r);\n", 1, "libpq is named only in src/store/postgres_*"),
    ("src/engine/a.cc", 'auto v = getenv("V");\n', 1, "only src/server and src/program read the environment"),
    ("examples/a.cc", 'auto v = std::getenv("V");\n', 1, "only src/server and src/program read the environment"),
    # Hashes without a key.
    ("src/core/a.h", HEADER + "std::unordered_map<std::string, int> a;\n", HEADER.count("\n") + 1, "texts are hashed with a key"),
    ("src/api/a.cc", "boost::unordered_flat_set<std::string_view> a;\n", 1, "texts are hashed with a key"),
    ("src/api/a.cc", "return std::hash<std::string>{}(name);\n", 1, "texts are hashed with a key"),
    # Headers.
    ("src/base/a.h", "// What this is.\nint x;\n", 1, "a header has #pragma once"),
    ("src/base/a.h", "#pragma once\n// Too late.\n", 1, "a header opens by saying what it is"),
    # Comments that something has reflowed.
    ("src/net/a.h", "// A.\n//\n//   (1) One more than a\n//   few\n//       words.\n#pragma once\n", 4,
     "lines of a numbered item are indented like its text: //   few"),
    ("src/net/a.h", "// A.\n//\n//   (1) One\n//       more. (2) Two.\n#pragma once\n", 4, "a numbered item begins a line"),
    ("src/net/a.h", "// A.\n//\n//   (1) One. (2) Two.\n#pragma once\n", 3, "a numbered item begins a line"),
    ("src/net/a.cc", "class A {\n    //   (1) One more\n    //   word.\n};\n", 3,
     "lines of a numbered item are indented like its text: //   word."),
    ("src/net/a.cc", "\n// " + "x" * 118 + "\n", 2, "comments have up to 120 columns"),
    # Everything.
    ("src/base/a.cc", "int x;\n// TO" "DO: finish\n", 2, "nothing is left for later"),
    ("docs/a.md", "FIX" "ME\n", 1, "nothing is left for later"),
    ("tools/a.py", "# X" "XX\n", 1, "nothing is left for later"),
    ("dev", "# HA" "CK\n", 1, "nothing is left for later"),
    ("docs/a.md", "see /wo" "rk/notes.md\n", 1, "no path of one machine"),
    ("docs/a.md", "a\nb\nin `/ho" "me/me/x`\n", 3, "no path of one machine"),
    ("src/base/a.cc", 'auto p = "/ro' 'ot/x";\n', 1, "no path of one machine"),
    ("src/base/a.cc", "\n" * 901, 901, "files stay readable"),
    ("web/src/a.tsx", "\n" * 901, 901, "files stay readable"),
    ("web/src/a.css", "\n" * 901, 901, "files stay readable"),
    ("web/src/a.ts", "// FIX" "ME\n", 1, "nothing is left for later"),
    ("web/package-lock.json", '{\n"resolved": "https://registry.example/x.tgz"\n}', 2, "a lock file names no registry"),
    # Code after a comment or a string on the same line is still code.
    ("src/core/a.cc", 'auto s = "// no"; auto at = time(nullptr);\n', 1, "core reads no clock"),
    ("src/core/a.cc", "/* no */ auto at = time(nullptr);\n", 1, "core reads no clock"),
    ("src/core/a.cc", "auto n = 1'000'000; auto at = time(nullptr); auto m = 2'000;\n", 1, "core reads no clock"),
]


@pytest.mark.parametrize("name, text, line, rule", BAD)
def test_a_broken_rule_is_named_with_its_file_and_line(tmp_path, name, text, line, rule):
    code, printed = tidy(tmp_path, {"src/base/good.h": HEADER, name: text})

    assert code == 1
    assert f"{name}:{line}: {rule}" in printed


GOOD = {
    "src/base/good.h": HEADER,
    "src/base/long.cc": "\n" * 900,
    "src/core/rows.h": HEADER + '#include "base/good.h"\n#include "core/types.h"\n',
    "src/core/words.cc": '// Never calls time(nullptr) or rand().\nauto s = "printf( sqlite3_open(";\nauto n = 1\'000;\n'
                         'auto r = R"(select time(0) "quoted" from rand())";\n'
                         "Reply open(const OpenSession& command);\nauto a = ledger.open(command);\nauto t = row.time();\n",
    "src/core/rules_test.cc": "#include <random>\n#include <thread>\n",
    "src/store/sqlite_store.cc": "#include <sqlite3.h>\nsqlite3* db;\n",
    "src/store/sqlite_store_test.cc": "sqlite3* db;\n",
    "src/store/postgres_store.cc": "#include <libpq-fe.h>\nPGconn* c;\n",
    "src/gateway/dialects/good.cc": '#include "gateway/dialects/openai.h"\n',
    "src/net/socket.cc": "#include <net/if.h>\n",
    "src/server/config.cc": '#include "engine/engine.h"\n#include "verify/verify.h"\nauto v = std::getenv("V");\n',
    "src/demo/demo.cc": '#include "server/server.h"\n',
    "src/program/main.cc": '#include "demo/demo.h"\n#include "server/server.h"\n',
    "sim/main.cc": '#include "sim/world.h"\n#include "core/rows.h"\nauto v = std::getenv("V");\n',
    "crash/vfs.cc": "sqlite3_vfs vfs;\n",
    "bench/naive.cc": "sqlite3* db;\n",
    "docs/a.md": "See src/wo" "rk/a, ~/wo" "rk/b and the XXXXXX of mkstemp.\n",
    "build/release/generated.h": "int x;\n",
    "web/node_modules/a/a.ts": "\n" * 901,
    "web/package-lock.json": "{}" + "\n" * 901,
    "picture.bin": "\0/ro" "ot/x",
    "src/net/numbered.h": "// A (1) in a text, and (2) Two. A list:\n//\n//   (1) One, for invariant (2) Counts.\n//       It goes on:\n"
                          "//         - deeper.\n//   (2) Two.\n//\n//   (10) Ten\n//        more. See (1).\n// The end.\n"
                          "#pragma once\n// " + "x" * 117 + "\n",
    # Different names, and one name in tests, in a class, in a function, in another's name, or only announced.
    "src/core/one.h": HEADER + "namespace interlock::core {\nstruct Row {\n    struct Kind {};\n    enum class State { on };\n};\n}\n",
    "src/store/two.cc": "namespace interlock {\nstruct Row;\nnamespace {\nstruct Kind {\n};\nusing State = int;\n"
                        "int f() {\n    struct Row {};\n    return 0;\n}\nRow make() { return {}; }\nenum class RowKind { a };\n}\n}\n",
    "src/store/two_test.cc": "struct Row {};\n",
    "src/store/store_test_support.h": HEADER + "struct Row {};\n",
    "sim/row.h": HEADER + "struct Row {};\n",
}


def test_a_tree_that_follows_the_rules_passes(tmp_path):
    code, printed = tidy(tmp_path, GOOD)

    assert (code, printed.count("\n")) == (0, 1), printed


def test_a_tree_without_code_is_not_called_tidy(tmp_path):
    code, _ = tidy(tmp_path, {"README.md": "Hello.\n"})

    assert code == 1


def test_in_a_git_checkout_what_git_ignores_is_not_looked_at(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    files = {"src/base/good.h": HEADER, ".gitignore": "scratch/\n", "scratch/a.h": "int x;\n"}

    assert tidy(tmp_path, files)[0] == 0
    assert tidy(tmp_path, {"new.h": "int x;\n"})[0] == 1


ROW = "namespace interlock::core {\nstruct Row {\n};\n}\n"


@pytest.mark.parametrize("text", [
    "namespace interlock::store {\nstruct Row {};\n}\n",
    "namespace interlock::store {\nnamespace {\nclass Row final : public Base {};\n}\n}\n",
    "namespace interlock::store {\nBOOST_DESCRIBE_ENUM(Kind, a)\nenum class Row { a };\n}\n",
    "#include <map>\nnamespace interlock::store {\nusing Row = std::map<int, int>;\n}\n",
    "namespace interlock::store {\ntemplate <class T>\nstruct Row<T*> {};\n}\n",
    "namespace interlock::store {\nint f() { return 0; }\nenum Row : int { a };\n}\n",
])
def test_a_type_name_of_two_folders_is_named_with_both_places(tmp_path, text):
    code, printed = tidy(tmp_path, {"src/core/a.cc": ROW, "src/store/b.cc": text})

    line = text[:text.index("Row")].count("\n") + 1
    assert code == 1
    assert f"src/store/b.cc:{line}: a type name has one meaning: Row is also in src/core/a.cc:2" in printed


def test_a_type_name_of_two_folders_passes_only_with_a_reason_in_the_table(tmp_path):
    place = ROW.replace("Row", "Place")
    files = {"src/core/a.cc": place, "src/verify/b.cc": place}

    assert tidy(tmp_path, files)[0] == 0
    (tmp_path / "src/verify/b.cc").write_text(ROW)
    code, printed = tidy(tmp_path, {"tools/tidy.py": ""})

    assert code == 1
    assert "SHARED_TYPE_NAMES has only what several folders define: Place" in printed
