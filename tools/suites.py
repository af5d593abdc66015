"""The test suites, and the jobs that run_tests.py starts for them.

A suite has a name that people can select. It is one program or a group of pytest files. A job is one process. A pytest
suite has one job per file. Files and test programs in PARTS have several jobs, so that no job is long.
"""

import dataclasses
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
PYTEST = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
LONG = os.environ.get("INTERLOCK_LONG") == "1"
TIMEOUT_SECONDS = 3600 if LONG else 600

# Pytest files that are not in the suite "tests". Some of them also run with a node on PostgreSQL.
NODES = ["tests/test_several_nodes.py", "tests/test_nodes_and_postgres.py"]
SHIM = ["tests/test_shim.py", "tests/test_shim_foreground.py"]
RUNS = [f"tests/test_runs_{name}.py" for name in ("real", "faults", "crowd", "worktrees", "foreground", "schedules")]
GATEWAY = ["tests/test_gateway.py", "tests/test_gateway_rules.py", "tests/test_gateway_upstreams.py"]
STORM = ["tests/test_gateway_storm.py"]
CLIENTS = ["tests/test_gateway_clients.py"]  # Programs from npm. The first run downloads them.
PAGE = ["tests/test_page.py", "tests/test_page_screens.py"]  # In a browser.
ON_POSTGRES = [f"tests/test_{name}.py" for name in ("api_money", "api_sessions", "api_runs", "api_auth", "incidents",
                                                    "races_http", "orgs")]
ON_POSTGRES_LONG = [*ON_POSTGRES, *GATEWAY, *STORM, "tests/test_api_system.py", "tests/test_api_nonsense.py",
                    "tests/test_page_host.py"]

