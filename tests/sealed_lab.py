"""A network for sealed runs: a namespace with loopback and one public address, names that a test decides on, and servers.

    with Lab(directory) as lab:
        lab.run([binary, "up", ...])

As a program it is what serves in there. Everything that came to a server is a line of `directory`/hits.
"""

import fcntl
import functools
import http.server
import json
import os
import pathlib
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading

PUBLIC = "93.184.216.34"
DNS = "127.66.0.1"
ECHO, HTTP, HTTPS = 7000, 8080, 8443
RUN_SECONDS = 120
NAMES = {
    "public.test": [PUBLIC], "registry.test": [PUBLIC], "a.below.test": [PUBLIC],
    "api.openai.com": [PUBLIC], "eu.api.anthropic.com": [PUBLIC], "upstream.test": [PUBLIC],
    "loop.test": ["127.0.0.1"], "ten.test": ["10.0.0.1"], "cloud.test": ["169.254.169.254"], "many.test": ["224.0.0.1"],
    "zero.test": ["0.0.0.0"], "six.test": ["::1"], "local.test": ["fd00::1"], "link.test": ["fe80::1"],
    "mapped.test": ["::ffff:127.0.0.1"], "nat.test": ["64:ff9b::7f00:1"], "both.test": ["127.0.0.1", PUBLIC],
    "rebind.test": [],  # In turn public and not.
}


class Lab:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.site = self.directory / "site"
        self.site.mkdir(exist_ok=True)
        self.make_certificate()
        (self.directory / "resolv.conf").write_text(f"nameserver {DNS}\noptions timeout:1 attempts:1\n")
        (self.directory / "hosts").write_text("127.0.0.1 localhost\n")
        self.keeper = subprocess.Popen(["unshare", "-n", "-m", sys.executable, "-I", __file__, self.directory], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.keeper.stdout.readline() == "up\n"
        self.prefix = ["nsenter", "-t", str(self.keeper.pid), "-n", "-m", f"--wdns={os.getcwd()}", "--"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.keeper.communicate(timeout=RUN_SECONDS)

    def make_certificate(self):
        self.authority, key = self.directory / "ca.pem", self.directory / "key.pem"
        names = ",".join(f"DNS:{name}" for name in NAMES)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                        "-subj", "/CN=lab", "-addext", f"subjectAltName={names}", "-keyout", key, "-out", self.authority],
                       check=True, capture_output=True)

    def run(self, command, **options):
        options = {"timeout": RUN_SECONDS, "text": True, "capture_output": True, "stdin": subprocess.DEVNULL, **options}
        return subprocess.run([*self.prefix, *map(str, command)], **options)

    def hits(self):
        hits = self.directory / "hits"
        return hits.read_text().splitlines() if hits.exists() else []


def set_address(name, address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        if address:
            fcntl.ioctl(link, 0x8916, struct.pack("16sH2s4s8x", name, socket.AF_INET, b"", socket.inet_aton(address)))
        fcntl.ioctl(link, 0x8914, struct.pack("16sh14x", name, 1))


def answer_to(question, turn):
    """A DNS message for one question."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode().lower())
        at += 1 + question[at]
    name, kind = ".".join(labels), struct.unpack_from("!H", question, at + 1)[0]
    addresses = NAMES.get(name)
    if name == "rebind.test" and kind == 1:
        addresses = [PUBLIC if next(turn) else "127.0.0.1"]
    records = b""
    count = 0
    for address in addresses or []:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        if kind == (28 if family == socket.AF_INET6 else 1):
            packed = socket.inet_pton(family, address)
            records += struct.pack("!HHHIH", 0xC00C, kind, 1, 0, len(packed)) + packed
            count += 1
    flags = 0x8180 if addresses is not None else 0x8183
    return question[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0) + question[12:at + 5] + records


def serve_names():
    turns = iter(range(1 << 30))
    turn = (number % 2 == 0 for number in turns)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.bind((DNS, 53))
        while True:
            question, client = link.recvfrom(4096)
            link.sendto(answer_to(question, turn), client)


def main(directory):
    set_address(b"lo", None)
    set_address(b"lo:1", PUBLIC)
    for name in ("resolv.conf", "hosts"):
        place = os.path.realpath(f"/etc/{name}")
        subprocess.run(["mount", "--bind", f"{directory}/{name}", place], check=True)
    hits = open(f"{directory}/hits", "a", buffering=1)

    class Echo(socketserver.BaseRequestHandler):
        def handle(self):
            hits.write(f"echo {self.server.server_address[0]}\n")
            while part := self.request.recv(65536):
                self.request.sendall(part)

    class Site(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *words, **options):
            super().__init__(*words, directory=f"{directory}/site", **options)

        def log_message(self, *_):
            hits.write(f"{'https' if isinstance(self.connection, ssl.SSLSocket) else 'http'} {self.server.server_address[0]} "
                       f"{self.command} {self.path} host={self.headers.get('host')} via={self.headers.get('x-mine')}\n")

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            self.log_message()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    class Threads(socketserver.ThreadingTCPServer):
        allow_reuse_address, daemon_threads, request_queue_size = True, True, 128

    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(f"{directory}/ca.pem", f"{directory}/key.pem")
    servers = [Threads((address, ECHO), Echo) for address in (PUBLIC, "127.0.0.1")]
    servers += [Threads((PUBLIC, HTTP), Site), Threads((PUBLIC, 80), Site), Threads((PUBLIC, HTTPS), Site), Threads((PUBLIC, 443), Site)]
    for server in servers[4:]:
        server.socket = secure.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    for target in (serve_names, *(functools.partial(server.serve_forever, 0.1) for server in servers)):
        threading.Thread(target=target, daemon=True).start()
    print("up", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
