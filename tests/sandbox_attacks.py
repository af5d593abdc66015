"""Runs inside a run, and tries to get out of it. One line of JSON says which attempts on the server and on other runs
succeeded, which on files and other things of the machine, and which on its network and kernel.

Every attempt returns whether it reached what it wanted, and leaves it as it was.
"""

import contextlib
import ctypes
import glob
import json
import os
import pathlib
import platform
import resource
import socket
import struct
import sys

told = json.loads(pathlib.Path(sys.argv[1]).read_text())
DATA, OUTSIDE, SERVER, SHIM, OTHER = (told[name] for name in ("data", "outside", "server", "shim", "other"))
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, MNT_DETACH = 0x4206, 0x20000, 0x10000000, 0x20000000, 2


def holds_admin_key(path):
    return open(path).read().startswith("ilk_")


def any_of(paths, look):
    for path in paths:
        with contextlib.suppress(OSError):
            if look(path):
                return True
    return False


def connects(path):
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
    return True


def in_a_child(look):
    """What changes the process is done in one of its own."""
    child = os.fork()
    if child == 0:
        reached = False
        with contextlib.suppress(Exception):
            reached = look()
        os._exit(0 if reached else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def read_by_link():
    link = "link-to-key"
    os.symlink(DATA + "/admin.key", link)
    try:
        return holds_admin_key(link)
    finally:
        os.unlink(link)


def connect_by_descriptor(name):
    return connects(f"/proc/self/fd/{os.open(DATA, os.O_PATH)}/{name}")


def trace(pid):
    if libc.ptrace(PTRACE_SEIZE, pid, 0, 0) != 0:
        return False
    return True  # The kernel lets go of it when the process ends.


def uncover(unshare):
    def look():
        if unshare and libc.unshare(unshare) != 0:
            return False
        libc.mount(None, b"/", None, 0x44000, None)  # Private, all of it.
        libc.umount2(DATA.encode(), MNT_DETACH)
        return holds_admin_key(DATA + "/admin.key")

    return in_a_child(look)


def join_namespaces_of(pid):
    def look():
        space = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
        return libc.setns(space, 0) == 0 and holds_admin_key(DATA + "/admin.key")

    return in_a_child(look)


def leave_by_chroot():
    def look():
        os.makedirs("cell", exist_ok=True)
        os.chroot("cell")
        for _ in range(64):
            os.chdir("..")
        os.chroot(".")
        return holds_admin_key(DATA + "/admin.key")

    return in_a_child(look)


def open_by_handle():
    handle = bytes.fromhex(told["handle"])
    mounted = os.open(OUTSIDE, os.O_RDONLY)
    fd = libc.open_by_handle_at(mounted, ctypes.create_string_buffer(handle), os.O_RDONLY)
    return fd >= 0 and os.read(fd, 4) == b"ilk_"


def disks():
    words = [line.split() for line in open("/proc/partitions").read().splitlines()[2:]]
    return [(word[3], os.makedev(int(word[0]), int(word[1]))) for word in words if word[3].startswith(("vd", "sd", "nvme"))]


def make_a_disk():
    name, device = disks()[0]
    os.mknod("disk", 0o600 | 0o060000, device)
    try:
        return len(os.read(os.open("disk", os.O_RDONLY), 512)) == 512
    finally:
        os.unlink("disk")


def can_open_to_write(path):
    os.close(os.open(path, os.O_WRONLY))
    return True


def set_core_pattern_by_a_new_proc():
    def look():
        libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID)
        open("/proc/self/uid_map", "w").write("0 0 1")

        def below():
            libc.mount(None, b"/", None, 0x44000, None)
            return libc.mount(b"proc", b"/proc", b"proc", 0, None) == 0 and can_open_to_write("/proc/sys/kernel/core_pattern")

        return in_a_child(below)

    return in_a_child(look)


def write_outside():
    path = OUTSIDE + "/new"
    open(path, "w").write("x")
    written = os.path.exists(path)
    os.unlink(path)
    return written


