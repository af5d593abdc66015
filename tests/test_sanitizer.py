"""Reports of sanitizers, made by small programs with a defect each."""

import os
import re
import subprocess

import pytest

from sanitizer import Reports, is_sanitized

DEFECTS = {
    "address": ("heap-use-after-free", "int main(int n, char**) { int* p = new int(n); delete p; return *p; }"),
    "undefined": ("signed-integer-overflow|undefined-behavior",
                  "int main(int n, char**) { volatile int most = 0x7fffffff; return most + n > 0; }"),
    "leak": ("leaked", "int main(int n, char**) { volatile int* p = new int(n); p = nullptr; return 0; }"),
    "thread": ("data race", "#include <thread>\nint x;\n"
               "int main() { std::thread other([] { ++x; }); ++x; other.join(); return 0; }"),
}


@pytest.fixture
def compiled(tmp_path):
    def compile_program(source, *flags):
        (tmp_path / "program.cc").write_text(source)
        program = str(tmp_path / "program")
        subprocess.run(["clang++-19", "-g1", *flags, "-o", program, str(tmp_path / "program.cc")], check=True, timeout=60)
        return program

    return compile_program


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_report_of_a_process_whose_output_is_discarded_fails_the_test(compiled, tmp_path, defect):
    kind, source = DEFECTS[defect]
    program = compiled(source, "-fsanitize=thread" if defect == "thread" else "-fsanitize=address,undefined")
    reports = Reports(program, tmp_path)

    reports.check()
    subprocess.run([program], env={**os.environ, **reports.environment}, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=60)

    with pytest.raises(AssertionError) as failed:
        reports.check()
    first_line = str(failed.value).splitlines()[0]
    assert re.search(f"^a sanitizer's report: .*({kind})", first_line), first_line
    assert "program.cc:" in str(failed.value)
    reports.check()  # Each report fails one test.


def test_a_program_without_a_sanitizer_needs_no_options(compiled, tmp_path):
    program = compiled("int main() { return 0; }")

    assert not is_sanitized(program)
    assert Reports(program, tmp_path).environment == {}
