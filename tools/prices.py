#!/usr/bin/python3
"""Makes prices/catalog.txt, the price list that the binary carries, of a published package and two files of ours.

    npm pack @pydantic/genai-prices@0.1.8 && npm view @pydantic/genai-prices time    # the package, and its date
    tools/prices.py pydantic-genai-prices-0.1.8.tgz --date 2026-09-23 > prices/catalog.txt

prices/extra.txt has what the package lacks (prices of service tiers, the simulated models), prices/limits.txt how many
tokens models take and make. The format is told at the head of what this writes; src/gateway/price_catalog.h reads it.
"""

import argparse
import collections
import decimal
import json
import pathlib
import re
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DECIMALS_MAX = 6  # Of dollars per million tokens: a millionth of a dollar there is a pico-dollar a token.
FEE_DECIMALS_MAX = 12

# What the package calls a price, and what we do. Where two go to one of ours, the dearer counts: the gateway meters
# neither images nor videos by themselves, nor one paid tool apart from another.
KINDS = {
    "in": ("input_mtok", "input_image_mtok", "input_video_mtok"),
    "out": ("output_mtok", "output_image_mtok", "output_video_mtok"),
    "read": ("cache_read_mtok", "cache_image_read_mtok"),
    "write": ("cache_write_mtok", "cache_write_5m_mtok"),
    "write1h": ("cache_write_1h_mtok",),
    "reason": ("output_reasoning_mtok",),
    "audio_in": ("input_audio_mtok",),
    "audio_out": ("output_audio_mtok",),
    "image_out": (),  # By hand: where the package knows it, it stands for all output.
    "call": ("requests_kcount",),
    "tool": ("web_searches_kcount", "storage_searches_kcount", "social_searches_kcount", "code_executions_kcount"),
    "image": (),  # By hand: an image that a tool makes.
}
FEES = ("call", "tool", "image")  # Dollars each; the package has dollars per thousand.
# Citations are metered as output, which costs more; cached audio as what is cached, because a model's usual cached
# text must cost what it costs. A reader that can tell cached audio counts it as audio.
PASSED_OVER = {"output_citation_mtok", "cache_audio_read_mtok"}
OF_MANY = {"input_image_mtok", "input_video_mtok", "output_image_mtok", "output_video_mtok", "cache_image_read_mtok"}

HEAD = """\
# What models cost. Made by tools/prices.py, which says how to make it again; not edited by hand.
#
# From the npm package {package} {version} of {date}, with prices/extra.txt and prices/limits.txt. Its licence:
#
{licence}
#
# A line is: provider, model, which names are this model, tokens taken/made at most (0: not known) and, where it is
# known, those of one image, and its prices, with tabs between. Names: '.' is the model's own; otherwise alternatives,
# of terms joined by '&': =whole <beginning >end *part #whole %beginning (in these two a '#' is a digit), '!' before a
# term is its opposite. Case does not count, and the first line of a provider that fits is the one.
#
# A price is dollars per million tokens (in, out, read, write, write1h, reason, audio_in, audio_out, image_out) or each
# (call, tool, image). Of several prices the last one counts whose time has come: from=DAY, daily=BEGIN-END, all in
# UTC. tier=N begins what holds from N tokens of prompt on, variant=NAME what a service tier costs; what images cost
# holds in all of them. 'none': the model is known, its price is not.
#
{counts}
"""


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("package", type=pathlib.Path, help="what npm pack made, or a directory with its content")
    arguments.add_argument("--date", required=True, help="when it was published, as YYYY-MM-DD")
    arguments.add_argument("--extra", type=pathlib.Path, default=ROOT / "prices/extra.txt")
    arguments.add_argument("--limits", type=pathlib.Path, default=ROOT / "prices/limits.txt")
    arguments.add_argument("--part", action="store_true", help="of a package: extra.txt may name more")
    options = arguments.parse_args()
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", options.date):
        sys.exit("prices: --date wants YYYY-MM-DD")
    sys.stdout.write(convert(options))