def change_times():
    before = os.stat(OUTSIDE + "/file")
    os.utime(OUTSIDE + "/file", (1, 1))
    os.utime(OUTSIDE + "/file", (before.st_atime, before.st_mtime))
    return True


def set_attribute():
    os.setxattr(OUTSIDE + "/file", "user.mark", b"x")
    return True


def connect_abstract():
    with socket.socket(socket.AF_UNIX) as link:
        link.connect("\0" + told["abstract"])
    return True


def reaches(family, address):
    with socket.socket(family) as link:
        link.settimeout(5)
        link.connect(tuple(address) if isinstance(address, list) else address)
        return link.recv(100).startswith(b"reached")


def is_passed_the_key(address):
    """By a program outside that hands an open file to what asks for it."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(5)
        link.connect(address)
        _, files, _, _ = socket.recv_fds(link, 100, 4)
        return any(os.read(file, 4) == b"ilk_" for file in files)


def send_datagram():
    """Whether it came is seen by the one who listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        return link.sendto(told["level"].encode(), tuple(told["listeners"]["udp"])) > 0


def other_interfaces():
    return [name for _, name in socket.if_nameindex() if name != "lo" and "up" in open(f"/sys/class/net/{name}/operstate").read()]


def send_raw():
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((other_interfaces()[0], 0))
        return raw.send(bytes(12) + b"\x88\xb5" + bytes(46)) > 0  # To no address, of a type for experiments.


