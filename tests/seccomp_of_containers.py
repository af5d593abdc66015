"""Becomes a program that has the system calls that containers have by default: python3 seccomp_of_containers.py COMMAND…

Namespaces and mounts are refused with EPERM, and clone3() with ENOSYS, as by the profile that Docker has for containers
without CAP_SYS_ADMIN. For x86-64.
"""

import ctypes
import os
import struct
import sys

NEW_NAMESPACES = 0x7E020000
# unshare, mount, umount2, pivot_root, setns, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr,
# keyctl, add_key, request_key, perf_event_open, bpf, open_by_handle_at, userfaultfd, io_uring
REFUSED = (272, 165, 166, 155, 308, 428, 429, 430, 431, 432, 433, 442, 250, 248, 249, 298, 321, 304, 323, 425, 426, 427)
CLONE, CLONE3 = 56, 435
LOAD, IF_EQUAL, IF_ANY_BIT, ANSWER = 0x20, 0x15, 0x45, 0x06
ALLOW, ERROR, EPERM, ENOSYS = 0x7FFF0000, 0x00050000, 1, 38
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def instruction(code, value, when=0, otherwise=0):
    return struct.pack("HBBI", code, when, otherwise, value)


def program():
    number, flags = 0, 16  # Where they are in seccomp_data.
    code = [instruction(LOAD, number)]
    for call, error in [*((call, EPERM) for call in REFUSED), (CLONE3, ENOSYS)]:
        code += [instruction(IF_EQUAL, call, 0, 1), instruction(ANSWER, ERROR | error)]
    code += [instruction(IF_EQUAL, CLONE, 0, 3), instruction(LOAD, flags), instruction(IF_ANY_BIT, NEW_NAMESPACES, 0, 1),
             instruction(ANSWER, ERROR | EPERM), instruction(ANSWER, ALLOW)]
    return b"".join(code)


class Filter(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]


def main():
    code = ctypes.create_string_buffer(program())
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Filter((len(code) - 1) // 8, ctypes.addressof(code))), 0, 0):
        sys.exit(f"no filter: error {ctypes.get_errno()}")
    os.execvp(sys.argv[1], sys.argv[1:])


main()