def convert(options):
    read = package_reader(options.package)
    about = json.loads(read("package.json"))
    providers = literal(read("dist/index.js"))
    extra = read_extra(options.extra)
    counts = collections.Counter()
    lines, used = [], set()
    for provider in providers:
        aliases = [alias for alias, target in extra["alias"] if target == provider["id"]]
        lines.append("\t".join(["provider", provider["id"], " ".join(aliases),
                                " ".join(provider.get("fallback_model_providers", []))]))
    lines += extra["provider"]
    limits = read_limits(options.limits)
    for provider in providers:
        rules = own_rules(provider, counts)
        for model in provider["models"]:
            name = (provider["id"], model["id"])
            check_name(model["id"])
            counts["models"] += 1
            periods = [period(each, counts) for each in conditional(model["prices"])]
            if all(each is None for each in periods) and model["id"].endswith(":free") and model["prices"] == {}:
                periods = [([], {"": [(0, {"in": decimal.Decimal(0), "out": decimal.Decimal(0)})]})]
            if None in periods:
                counts["models without a price that can be metered ('none')"] += 1
                periods = []
            for kind, tier, rates in extra["price"].get(name, []) if periods else []:
                used.add(name)
                add_rates(periods[-1][1], kind, tier, rates)
            lines.append("\t".join([*name, rules[model["id"]], limit(limits, name, model),
                                    *(map(period_text, periods) if periods else ["none"])]))
    lines += extra["line"]
    if unused := set(extra["price"]) - used:
        if not options.part:
            sys.exit(f"prices: extra.txt has prices for what the package does not have: {sorted(unused)}")
    version = about["version"] + (f"-r{extra['revision']}" if extra["revision"] else "")
    head = HEAD.format(package=about["name"], version=about["version"], date=options.date,
                       licence="\n".join(f"#   {line}".rstrip() for line in read("LICENSE").strip().splitlines()),
                       counts="\n".join(f"# {count:6} {what}" for what, count in sorted(counts.items())))
    return head + f"catalog\t{version}\t{options.date}\n" + "\n".join(lines) + "\n"


def package_reader(path):
    if path.is_dir():
        return lambda name: (path / name).read_text()
    archive = tarfile.open(path)
    return lambda name: archive.extractfile("package/" + name).read().decode()


# ---- the package's data, which is a literal in its program -----------------------------------------------------------

TOKEN = re.compile(r"""\s*(?:(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`)|(?P<bool>![01])"""
                   r"""|(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_$][\w$]*)"""
                   r"""|(?P<mark>[\[\]{}:,]))""")


def literal(text):
    """The array that the program begins with."""
    begin = re.match(r"const \w+ = (?=\[)", text)
    if not begin:
        sys.exit("prices: the package does not begin with its data; look at what has changed in dist/index.js")
    tokens = tokens_of(text, begin.end())
    return value_of(next(tokens), tokens)


def tokens_of(text, at):
    while match := TOKEN.match(text, at):
        yield match.lastgroup, match[match.lastgroup]
        at = match.end()
    sys.exit(f"prices: not a literal: {text[at:at + 40]!r}")


def value_of(token, tokens):
    kind, text = token
    if kind == "string":
        return unquoted(text)
    if kind == "number":
        return decimal.Decimal(text)
    if kind == "bool":
        return text == "!0"
    if token == ("mark", "["):
        return [value_of(each, tokens) for each in items(tokens, "]")]
    if token == ("mark", "{"):
        return dict(member(each, tokens) for each in items(tokens, "}"))
    sys.exit(f"prices: not a literal: {text!r}")


def items(tokens, end):
    """The first token of each item; the caller reads the rest of it."""
    while (token := next(tokens)) != ("mark", end):
        if token != ("mark", ","):
            yield token


def member(token, tokens):
    key = unquoted(token[1]) if token[0] == "string" else token[1]
    if next(tokens) != ("mark", ":"):
        sys.exit(f"prices: not a member: {key!r}")
    return key, value_of(next(tokens), tokens)


def unquoted(text):
    simple = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))",
                  lambda match: chr(int(match[1] or match[2], 16)) if not match[3] else simple.get(match[3], match[3]),
                  text[1:-1], flags=re.S)


# ---- which names are which model -------------------------------------------------------------------------------------

