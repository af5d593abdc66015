"""A server of one user with runs at each sandbox level, and what is outside of them: for tests of what runs can reach."""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

from interlock_server import eventually

HERE = pathlib.Path(__file__).resolve().parent
LEVELS = ("off", "guarded", "files", "sealed")
NOBODY = 65534
USERS = ("root", "ordinary") if os.geteuid() == 0 else ("ordinary",)
AT_FDCWD = -100


def reads_disks():
    try:
        with open("/proc/partitions") as partitions:
            return bool(open("/dev/" + partitions.read().split()[-1], "rb").read(512))
    except OSError:
        return False


def file_handle(path):
    """As open_by_handle_at() takes it."""
    class Handle(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_char * 128)]

    handle, mount = Handle(bytes=128), ctypes.c_int()
    if ctypes.CDLL(None).name_to_handle_at(AT_FDCWD, os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount), 0) != 0:
        return ""
    return bytes(handle)[:8 + handle.bytes].hex()


def kernel_has():
    """Attempts of sandbox_attacks.py that not every kernel knows, and whether this one does."""
    def opens(kind):
        with contextlib.suppress(OSError):
            socket.socket(kind, socket.SOCK_STREAM).close()
            return True
        return False

    libc = ctypes.CDLL(None)
    ring = libc.syscall(425, 1, ctypes.create_string_buffer(120))
    if ring >= 0:
        os.close(ring)
    with open("/proc/sys/user/max_user_namespaces") as most:
        return {"talk to the host of a virtual machine": opens(socket.AF_VSOCK), "use io_uring": ring >= 0,
                "make a user namespace": int(most.read()) > 0, "send raw packets": bool(another_address()),
                "see interfaces": len(socket.if_nameindex()) > 1, "use keys of the kernel": os.path.exists("/proc/keys")}


