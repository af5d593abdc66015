#!/usr/bin/python3
"""Nodes on one PostgreSQL, beside what one would write on it by hand. Loopback only, a PostgreSQL of its own.

    ./dev bench-nodes [--seconds S] [--rounds N] [--only hot|orgs|latency|runs|peers]... [--pg-boss] [--json]

Every number comes from the same server in the same minutes; rounds take turns and medians are compared.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from with_postgres import Postgres  # noqa: E402

PARTS = ["peers", "hot", "orgs", "latency", "runs"]

# One charge as three statements, and as one call of a procedure: the cost event, the agent's state, the month's spend.
TABLES = """
create table agent_state(agent text primary key, spent bigint) with (fillfactor = 50);
create table monthly(agent text, month date, spent bigint, primary key(agent, month)) with (fillfactor = 50);
create table cost_events(id bigserial primary key, agent text, at timestamptz default now(), cost bigint);
insert into agent_state values ('a', 0);
insert into monthly values ('a', '2026-11-01', 0);
create function charge(who text, amount bigint) returns void language plpgsql as $$
begin
    insert into cost_events(agent, cost) values (who, amount);
    update agent_state set spent = spent + amount where agent = who;
    update monthly set spent = spent + amount where agent = who and month = '2026-11-01';
end $$;
"""
STATEMENTS = """begin;
insert into cost_events(agent, cost) values ('a', 750000);
update agent_state set spent = spent + 750000 where agent = 'a';
update monthly set spent = spent + 750000 where agent = 'a' and month = '2026-11-01';
commit;
"""
CALL = "select charge('a', 750000);\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nodes_main")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, action="append")
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--pg-boss", action="store_true", help="also pg-boss 12.18, from npm")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted = options.only or PARTS
    rates = {}
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as scratch, Postgres() as server:
        bench = Bench(server, pathlib.Path(scratch), options)
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            for name, value in bench.round(wanted):
                rates.setdefault(name, []).append(value)
    results = {name: statistics.median(values) for name, values in rates.items()}
    results |= ratios(results)
    print(json.dumps(results) if options.json else as_text(results))


class Bench:
    def __init__(self, server, scratch, options):
        self.server, self.scratch, self.options = server, scratch, options
        self.databases = 0
        scratch.chmod(0o755)
        (scratch / "statements.sql").write_text(STATEMENTS)
        (scratch / "call.sql").write_text(CALL)
        server.create_database("peers")
        server.sql(TABLES, "peers")

    def round(self, wanted):
        if "peers" in wanted:
            yield "three statements, 16 connections", self.pgbench("statements.sql", 16)
            for connections in (16, 64):
                yield f"one procedure call, {connections} connections", self.pgbench("call.sql", connections)
        if "hot" in wanted:
            for clients in self.options.clients or (256, 1024):
                for nodes in (1, 2, 4):
                    yield f"one hot budget, {clients} clients, {nodes} nodes", self.rate(nodes, clients)
        if "orgs" in wanted:
            for nodes in (1, 2, 4):
                yield f"an org for each, 256 clients, {nodes} nodes", self.rate(nodes, 256, orgs=True)
        if "latency" in wanted:
            (only,) = self.nodes(1, 64)
            yield "64 clients, charges/s", only["rate"]
            yield "64 clients, p50 ms", only["p50_ms"]
            yield "64 clients, p99 ms", only["p99_ms"]
            yield "round trips by batch", only["trips"] / max(1, only["batches"])
        if "runs" in wanted:
            yield "runs admitted and finished/s, 128 clients", self.rate(1, 128, load="runs") / 2
            if self.options.pg_boss:
                yield "pg-boss create, claim, complete/s", self.pg_boss()

    def pgbench(self, script, connections):
        out = self.server.run("pgbench", "-h", "127.0.0.1", "-p", self.server.port, "-n", "-M", "prepared", "-f",
                              self.scratch / script, "-c", connections, "-j", 2, "-T",
                              max(1, round(self.options.seconds)), "peers")
        return float(re.search(r"tps = ([\d.]+)", out)[1])

    def rate(self, *words, **more):
        return sum(each["rate"] for each in self.nodes(*words, **more))

    def nodes(self, count, clients, load="charges", orgs=False):
        """Starts the nodes, has them begin together, and returns what each has found."""
        self.databases += 1
        database = f"nodes_{self.databases}"
        self.server.create_database(database)
        processes = []
        for number in range(count):
            processes.append(subprocess.Popen(
                [self.options.nodes_main, "--store", self.server.uri(database), "--load", load, "--clients",
                 str(clients // count), "--seconds", str(self.options.seconds), "--org", str(number + 1 if orgs else 1)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            # One after the other: the first one makes the tables.
            if processes[-1].stdout.readline() != "ready\n":
                sys.exit("bench: a node did not start")
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        results = [json.loads(process.stdout.readline()) for process in processes]
        for process in processes:
            process.communicate()
        answered = sum(each["answered"] for each in results)
        stored = int(self.server.sql("select count(*) from ledger", database))
        if load == "charges" and stored != answered:
            sys.exit(f"bench: {answered} charges were answered and {stored} are stored")
        deadlocks = self.server.sql(f"select deadlocks from pg_stat_database where datname = '{database}'")
        if int(deadlocks) > 0:
            sys.exit(f"bench: {deadlocks} deadlocks")
        self.server.sql(f'drop database "{database}" with (force)')
        return results

    def pg_boss(self):
        """One job after another, 128 at a time: created, fetched, completed."""
        where = self.scratch / "pg-boss"
        where.mkdir(exist_ok=True)
        if not (where / "node_modules").exists():
            subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "pg-boss@12.18.0"], cwd=where, check=True)
        (where / "bench.mjs").write_text((ROOT / "bench" / "pg_boss.mjs").read_text())
        self.databases += 1
        database = f"boss_{self.databases}"
        self.server.create_database(database)
        out = subprocess.run(["node", "bench.mjs", self.server.uri(database), str(self.options.seconds)], cwd=where,
                             check=True, capture_output=True, text=True).stdout
        return float(out)


def ratios(results):
    found = {}

    def by(name, over, under):
        if over in results and results.get(under):
            found[name] = results[over] / results[under]

    hot = "one hot budget, {} clients, {} nodes".format
    by("hot budget by three statements (goal 20)", hot(256, 1), "three statements, 16 connections")
    by("hot budget by a procedure call, 16 (goal 8)", hot(256, 1), "one procedure call, 16 connections")
    by("hot budget by a procedure call, 64", hot(256, 1), "one procedure call, 64 connections")
    for clients in (256, 1024):
        for nodes in (2, 4):
            by(f"{nodes} nodes by one, {clients} clients (goal 0.9)", hot(clients, nodes), hot(clients, 1))
    by("p99 by p50 at 64 clients (goal at most 3)", "64 clients, p99 ms", "64 clients, p50 ms")
    by("runs by pg-boss (goal 5)", "runs admitted and finished/s, 128 clients", "pg-boss create, claim, complete/s")
    return found


def as_text(results):
    width = max(map(len, results))
    return "\n".join(f"{name:<{width}}  {value:>12,.0f}" if value >= 100 else f"{name:<{width}}  {value:>12,.2f}"
                     for name, value in results.items())


def say(text):
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