# job: (seconds, cores) on an idle machine with two cores. The cores are CPU seconds divided by seconds: tests that wait
# for leases and timeouts use few, so many of them run beside one that computes. A job that is not here counts as
# UNKNOWN. The seconds of the last run replace the seconds of this table, the cores stay.
UNKNOWN = (10, 1.0)
COSTS = {
    "tidy": (1, 1.0),
    "format": (4, 1.0),
    "tools/campaign_test": (16, 0.3),
    "tools/page_test": (5, 0.3),
    "tools/run_tests_test": (6, 0.8),
    "tools/tidy_test": (4, 0.8),

    "tests/test_api_auth": (1, 0.8),
    "tests/test_api_history": (42, 0.1),
    "tests/test_api_launches": (1, 0.5),
    "tests/test_api_money": (3, 0.5),
    "tests/test_api_nonsense": (2, 0.6),
    "tests/test_api_runs": (7, 0.2),
    "tests/test_api_sessions": (2, 0.8),
    "tests/test_api_system": (8, 0.7),
    "tests/test_apply": (1, 0.8),
    "tests/test_demo": (38, 0.4),
    "tests/test_demo_serve": (23, 0.3),
    "tests/test_docs": (36, 0.4),
    "tests/test_example_three_nodes": (17, 0.4),
    "tests/test_gateway_observe": (10, 0.3),
    "tests/test_gateway_settings": (2, 0.8),
    "tests/test_incidents": (1, 0.9),
    "tests/test_migrate": (60, 0.5),
    "tests/test_orgs": (3, 0.5),
    "tests/test_page_host": (3, 0.5),
    "tests/test_prices_catalog": (1, 0.8),
    "tests/test_races_http": (25, 0.3),
    "tests/test_schedules": (7, 0.1),
    "tests/test_simulated_upstream": (3, 0.5),
    "tests/test_verify_cli": (2, 0.5),

    "runs/test_runs_crowd": (14, 0.8),
    "runs/test_runs_faults": (47, 0.1),
    "runs/test_runs_foreground": (26, 0.1),
    "runs/test_runs_real": (18, 0.1),
    "runs/test_runs_schedules": (41, 0.1),
    "runs/test_runs_worktrees": (30, 0.9),
    "gateway/test_gateway": (20, 0.1),
    "gateway/test_gateway_rules": (9, 0.2),
    "gateway/test_gateway_upstreams": (21, 0.1),
    "gateway_storm/test_gateway_storm": (24, 0.2),
    "several_nodes/test_nodes_and_postgres": (70, 0.5),
    "several_nodes/test_several_nodes": (50, 0.4),
    "shim_program/test_shim:alone": (6, 2.0),
    "shim_program/test_shim": (25, 0.4),
    "shim_program/test_shim_foreground": (16, 0.1),
    "page/test_page:1": (55, 0.6),
    "page/test_page:2": (80, 0.4),
    "page/test_page_screens": (19, 0.6),
    "page_units": (4, 1.3),
    "gateway_clients/test_gateway_clients:1": (25, 0.9),
    "gateway_clients/test_gateway_clients:2": (20, 0.9),
    "gateway_clients/test_gateway_clients:3": (29, 0.8),

    "tests_on_postgres/test_api_auth": (5, 0.6),
    "tests_on_postgres/test_api_money": (7, 0.7),
    "tests_on_postgres/test_api_runs": (8, 0.4),
    "tests_on_postgres/test_api_sessions": (7, 0.6),
    "tests_on_postgres/test_incidents": (8, 0.5),
    "tests_on_postgres/test_orgs": (10, 0.5),
    "tests_on_postgres/test_races_http": (25, 0.6),

    "api": (1, 0.1),
    "base": (10, 1.0),
    "bench_runs_smoke": (8, 0.8),
    "bench_smoke": (2, 0.5),
    "cli": (3, 1.0),
    "core": (10, 1.0),
    "crash": (20, 1.0),
    "crash_short": (95, 2.0),
    "demo": (1, 0.5),
    "embed_example": (1, 0.5),
    "engine": (23, 1.0),
    "fuzz_seeds": (4, 1.0),
    "gateway": (3, 1.0),
    "kill_short": (4, 0.6),
    "net": (8, 0.3),
    "nodes": (7, 0.1),
    "postgres_store_tests": (88, 0.4),
    "server": (7, 0.3),
    "shim": (1, 0.3),
    "sim": (11, 1.0),
    "sim_short": (29, 2.0),
    "store": (26, 0.2),
    "supervisor": (43, 0.4),
    "verify": (5, 1.0),
}
# Jobs of a pytest file or of a GoogleTest program, if more than one.
PARTS = {"test_gateway_clients": 3, "test_page": 2}
# Tests that starve every neighbour, by the name of their file. They have a job with nothing beside it.
ALONE = {"test_shim": "fork_bomb"}


@dataclasses.dataclass
class Job:
    suite: str
    part: str = ""  # Empty if the suite has one job.
    command: list = dataclasses.field(default_factory=list)
    directory: str = str(ROOT)
    environment: dict = dataclasses.field(default_factory=dict)
    timeout_seconds: float = TIMEOUT_SECONDS
    alone: bool = False  # No other job runs beside this one.
    must_report: bool = False
    report_flag: str = ""  # Takes the path of the JUnit report. If empty, GoogleTest's variable has the path.
    problem: str = "there is no program to run"  # Printed if there is no command.

    @property
    def name(self):
        return f"{self.suite}/{self.part}" if self.part else self.suite

    @property
    def cost(self):
        return COSTS.get(self.name, UNKNOWN)


@dataclasses.dataclass
class Suite:
    name: str
    jobs: list


def all_suites(build_dir):
    return own_suites() + cmake_suites(build_dir)


