"""The server's side of a shim's socket, as small as it can be, and the processes of a run as anybody sees them.

    with Supervisor(data) as supervisor:
        shim = Shim(program, data, "run-1")
        line = supervisor.accept()
        line.launch(["sh", "-c", "exit 3"], home=shim.home)
        assert line.expect("ended")[:2] == ["exited", "3"]
"""

import contextlib
import os
import pathlib
import signal
import socket
import struct
import subprocess
import time
import uuid

SECONDS = 20
MARK = "INTERLOCK_TEST_MARK"


class Supervisor:
    """Listens where the server of a data directory would."""

    def __init__(self, data):
        self.data = pathlib.Path(data)
        self.data.mkdir(exist_ok=True)
        (self.data / "supervisor.sock").unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX)
        # The name of a socket has little room, so it is reached through an open directory.
        directory = os.open(self.data, os.O_PATH)
        self.socket.bind(f"/proc/self/fd/{directory}/supervisor.sock")
        os.close(directory)
        self.socket.listen(64)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()
        (self.data / "supervisor.sock").unlink(missing_ok=True)

    def accept(self, seconds=SECONDS):
        """The next shim that comes, after its hello."""
        self.socket.settimeout(seconds)
        line = Line(self.socket.accept()[0])
        line.hello = line.expect("hello")
        return line


class Line:
    def __init__(self, connection):
        self.connection, self.buffer, self.beats, self.seen = connection, b"", [], []

    def close(self):
        self.connection.close()

    def send(self, *fields):
        self.connection.sendall(encode(fields))

    def launch(self, args, **keys):
        """Keys whose value is a list come once for each. The environment has at least PATH."""
        words = [word for arg in args for word in ("arg", arg)]
        keys = {"env": [], "dir": "/", "beat_ms": 100, "grace_ms": 5000, **keys}
        keys["env"] = [*keys["env"], f"PATH={os.environ['PATH']}"]
        for key, value in keys.items():
            for one in value if isinstance(value, list) else [value]:
                words += [key, str(one)]
        self.send("launch", *words)

    def receive(self, seconds=SECONDS):
        """The next message, or None when the shim has closed the line."""
        deadline = time.monotonic() + seconds
        while True:
            if len(self.buffer) >= 4:
                (length,) = struct.unpack("<I", self.buffer[:4])
                if len(self.buffer) >= 4 + length:
                    body, self.buffer = self.buffer[4:4 + length], self.buffer[4 + length:]
                    return decode(body)
            self.connection.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                part = self.connection.recv(1 << 16)
            except ConnectionResetError:
                part = b""
            if not part:
                return None
            self.buffer += part

    def expect(self, verb, seconds=SECONDS):
        """The fields of the next message with this verb. Others before it are kept in `seen`."""
        deadline = time.monotonic() + seconds
        while (message := self.receive(deadline - time.monotonic())) is not None:
            (self.beats if message[0] == "beat" else self.seen).append(message)
            if message[0] == verb:
                return message[1:]
        raise AssertionError(f"the line was closed before {verb}; seen: {self.seen}")

    def silent_about(self, verb, seconds):
        """Whether no message with this verb comes for so long."""
        with contextlib.suppress(TimeoutError):
            self.expect(verb, seconds)
            return False
        return True


def encode(fields):
    body = b"".join(struct.pack("<I", len(field.encode())) + field.encode() for field in fields)
    return struct.pack("<I", len(body)) + body


def decode(body):
    fields = []
    while body:
        (length,) = struct.unpack("<I", body[:4])
        fields.append(body[4:4 + length].decode())
        body = body[4 + length:]
    return fields


class Shim:
    """A shim as the server or the command line would start it. `mark` goes into the run's environment, to find it by."""

    def __init__(self, program, data, run=None, *flags, **options):
        self.run, self.mark = run or f"run-{uuid.uuid4().hex[:8]}", f"{MARK}={uuid.uuid4().hex}"
        self.home = pathlib.Path(data) / "runs" / self.run
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        self.process = subprocess.Popen([program, str(data), self.run, *flags], **options)
        self.pid = self.process.pid

    def wait(self, seconds=SECONDS):
        return self.process.wait(seconds)

    def state(self):
        lines = (self.home / "state").read_text().splitlines()
        assert lines[-1] == "end"
        return dict(line.split(" ", 1) for line in lines[:-1])

    def left(self):
        return processes_with(self.mark)

    def sweep(self):
        """Leaves nothing behind, whatever the test found."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        while pids := self.left():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()


def processes_with(assignment):
    """Everybody on this machine who was started with it in his environment and has not ended."""
    found = []
    for path in pathlib.Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                if assignment.encode() in (path / "environ").read_bytes().split(b"\0") and process_state(path.name) not in "ZX":
                    found.append(int(path.name))
    return found


def process_state(pid):
    """One letter, as in ps; X when there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


class World:
    """A data directory with its supervisor, and the shims that are started in it."""

    def __init__(self, program, directory, stack):
        self.program, self.stack, self.directory, self.data = program, stack, directory, directory / "data"
        self.supervisor = stack.enter_context(Supervisor(self.data))

    def shim(self, *flags, run=None, **options):
        shim = Shim(self.program, self.data, run, *flags, **options)
        self.stack.callback(shim.sweep)
        return shim

    def launch(self, args, *flags, options=None, **keys):
        """A shim whose run was launched, and the line to it."""
        shim = self.shim(*flags, **(options or {}))
        line = self.supervisor.accept()
        self.send_launch(shim, line, args, **keys)
        return shim, line

    def send_launch(self, shim, line, args, **keys):
        line.launch(args, **{"home": shim.home, **keys, "env": [shim.mark, *keys.get("env", [])]})

    def shell(self, script, *flags, **keys):
        shim, line = self.launch(["sh", "-c", script], *flags, **keys)
        line.expect("started")
        return shim, line

    def end_of(self, script, **keys):
        """What `ended` says, and what was printed."""
        shim, line = self.launch(["sh", "-c", script], **keys)
        return self.finish(shim, line), (shim.home / "output").read_bytes()

    def finish(self, shim, line, seconds=SECONDS):
        ended = line.expect("ended", seconds)
        # From outside, at the moment it is said: nobody is left.
        assert shim.left() == []
        line.send("done", "receipt")
        shim.wait()
        return ended
