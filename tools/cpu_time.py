#!/usr/bin/python3
"""Compiler launcher: run a compiler and write the CPU seconds that it took beside its output, as FILE.cpu for FILE.o.

    tools/cpu_time.py COMPILER ARGUMENTS...

tools/build_times.py reads them. This file imports little, because it starts once per compilation.
"""

import os
import sys


def main(command):
    output = command[command.index("-o") + 1] if "-o" in command[:-1] else None
    record = output and os.path.splitext(output)[0] + ".cpu"
    if record and os.path.exists(record):
        os.unlink(record)
    try:
        pid = os.posix_spawnp(command[0], command, os.environ)
    except OSError as error:
        print(f"tools/cpu_time.py: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    _, status, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == 0 and record:
        with open(record, "w") as file:
            file.write(f"{usage.ru_utime + usage.ru_stime:.3f}\n")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if sys.argv[1:] else __doc__)
