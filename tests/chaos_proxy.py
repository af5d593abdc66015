"""A TCP proxy that makes the trouble a network makes, from a seed.

What happens to a request is drawn from `fates` by weight:

    passed            nothing
    cut_before        the connection is cut before the server has seen the request
    cut_unseen        the server gets the request; the connection is cut without waiting for its answer
    cut_after         the server has answered; the client does not get to see it
    cut_in_the_middle the client gets a part of the answer
    delayed           the request arrives later
    duplicated        the same bytes arrive twice, on two connections at once

It knows just enough of HTTP to see where a message ends: a head, then Content-Length bytes.
"""

import collections
import contextlib
import random
import re
import socket
import threading
import time

WAIT_SECONDS = 20
FATES = {"passed": 6, "cut_before": 1, "cut_unseen": 1, "cut_after": 1, "cut_in_the_middle": 1, "delayed": 1,
         "duplicated": 2}
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.I)


class Cut(Exception):
    """The connection ends here."""


class ChaosProxy:
    def __init__(self, upstream, seed=1, fates=None):
        self.upstream, self.fates = upstream, fates or FATES
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
