"""A terminal, with as much of a shell as it takes to have jobs."""

import contextlib
import os
import pty
import select
import signal
import termios
import time

SECONDS = 20  # For anything that is awaited.


class Shell:
    """A session with a terminal of its own. Runs one job in the foreground; says when it stops or ends."""

    def __init__(self, command, env=None, cwd=None):
        heard, self.tell = os.pipe()
        self.told, say = os.pipe()
        for fd in (heard, say):
            os.set_inheritable(fd, False)
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            try:
                self.be_shell(command, os.environ if env is None else env, cwd, heard, say)
            finally:
                os._exit(99)
        os.close(heard), os.close(say)
        self.printed = b""
        self.job = int(self.hear().split()[1])

    @staticmethod
    def be_shell(command, env, cwd, heard, say):
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(120)
        job = os.fork()
        if job == 0:
            os.setpgid(0, 0)
            os.tcsetpgrp(0, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.chdir(cwd or ".")
            os.execve(command[0], command, env)
        with contextlib.suppress(OSError):
            os.setpgid(job, job)
        os.tcsetpgrp(0, job)
        os.write(say, b"job %d\n" % job)
        while True:
            _, status = os.waitpid(job, os.WUNTRACED)
            mine = os.tcgetpgrp(0) == job
            os.tcsetpgrp(0, os.getpgrp())
            if os.WIFSTOPPED(status):
                os.write(say, b"stopped %d %d\n" % (os.WSTOPSIG(status), mine))
                if os.read(heard, 1) == b"f":
                    os.tcsetpgrp(0, job)
                os.killpg(job, signal.SIGCONT)
            else:
                os.write(say, b"ended %d %d\n" % (os.waitstatus_to_exitcode(status), mine))
                return

    def hear(self, seconds=SECONDS):
        line = b""
        while not line.endswith(b"\n"):
            assert select.select([self.told], [], [], seconds)[0], f"nothing was said; printed: {self.printed}"
            line += os.read(self.told, 1)
        return line.decode().strip()

    def type(self, text):
        os.write(self.terminal, text)

    def read_until(self, text, seconds=SECONDS):
        deadline = time.monotonic() + seconds
        while text not in self.printed:
            assert select.select([self.terminal], [], [], deadline - time.monotonic())[0], self.printed
            self.printed += os.read(self.terminal, 4096)
        before, _, self.printed = self.printed.partition(text)
        return before

    def foreground_group(self):
        return os.tcgetpgrp(self.terminal)

    def modes(self):
        return termios.tcgetattr(self.terminal)

    def close(self):
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.kill(self.job, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        for fd in (self.terminal, self.tell, self.told):
            os.close(fd)
