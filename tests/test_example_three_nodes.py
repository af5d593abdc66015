"""The example of three nodes, in short: it kills a node and the database's primary, and must find nothing lost."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples/three_nodes.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("three_nodes", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.seconds_max(120)
def test_a_killed_node_and_a_killed_primary_lose_and_double_nothing(binary):
    done = subprocess.run([sys.executable, EXAMPLE, "--binary", binary, "--seconds", "3", "--clients", "40"],
                          capture_output=True, text=True, timeout=110, stdin=subprocess.DEVNULL)

    assert done.returncode == 0, done.stdout + done.stderr
    told = dict(re.findall(r"^(\w[\w ]+?)  +(\S.*)$", done.stdout.partition("\n\n")[2], re.M))
    assert int(told["acknowledged"].replace(",", "")) > 100 and told["stored"] == told["acknowledged"], done.stdout
    assert (told["lost"], told["doubled"], told["unanswered"]) == ("0", "0", "0"), done.stdout
    assert told["verify"] == "every promise holds"
    assert "the node that writes" in done.stdout and "the standby is promoted" in done.stdout


def known(key, seq):
    return {"key": key, "seq": seq, "repeated": True}


@pytest.mark.parametrize("stored, results, found", [
    (2, [known("a", 11), known("b", 12)], (0, 0)),
    (1, [known("a", 11), {"key": "b", "seq": 13, "repeated": False}], (1, 0)),
    (2, [known("a", 11), known("b", 14)], (1, 1)),
    (3, [known("a", 11), known("b", 12)], (0, 1)),
])
def test_a_charge_that_is_missing_or_there_twice_is_noticed(example, stored, results, found):
    assert example.compare({"a": 11, "b": 12}, stored, results) == found