def own_rules(provider, counts):
    """Each model's names as text. The package takes the first model that fits; a whole name that an earlier model takes
    already is left out, so that looking whole names up first comes to the same."""
    rules = [(model["id"], alternatives(model["match"], counts)) for model in provider["models"]]
    texts = {}
    for index, (model, rule) in enumerate(rules):
        kept = [terms for terms in rule if not (len(terms) == 1 and terms[0][0] == "=" and
                                                any(fits(other, terms[0][1:]) for _, other in rules[:index]))]
        counts["names that an earlier model of the provider takes, left out"] += len(rule) - len(kept)
        if not any(fits(other, model.lower()) for _, other in rules):
            kept.append(["=" + model.lower()])
        if model in texts:
            sys.exit(f"prices: {provider['id']} has {model} twice")
        texts[model] = "." if kept == [["=" + model.lower()]] else " ".join("&".join(terms) for terms in kept)
    return texts


def alternatives(match, counts):
    """A list of lists of terms: any of all of."""
    (kind, value), = match.items()
    if kind == "or":
        return [terms for each in value for terms in alternatives(each, counts)]
    if kind == "and":
        every = [alternatives(each, counts) for each in value]
        if any(len(each) != 1 for each in every):
            sys.exit(f"prices: alternatives within an 'and' are not known here: {match}")
        return [[term for each in every for term in each[0]]]
    if kind == "regex":
        counts["regular expressions, translated"] += 1
        return [translated(value)]
    mark = {"equals": "=", "starts_with": "<", "ends_with": ">", "contains": "*"}[kind]
    check_name(value)
    return [[mark + value.lower()]]


def translated(regex):
    if regex == r"^(?!.*-[tT][tT][sS](?:$|-))":
        return ["!>-tts", "!*-tts-"]
    match = re.fullmatch(r"\^((?:[\w/=-]|\\[.\[\]]|\\d(?:\{\d+\})?)+)(\$?)", regex)
    if not match:
        sys.exit(f"prices: a regular expression that is not known here: {regex}")
    text = re.sub(r"\\d(?:\{(\d+)\})?", lambda digits: "#" * int(digits[1] or 1), match[1])
    text = re.sub(r"\\(.)", r"\1", text).lower()
    check_name(text)
    if "#" in text:
        return [("#" if match[2] else "%") + text]
    return [("=" if match[2] else "<") + text]


def fits(rule, name):
    return any(all(term_fits(term, name) for term in terms) for terms in rule)


def term_fits(term, name):
    mark, text = term[0], term[1:]
    if mark == "!":
        return not term_fits(text, name)
    if mark in "#%":
        part = name if mark == "#" else name[:len(text)]
        return len(part) == len(text) and all(a == b or a == "#" and b.isdigit() for a, b in zip(text, part))
    return {"=": name == text, "<": name.startswith(text), ">": name.endswith(text), "*": text in name}[mark]


def check_name(name):
    if not re.fullmatch(r"[!-%'-~]+", name):
        sys.exit(f"prices: a name that the format has no room for: {name!r}")


# ---- prices ----------------------------------------------------------------------------------------------------------

def conditional(prices):
    return prices if isinstance(prices, list) else [{"prices": prices}]


def period(entry, counts):
    """(conditions, variant → [(from, rates)]), or None where it cannot be metered."""
    prices = entry["prices"]
    known = {name for names in KINDS.values() for name in names} | PASSED_OVER
    if "input_mtok" not in prices or set(prices) - known:
        return None
    for name in set(prices) & OF_MANY:
        counts["prices of images and videos, which stand for all of the kind where they are dearer"] += 1
    counts["prices of cached audio, taken as cached text"] += "cache_audio_read_mtok" in prices
    starts = {0} | {int(tier["start"]) + 1 for price in prices.values() if isinstance(price, dict)
                    for tier in price["tiers"]}
    tiers = []
    for start in sorted(starts):
        rates = {}
        for kind, names in KINDS.items():
            if "output_mtok" not in prices:
                names = names[:1]  # What makes no output makes embeddings, which the gateway has of text only.
            found = [price_at(prices[name], start) for name in names if name in prices]
            if found:
                rates[kind] = rounded(max(found) / (1000 if kind in FEES else 1), kind, counts)
        if "out" not in rates:
            counts["models without a price of output, whose output costs what input does"] += start == 0
            rates["out"] = rates["in"]
        tiers.append((start, rates))
    return [condition(entry["constraint"])] if "constraint" in entry else [], {"": tiers}