def sees_connections_by_netlink():
    """Asks sock_diag for listening sockets, as ss does."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as link:
        link.settimeout(5)
        ask = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 1 << 10) + bytes(48)
        link.send(struct.pack("=IHHII", 16 + len(ask), 20, 0x301, 1, 0) + ask)
        found = b""
        while True:
            part = link.recv(65536)
            found += part
            if struct.unpack_from("=H", part, 4)[0] == 3 or len(part) < 72:
                break
        return struct.pack("!H", told["listeners"]["tcp"][1]) in found


def join_network_of(pid):
    def look():
        space = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        return libc.setns(space, 0) == 0 and reaches(socket.AF_INET, told["listeners"]["tcp"])

    return in_a_child(look)


def make_user_namespace():
    return in_a_child(lambda: libc.unshare(CLONE_NEWUSER) == 0)


def open_socket_of_kind(kind):
    socket.socket(kind, socket.SOCK_STREAM).close()
    return True


attempts = {
    "read admin.key": lambda: holds_admin_key(DATA + "/admin.key"),
    "read run.secret": lambda: len(open(DATA + "/run.secret").read()) > 0,
    "read the store": lambda: len(open(DATA + "/interlock.db", "rb").read(16)) > 0,
    "list the data": lambda: "admin.key" in os.listdir(DATA),
    "read another run's log": lambda: "other" in open(told["other_log"]).read(),
    "read by a link": read_by_link,
    "read by a second mount": lambda: holds_admin_key(told["second_mount"] + "/admin.key"),
    "read by a root in /proc": lambda: any_of(glob.glob("/proc/[0-9]*/root") + [f"/proc/{SERVER}/root"],
                                              lambda root: holds_admin_key(root + DATA + "/admin.key")),
    "read by a cwd in /proc": lambda: any_of([f"/proc/{OTHER}/cwd"] + glob.glob("/proc/[0-9]*/cwd"),
                                             lambda cwd: holds_admin_key(cwd + "/" + os.path.relpath(DATA, told["other_cwd"]) +
                                                                         "/admin.key")),
    "read by a descriptor in /proc": lambda: any_of(glob.glob("/proc/[0-9]*/fd/*"),
                                                    lambda fd: os.readlink(fd).startswith(DATA + "/interlock.db")),
    "connect to supervisor.sock": lambda: connects(DATA + "/supervisor.sock"),
    "connect to supervisor.sock by a descriptor": lambda: connect_by_descriptor("supervisor.sock"),
    "connect to api.sock": lambda: connects(DATA + "/api.sock"),
    "connect to api.sock by a descriptor": lambda: connect_by_descriptor("api.sock"),
    "signal the server": lambda: os.kill(SERVER, 0) is None,
    "signal the shim": lambda: os.kill(SHIM, 0) is None,
    "signal another run": lambda: os.kill(OTHER, 0) is None,
    "limit the server": lambda: bool(resource.prlimit(SERVER, resource.RLIMIT_NOFILE)),
    "trace another run": lambda: trace(OTHER),
    "read another run's environment": lambda: any_of(glob.glob("/proc/[0-9]*/environ"),
                                                     lambda path: b"SECRET_TOKEN=tok123" in open(path, "rb").read()),
    "read another run's command line": lambda: any_of(glob.glob("/proc/[0-9]*/cmdline"),
                                                      lambda path: b"sleep\x009876" in open(path, "rb").read()),
}
as_root = {
    "trace the server": lambda: trace(SERVER),
    "uncover the data": lambda: uncover(CLONE_NEWNS),
    "join the server's namespaces": lambda: join_namespaces_of(SERVER),
    "leave by chroot": leave_by_chroot,
    "open by handle": open_by_handle,
    "make a disk": make_a_disk,
    "read a disk": lambda: any_of([f"/dev/{name}" for name, _ in disks()], lambda path: len(open(path, "rb").read(512)) == 512),
    "set the kernel's core pattern": lambda: can_open_to_write("/proc/sys/kernel/core_pattern"),
    "set the core pattern by a new /proc": set_core_pattern_by_a_new_proc,
    "move processes between control groups": lambda: any_of(glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True),
                                                            can_open_to_write),
}
of_files = {
    "read a file of the home": lambda: open(told["of_home"]).read() == "of home",
    "write outside": write_outside,
    "change a mode": lambda: os.chmod(OUTSIDE + "/file", 0o644) is None,
    "change times": change_times,
    "change an owner": lambda: os.chown(OUTSIDE + "/file", os.geteuid(), os.getegid()) is None,
    "set an attribute": set_attribute,
    "read the shared memory of others": lambda: os.path.exists("/dev/shm/" + told["shared"]),
    "connect to an abstract socket": connect_abstract,
}
listeners = told["listeners"]
families = {"tcp": socket.AF_INET, "tcp of another address": socket.AF_INET, "tcp over IPv6": socket.AF_INET6,
            "unix": socket.AF_UNIX, "abstract": socket.AF_UNIX}
of_network = {f"reach {name}": lambda name=name: reaches(families[name], listeners[name]) for name in families if name in listeners}
of_network |= {
    "be passed the key": lambda: is_passed_the_key(listeners["unix"]),
    "be passed the key by an abstract socket": lambda: is_passed_the_key(listeners["abstract"]),
    "send a datagram": send_datagram,
    "see interfaces": lambda: bool([name for _, name in socket.if_nameindex() if name != "lo"]),
    "see connections": lambda: f":{listeners['tcp'][1]:04X} 00000000:0000 0A" in open("/proc/net/tcp").read(),
    "see connections by netlink": sees_connections_by_netlink,
    "make a user namespace": make_user_namespace,
    "talk to the host of a virtual machine": lambda: open_socket_of_kind(socket.AF_VSOCK),
    "use io_uring": lambda: libc.syscall(425, 1, ctypes.create_string_buffer(120)) >= 0,
    "use keys of the kernel": lambda: libc.syscall(250 if platform.machine() == "x86_64" else 219, 0, -3, 1) > 0,
}
if os.geteuid() == 0:
    of_network |= {"send raw packets": send_raw, "join the server's network": lambda: join_network_of(SERVER)}
    attempts.update(as_root)
else:  # At off there is nothing to uncover, and no right to try.
    attempts["uncover the data in a new user namespace"] = lambda: uncover(CLONE_NEWNS | CLONE_NEWUSER)


def successes(named):
    reached = {}
    for name, attempt in named.items():
        try:
            reached[name] = bool(attempt())
        except (OSError, IndexError):
            reached[name] = False
    return reached


print(json.dumps({"server": successes(attempts), "files": successes(of_files), "network": successes(of_network)}))