def another_address():
    """An IPv4 address of this machine that is not loopback; empty where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # Nothing is sent.
        return probe.getsockname()[0]
    return ""


class Listeners:
    """What programs of this machine listen on. Each says "reached" to what connects, and notes what it is sent."""

    def __init__(self, directory):
        self.sockets, self.told, self.notes = [], {}, set()
        self.key = None  # The file that those of Unix sockets hand over.
        self.stream("tcp", socket.AF_INET, ("127.0.0.1", 0))
        self.stream("tcp of another address", socket.AF_INET, (another_address(), 0))
        self.stream("tcp over IPv6", socket.AF_INET6, ("::1", 0))
        self.stream("unix", socket.AF_UNIX, str(directory / "listener"))
        self.stream("abstract", socket.AF_UNIX, f"\0{directory}")
        os.chmod(directory / "listener", 0o777)
        self.datagrams = self.open(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self.told["udp"] = self.datagrams.getsockname()
        threading.Thread(target=self.note, args=(self.datagrams,), daemon=True).start()

    def open(self, family, kind, address):
        made = socket.socket(family, kind)
        made.bind(address)
        self.sockets.append(made)
        return made

    def stream(self, name, family, address):
        if not address[0]:
            return
        with contextlib.suppress(OSError):  # A machine without IPv6.
            listening = self.open(family, socket.SOCK_STREAM, address)
            listening.listen(64)
            self.told[name] = listening.getsockname() if family != socket.AF_UNIX else address
            threading.Thread(target=self.answer, args=(listening,), daemon=True).start()

    def answer(self, listening):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):  # One that connects may leave at once.
                    if listening.family == socket.AF_UNIX and self.key:
                        with open(self.key) as key:
                            socket.send_fds(connection, [b"reached"], [key.fileno()])
                    else:
                        connection.sendall(b"reached")

    def note(self, datagrams):
        with contextlib.suppress(OSError):
            while True:
                self.notes.add(datagrams.recv(100).decode())

    def close(self):
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


class Machine:
    """A server of one user, another run of it, and things outside that a run may want."""

    def __init__(self, binary, user):
        self.binary = binary
        self.options = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if user == "ordinary" and os.geteuid() == 0 else {}
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="interlock-sandbox-", dir="/var/tmp"))
        self.data = self.home / "state/data"
        for name in ("work", "books", "other", "state", "second"):
            (self.home / name).mkdir()
        (self.home / "books/file").write_text("of home")
        # Not where a run at level files has an empty directory of its own.
        self.outside = pathlib.Path(tempfile.mkdtemp(prefix="interlock-sandbox-", dir="/srv" if os.geteuid() == 0 else self.home))
        (self.outside / "file").write_text("outside")
        shutil.copy(HERE / "sandbox_attacks.py", self.home / "work/attacks.py")
        if self.options:
            for path in (self.home, *self.home.rglob("*"), self.outside, self.outside / "file"):
                os.chown(path, NOBODY, NOBODY)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "INTERLOCK_DATA": str(self.data)}
        self.listeners = Listeners(self.outside)
        self.shared = pathlib.Path("/dev/shm") / self.home.name
        self.shared.write_text("shared")
        self.mounted = False

    def __enter__(self):
        self.cli("up", "--detach", "--listen", "127.0.0.1:0")
        self.server = json.loads((self.data / "server.json").read_text())["pid"]
        key = self.data / "admin.key"
        key.write_text("ilk_of an older version\n")
        os.chown(key, self.options.get("user", -1), self.options.get("group", -1))
        self.listeners.key = key
        if os.geteuid() == 0:
            self.mounted = subprocess.run(["mount", "--bind", self.data, self.home / "second"], check=False).returncode == 0
        self.other = self.cli("run", "--detach", "--quiet", "--sandbox=off", "--workspace", self.home / "other", "--env",
                              "SECRET_TOKEN=tok123", "--", "sh", "-c", "echo other; sleep 9876 & wait").strip()
        self.log = self.data / "runs" / self.other / "output"
        eventually(lambda: self.log.exists() and "other" in self.log.read_text())
        self.state = dict(line.split(" ", 1) for line in (self.log.parent / "state").read_text().splitlines() if " " in line)
        return self

    def __exit__(self, *_):
        self.listeners.close()
        self.shared.unlink()
        if hasattr(self, "other"):
            self.cli("runs", "stop", self.other, check=False)
        self.cli("down", check=False)
        if self.mounted:
            subprocess.run(["umount", self.home / "second"], check=True)
        shutil.rmtree(self.home)
        shutil.rmtree(self.outside, ignore_errors=True)

    def cli(self, *words, check=True, **options):
        done = subprocess.run([self.binary, *map(str, words)], env=self.environment, cwd=self.home, text=True, timeout=120,
                              capture_output=True, stdin=subprocess.DEVNULL, **self.options, **options)
        assert not check or done.returncode == 0, (words, done)
        self.said = done.stderr
        return done.stdout

    def run(self, level, *command, **options):
        return self.cli("run", f"--sandbox={level}", "--workspace", self.home / "work", "--", *command, **options)

    def attack(self, level):
        told = {"data": str(self.data), "outside": str(self.outside), "of_home": str(self.home / "books/file"), "server": self.server,
                "shim": int(self.state["pid"]), "other": int(self.state["child_pid"]), "other_log": str(self.log),
                "other_cwd": str(self.home / "other"), "second_mount": str(self.home / "second"),
                "abstract": str(self.outside), "level": level, "listeners": self.listeners.told, "shared": self.shared.name,
                "handle": file_handle(self.data / "admin.key")}
        (self.home / "work/told.json").write_text(json.dumps(told))
        (self.home / "work/told.json").chmod(0o644)
        reached = json.loads(self.run(level, sys.executable, "-I", "attacks.py", "told.json"))
        # A datagram is sent in any case; whether it came is known here.
        with contextlib.suppress(AssertionError):
            eventually(lambda: level in self.listeners.notes, seconds=0.5)
        reached["network"]["send a datagram"] = level in self.listeners.notes
        return reached