def price_at(price, prompt):
    """A tier of the package holds above its start."""
    if not isinstance(price, dict):
        return price
    return max([(-1, price["base"])] + [(tier["start"], tier["price"]) for tier in price["tiers"]
                                        if prompt > tier["start"]])[1]


def rounded(price, kind, counts):
    places = FEE_DECIMALS_MAX if kind in FEES else DECIMALS_MAX
    up = price.quantize(decimal.Decimal(1).scaleb(-places), rounding=decimal.ROUND_CEILING)
    counts["prices"] += 1
    counts["prices finer than a pico-dollar, rounded up"] += up != price
    return up


def condition(constraint):
    if constraint["type"] == "start_date":
        return "from=" + constraint["start_date"]
    times = [re.fullmatch(r"(\d\d:\d\d):00Z", constraint[name]) for name in ("start_time", "end_time")]
    if constraint["type"] != "time_of_date" or not all(times):
        sys.exit(f"prices: a condition that is not known here: {constraint}")
    return f"daily={times[0][1]}-{times[1][1]}"


def add_rates(variants, name, start, rates):
    tiers = variants.setdefault(name, [])
    for at, (from_tokens, known) in enumerate(tiers):
        if from_tokens == start:
            tiers[at] = (start, {**known, **rates})
            return
    if name == "":
        sys.exit(f"prices: extra.txt adds to a tier from {start} that is not there: {rates}")
    fees = {kind: price for kind, price in variants[""][0][1].items() if kind in FEES}
    tiers.append((start, {**fees, **rates}))


def period_text(each):
    conditions, variants = each
    words = list(conditions)
    for name, tiers in variants.items():
        words += [f"variant={name}"] if name else []
        for start, rates in tiers:
            words += [f"tier={start}"] if start else []
            words += [f"{kind}={plain(rates[kind])}" for kind in KINDS if kind in rates]
    return " ".join(words)


def plain(number):
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# ---- what is kept by hand --------------------------------------------------------------------------------------------

def hand_kept_lines(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield f"{path.name}:{number}", line


def read_extra(path):
    extra = {"revision": 0, "alias": [], "price": {}, "provider": [], "line": []}
    for where, line in hand_kept_lines(path):
        if "\t" in line:
            extra["provider" if line.startswith("provider\t") else "line"].append(line)
            continue
        word, *rest = line.split()
        if word == "revision":
            extra["revision"] = int(rest[0])
        elif word == "alias":
            extra["alias"].append(tuple(rest))
        elif word == "price":
            read_extra_price(where, rest, extra["price"])
        else:
            sys.exit(f"prices: {where}: {word} is not known")
    return extra


def read_extra_price(where, words, prices):
    provider, model, *words = words
    variant, tier, rates = "", 0, {}
    found = []
    for word in words:
        kind, _, value = word.partition("=")
        if kind in ("variant", "tier"):
            if rates:
                found.append((variant, tier, rates))
            variant, tier, rates = (value, 0, {}) if kind == "variant" else (variant, int(value), {})
        elif kind in KINDS:
            rates[kind] = decimal.Decimal(value)
        else:
            sys.exit(f"prices: {where}: {kind} is not known")
    prices.setdefault((provider, model), []).extend(found + [(variant, tier, rates)])


def read_limits(path):
    return [line.split() for _, line in hand_kept_lines(path)]


def limit(limits, name, model):
    """What the model takes is a bound, and the package rounds: of two statements the larger holds."""
    taken, made, image = int(model.get("context_window", 0)), 0, ""
    fitting = [line for line in limits if line[0] == name[0] and
               (name[1].startswith(line[1][:-1]) if line[1].endswith("*") else name[1] == line[1])]
    if fitting:
        _, _, most, made, *image = max(fitting, key=lambda line: (not line[1].endswith("*"), len(line[1])))
        taken = max(taken, int(most))
        image = "".join(word.replace("image=", "/") for word in image)
    return f"{taken}/{made}{image}"


if __name__ == "__main__":
    main()
