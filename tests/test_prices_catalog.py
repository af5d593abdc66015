"""tools/prices.py: what it makes of the price package, tried on a part of it that is kept in data/genai-prices."""

import json
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PART = ROOT / "tests/data/genai-prices"


def make(package, *options):
    return subprocess.run(["/usr/bin/python3", ROOT / "tools/prices.py", package, "--date", "2026-09-23", *options],
                          capture_output=True, text=True)


def lines_of(catalog):
    return [line for line in catalog.splitlines() if not line.startswith("#")]


@pytest.fixture
def one_model(tmp_path):
    """Makes a catalog of a package with a single model, and gives its line."""
    def convert(prices, match='{ equals: "m" }', extra="revision 0\n"):
        (tmp_path / "dist").mkdir(exist_ok=True)
        (tmp_path / "package.json").write_text(json.dumps({"name": "p", "version": "1.2"}))
        (tmp_path / "LICENSE").write_text("Free.\n")
        (tmp_path / "dist/index.js").write_text(
            'const E = [\n  { id: "p", models: [{ id: "m", match: %s, prices: %s }] }\n];\n' % (match, prices))
        (tmp_path / "extra.txt").write_text(extra)
        (tmp_path / "limits.txt").write_text("")
        return make(tmp_path, "--extra", tmp_path / "extra.txt", "--limits", tmp_path / "limits.txt")
    return convert


def test_the_committed_catalog_is_what_the_tool_makes():
    made = make(PART, "--part")

    assert made.returncode == 0, made.stderr
    committed = set(lines_of((ROOT / "prices/catalog.txt").read_text()))
    part = lines_of(made.stdout)
    assert len(part) > 30
    assert [line for line in part if line not in committed] == []


def test_all_that_is_kept_by_hand_is_in_the_committed_catalog():
    committed = lines_of((ROOT / "prices/catalog.txt").read_text())
    rows = {tuple(line.split("\t")[:2]): line.split("\t") for line in committed}
    for line in (ROOT / "prices/extra.txt").read_text().splitlines():
        if "\t" in line and not line.startswith("#"):
            assert line in committed
        elif line.startswith("price "):
            _, provider, model, *words = line.split()
            assert set(words) <= set(rows[provider, model][-1].split()), line
    for line in (ROOT / "prices/limits.txt").read_text().splitlines():
        if line and not line.startswith("#") and "*" not in line:
            provider, model, taken, made, *image = line.split()
            row_taken, row_made, *row_image = rows[provider, model][3].split("/")
            assert int(row_taken) >= int(taken) and row_made == made, line
            assert [f"image={tokens}" for tokens in row_image] == image, line


def test_a_price_finer_than_a_pico_dollar_is_rounded_up_and_counted(one_model):
    made = one_model("{ input_mtok: 0.12345678, output_mtok: 2e-7 }")

    assert lines_of(made.stdout)[-1] == "p\tm\t.\t0/0\tin=0.123457 out=0.000001"
    assert "2 prices finer than a pico-dollar, rounded up" in made.stdout


def test_tiers_of_several_kinds_become_whole_tiers_that_begin_one_token_later(one_model):
    made = one_model("{ input_mtok: { base: 1, tiers: [{ start: 2e5, price: 2 }] },"
                     " output_mtok: { base: 3, tiers: [{ start: 4e5, price: 4 }] }, requests_kcount: 5 }")

    assert lines_of(made.stdout)[-1].split("\t")[4] == (
        "in=1 out=3 call=0.005 tier=200001 in=2 out=3 call=0.005 tier=400001 in=2 out=4 call=0.005")


def test_what_cannot_be_metered_has_no_price(one_model):
    for prices in ("{}", "{ audio_hours: 1 }", "{ input_mtok: 1, output_mtok: 1, input_unheard_of: 1 }"):
        assert lines_of(one_model(prices).stdout)[-1] == "p\tm\t.\t0/0\tnone"


def test_what_is_not_understood_stops_it(one_model):
    prices = "{ input_mtok: 1, output_mtok: 1 }"
    noon = '{ type: "time_of_date", start_time: "12:00:00+02:00", end_time: "13:00:00Z" }'
    for made in (one_model(prices, match='{ regex: "^(a|b)$" }'),
                 one_model(prices, match='{ equals: "two words" }'),
                 one_model('[{ constraint: %s, prices: %s }]' % (noon, prices)),
                 one_model("call()"),
                 one_model(prices, extra="price p other variant=flex in=1 out=1\n"),
                 one_model(prices, extra="price p m tier=5 in=1\n"),
                 one_model(prices, extra="price p m colour=1\n")):
        assert made.returncode != 0
        assert made.stderr.startswith("prices: ")
        assert made.stdout == ""


def test_names_are_told_by_terms(one_model):
    made = one_model("{ input_mtok: 1, output_mtok: 1 }",
                     match='{ or: [{ equals: "M" }, { starts_with: "A-" }, { ends_with: "z" }, { contains: "q" },'
                           r' { regex: "^b\\.c-\\d{4}$" }, { regex: "^d-\\d" },'
                           r' { and: [{ starts_with: "e" }, { regex: "^(?!.*-[tT][tT][sS](?:$|-))" }] }] }')

    assert lines_of(made.stdout)[-1].split("\t")[2] == "=m <a- >z *q #b.c-#### %d-# <e&!>-tts&!*-tts-"


def test_a_revision_of_what_is_kept_by_hand_is_part_of_the_version(one_model):
    made = one_model("{ input_mtok: 1, output_mtok: 1 }", extra="revision 3\n")

    assert lines_of(made.stdout)[0] == "catalog\t1.2-r3\t2026-09-23"