def own_suites():
    sources = [str(path.relative_to(ROOT)) for folder in ("src", "sim", "crash", "fuzz", "bench", "examples", "tests")
               for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".h", ".cc")]
    tools = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tools").glob("*_test.py"))]
    elsewhere = {*NODES, *SHIM, *RUNS, *GATEWAY, *STORM, *CLIENTS, *PAGE}
    rest = [path for path in (f"tests/{path.name}" for path in sorted((ROOT / "tests").glob("test_*.py")))
            if path not in elsewhere]
    suites = [
        Suite("tidy", [Job("tidy", command=[PYTHON, "tools/tidy.py"])]),
        Suite("format", [Job("format", command=["clang-format-19", "--dry-run", "-Werror", *sources] if sources else [])]),
        black_box("tools", tools),
        black_box("tests", rest),
        black_box("runs", RUNS),
        black_box("gateway", GATEWAY),
        black_box("gateway_storm", STORM),
        black_box("several_nodes", NODES),
        black_box("shim_program", SHIM),
        black_box("page", PAGE),
        Suite("page_units", [Job("page_units", command=[PYTHON, "tools/page.py", "--test"], must_report=True,
                                 report_flag="--report")]),
        black_box("gateway_clients", CLIENTS),
        black_box("tests_on_postgres", ON_POSTGRES_LONG if LONG else ON_POSTGRES, INTERLOCK_TEST_STORE="postgres"),
    ]
    if LONG:
        # Without the tests that need a standby, because npm's package cannot create one.
        suites.append(black_box("tests_on_postgres_18", [*ON_POSTGRES_LONG, "tests/test_several_nodes.py"],
                                INTERLOCK_TEST_STORE="postgres", INTERLOCK_TEST_POSTGRES="18"))
    return suites


def black_box(name, paths, **environment):
    """One job per pytest file, or several for a file in PARTS."""
    jobs = []
    for path in paths:
        stem = pathlib.Path(path).stem
        count, alone = PARTS.get(stem, 1), ALONE.get(stem)
        command = [*PYTEST, path, *(["-k", f"not {alone}"] if alone else [])]
        for number in range(1, count + 1):
            part, words = (f"{stem}:{number}", [f"--part={number}/{count}"]) if count > 1 else (stem, [])
            jobs.append(Job(name, part, [*command, *words], environment=environment, must_report=True,
                            report_flag="--junitxml"))
        if alone:
            jobs.append(Job(name, f"{stem}:alone", [*PYTEST, path, "-k", alone], environment=environment, alone=True,
                            must_report=True, report_flag="--junitxml"))
    return Suite(name, jobs or [Job(name)])


def cmake_suites(build_dir):
    listed = subprocess.run(["ctest", "--test-dir", build_dir, "--show-only=json-v1"], capture_output=True, text=True)
    tests = json.loads(listed.stdout)["tests"] if listed.returncode == 0 else []
    if not tests:
        return [Suite("ctest", [Job("ctest", problem=f"{build_dir} has no tests: is it built?")])]
    return [Suite(test["name"], divided(cmake_job(test))) for test in tests]


def cmake_job(test):
    command = test.get("command", [])  # Absent if the program was not built.
    # Any word, not only the first: tools/with_postgres.py runs the programs that need a database.
    job = Job(test["name"], command=command, must_report=any(word.endswith("_tests") for word in command))
    for entry in test.get("properties", []):
        name, value = entry["name"], entry["value"]
        if name == "WORKING_DIRECTORY":
            job.directory = value
        elif name == "ENVIRONMENT":
            job.environment = dict(pair.split("=", 1) for pair in value)
        elif name == "TIMEOUT":
            job.timeout_seconds = value
        elif name == "RUN_SERIAL":
            job.alone = bool(value)
        elif name not in ("LABELS", "PROCESSORS", "COST"):
            # WILL_FAIL and similar properties invert a result. No result is better than a wrong one.
            return Job(job.suite, problem=f"run_tests.py does not know the test property {name}")
    return job


def divided(job):
    """The jobs of one GoogleTest program."""
    count = PARTS.get(job.suite, 1) if job.must_report and job.command else 1
    if count == 1:
        return [job]
    return [dataclasses.replace(job, part=str(number + 1), environment={
        **job.environment, "GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(number)}) for number in range(count)]
