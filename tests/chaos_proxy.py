"""TCP proxies that make the trouble a network makes, from a seed.

ChaosProxy stands before a server. What happens to a request is drawn from `fates` by weight:

    passed            nothing
    cut_before        the connection is cut before the server has seen the request
    cut_unseen        the server gets the request; the connection is cut without waiting for its answer
    cut_after         the server has answered; the client does not get to see it
    cut_in_the_middle the client gets a part of the answer
    delayed           the request arrives later
    duplicated        the same bytes arrive twice, on two connections at once

It knows just enough of HTTP to see where a message ends: a head, then Content-Length bytes.

CommitProxy stands before PostgreSQL and does such things to commits:

    passed            nothing
    cut_before        everything of the transaction arrives but its COMMIT
    cut_unseen        the COMMIT arrives; the connection is cut without waiting for its answer
    cut_after         it is committed; the answer does not get through
    held_before       everything of the transaction arrives, and its COMMIT only when release() lets it

It reads the messages of PostgreSQL's protocol to see which of them is a COMMIT, also where that is a prepared one.
"""

import collections
import contextlib
import random
import re
import socket
import struct
import threading
import time

WAIT_SECONDS = 20
FATES = {"passed": 6, "cut_before": 1, "cut_unseen": 1, "cut_after": 1, "cut_in_the_middle": 1, "delayed": 1,
         "duplicated": 2}
COMMIT_FATES = {"passed": 30, "cut_before": 1, "cut_unseen": 1, "cut_after": 1}
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.I)


class Cut(Exception):
    """The connection ends here."""


