"""A server that gets everything wrong that Interlock is there for. What a check does not find here, it would find nowhere."""

import http.server
import json
import time
from decimal import Decimal

from checks import text_of
from interlock_server import fresh


class NaiveServer(http.server.BaseHTTPRequestHandler):
    """What one would write in an afternoon: read, decide, write back, without doing it in one step."""

    protocol_version = "HTTP/1.1"
    spent, events, messages, holder = Decimal(0), 0, [], None

    def log_message(self, *_):
        pass

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status < 400 else "application/problem+json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        if "/messages" in self.path:
            return self.answer(200, {"items": self.messages, "next": None})
        self.answer(200, {"spent": text_of(type(self).spent), "events": type(self).events})

    def do_POST(self):
        body, world = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), type(self)
        if "/messages" in self.path:
            number = len(world.messages)
            time.sleep(0.001)
            world.messages.append({"seq": number, "content": body["content"]})
            return self.answer(201, {"seq": number})
        if "/runs" in self.path:
            holder, run = world.holder, {"id": fresh("run")}
            time.sleep(0.001)
            world.holder = holder or run
            problem = {"type": "about:blank", "title": "Conflict", "status": 409, "code": "workspace_busy",
                       "detail": "it is taken", "holder": {"run": holder and holder["id"]}}
            return self.answer(409, problem) if holder else self.answer(201, run)
        spent, events = world.spent, world.events
        time.sleep(0.001)
        world.spent, world.events = spent + Decimal(body["cost"]), events + 1
        self.answer(201, {"seq": events})


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128