class Proxy:
    """Takes connections and makes one to `upstream` for each. What goes between them is for serve() to say."""

    def __init__(self, upstream, seed, fates):
        self.upstream, self.fates = upstream, fates
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.happened = collections.Counter()
        self.sockets, self.threads, self.closed = set(), [], False
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address = self.listener.getsockname()
        self.spawn(self.accept)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            left = list(self.sockets)
        for each in left:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + WAIT_SECONDS
        for thread in self.threads:
            thread.join(max(0, deadline - time.monotonic()))

    def spawn(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def accept(self):
        while not self.closed:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.spawn(self.serve, client)

    def draw(self):
        with self.lock:
            fate, = self.random.choices(list(self.fates), self.fates.values())
            self.happened[fate] += 1
            return fate, self.random.random()

    def connect(self):
        server = socket.create_connection(self.upstream, WAIT_SECONDS)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.kept(server)

    @contextlib.contextmanager
    def kept(self, each):
        with self.lock:
            self.sockets.add(each)
        try:
            each.settimeout(WAIT_SECONDS)
            yield each
        finally:
            with self.lock:
                self.sockets.discard(each)
            each.close()


class ChaosProxy(Proxy):
    def __init__(self, upstream, seed=1, fates=None):
        super().__init__(upstream, seed, fates or FATES)

    def serve(self, client):
        with contextlib.suppress(OSError, Cut), self.kept(client), self.connect() as server:
            rest_of_client, rest_of_server = bytearray(), bytearray()
            while request := self.message(client, rest_of_client):
                self.carry(client, server, bytes(request), rest_of_server)

    def carry(self, client, server, request, rest):
        fate, share = self.draw()
        if fate == "cut_before":
            raise Cut
        if fate == "delayed":
            time.sleep(share * 0.05)
        twin = self.spawn(self.send_alone, request) if fate == "duplicated" else None
        server.sendall(request)
        if fate == "cut_unseen":
            raise Cut
        answer = bytes(self.message(server, rest))
        if twin:
            twin.join(WAIT_SECONDS)
        if not answer or fate == "cut_after":
            raise Cut
        if fate == "cut_in_the_middle":
            client.sendall(answer[:max(1, int(share * len(answer)))])
            raise Cut
        client.sendall(answer)

    def send_alone(self, request):
        with contextlib.suppress(OSError, Cut), self.connect() as server:
            server.sendall(request)
            self.message(server, bytearray())

    @staticmethod
    def message(source, rest):
        """The next whole message. What came after it stays in `rest`. Empty at the end of the connection."""
        def more():
            data = source.recv(65536)
            rest.extend(data)
            return bool(data)

        while (end := rest.find(b"\r\n\r\n")) < 0:
            if not more():
                return b""
        length = LENGTH.search(rest[:end + 2])
        size = end + 4 + (int(length[1]) if length else 0)
        while len(rest) < size:
            if not more():
                return b""
        whole = rest[:size]
        del rest[:size]
        return whole


class CommitProxy(Proxy):
    NO_ENCRYPTION = (80877103, 80877104)  # A client asks for TLS or GSSAPI before it says who it is.

    def __init__(self, upstream, seed=1, fates=None):
        super().__init__(upstream, seed, fates or COMMIT_FATES)
        self.released = threading.Event()
        self.isolated, self.links = False, set()

    def isolate(self):
        """From now on the client's side hears nothing at all, and PostgreSQL's side that it has hung up."""
        self.isolated = True
        with self.lock:
            links = list(self.links)
        for link in links:
            with contextlib.suppress(OSError):
                link.server.shutdown(socket.SHUT_RDWR)

    def restore(self):
        self.isolated = False
        self.cut_all()

    def release(self):
        """Lets go of what is held, and holds nothing more."""
        self.fates = {"passed": 1}
        self.released.set()

    def __exit__(self, *failure):
        self.release()
        super().__exit__(*failure)

    def serve(self, client):
        with contextlib.suppress(OSError, Cut), self.kept(client):
            client.settimeout(None)  # A connection of a pool may have nothing to say for long.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self.isolated and client.recv(65536):
                pass
            with self.connect() as server:
                server.settimeout(None)
                self.link(client, server)

    def link(self, client, server):
        link = Link(self, client, server)
        with self.lock:
            self.links.add(link)
        back = self.spawn(link.carry_back)
        try:
            link.carry()
        finally:
            link.cut()
            back.join(WAIT_SECONDS)
            with self.lock:
                self.links.discard(link)

    def cut_all(self):
        """Every connection, at once."""
        with self.lock:
            left = list(self.sockets)
        for each in left:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Link:
    """One connection of a node to PostgreSQL."""

    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server = proxy, client, server
        self.commits = set()  # The names of prepared statements that are a COMMIT.
        self.lock = threading.Lock()
        self.fates = collections.deque()  # Of the commits that are under way, in their order.

    def cut(self):
        for each in (self.client, self.server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def carry(self):
        """From the node to PostgreSQL."""
        while True:
            size, code = struct.unpack("!II", exactly(self.client, 8))
            if code not in CommitProxy.NO_ENCRYPTION:
                break
            self.client.sendall(b"N")
        self.server.sendall(struct.pack("!II", size, code) + exactly(self.client, size - 8))
        rest = bytearray()
        while data := self.client.recv(65536):
            if self.proxy.isolated:
                continue
            rest += data
            passed, fate = bytearray(), None
            while fate != "cut_before" and (message := next_message(rest)):
                if self.is_commit(message):
                    fate, _ = self.proxy.draw()
                    with self.lock:
                        self.fates.append(fate)
                if fate == "held_before":
                    # With Flush, or PostgreSQL would wait for more before it does anything.
                    self.server.sendall(passed + b"H\0\0\0\4")
                    passed.clear()
                    self.proxy.released.wait()
                    fate = "passed"
                if fate != "cut_before":
                    passed += message
            self.server.sendall(passed)
            if fate in ("cut_before", "cut_unseen"):
                raise Cut

    def carry_back(self):
        """From PostgreSQL to the node."""
        rest = bytearray()
        with contextlib.suppress(OSError):
            while data := self.server.recv(65536):
                rest += data
                passed = bytearray()
                while message := next_message(rest):
                    if message[:1] == b"C" and message[5:] == b"COMMIT\0":
                        with self.lock:
                            fate = self.fates.popleft() if self.fates else "passed"
                        if fate == "cut_after":
                            return self.cut()
                    passed += message
                self.client.sendall(passed)
        if not self.proxy.isolated:
            self.cut()

    def is_commit(self, message):
        kind, words = message[:1], bytes(message[5:]).split(b"\0")
        if kind == b"P" and words[1].strip().lower() == b"commit":
            self.commits.add(words[0])
        if kind == b"B":  # The name of a portal, then that of the statement.
            return words[1] in self.commits
        return kind == b"Q" and words[0].strip().lower() == b"commit"


def exactly(source, size):
    data = bytearray()
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            raise Cut
        data += part
    return bytes(data)


def next_message(rest):
    """Takes the next whole message off: a letter, a length that counts itself, and so many bytes."""
    if len(rest) < 5 or len(rest) < 1 + (size := struct.unpack_from("!I", rest, 1)[0]):
        return b""
    message = bytes(rest[:1 + size])
    del rest[:1 + size]
    return message
