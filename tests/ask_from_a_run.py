"""One request, from the process that this is. Stands in a run and knows nothing of the tests.

    ask_from_a_run.py OUT WHERE [KEY] [METHOD] [PATH] [BODY] [WAY]

WHERE is a URL or the path of a Unix socket. KEY may be "login", with a cookie and its secret behind it. What came back
is written to OUT as [status, code]. WAY: "hang up" right after sending, or "hide the connection" where no process has
it open.
"""

import http.client
import json
import os
import socket
import sys
import time
import urllib.parse

out, where, *words = sys.argv[1:]
given = dict(zip(("key", "method", "path", "body", "way"), words, strict=False))
key, method = given.get("key", ""), given.get("method", "GET")
path, body, way = given.get("path", "/v1/keys/self"), given.get("body", ""), given.get("way", "")
headers = {"Content-Type": "application/json"}
if key == "login":
    headers |= {"Cookie": words[1], "X-Interlock-Login": words[2]}
    method, path, body, way = "GET", "/v1/keys/self", "", ""
elif key:
    headers["Authorization"] = f"Bearer {key}"

if where.startswith("http://"):
    url = urllib.parse.urlsplit(where)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
    connection.connect()
else:
    connection = http.client.HTTPConnection("localhost", timeout=20)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(20)
    connection.sock.connect(where)

if way == "hide the connection":
    here, there = socket.socketpair()
connection.request(method, path, body or None, headers)
if way == "hang up":
    os._exit(0)
if way == "hide the connection":
    socket.send_fds(here, [b"x"], [connection.sock.fileno()])
    connection.sock.close()
    time.sleep(1)
    sys.exit(0)
response = connection.getresponse()
text = response.read()
try:
    problem = json.loads(text or "{}")
    code = problem.get("code") or (problem.get("error") or {}).get("message") or problem.get("id")
except ValueError:
    code = text.decode(errors="replace")
with open(out + ".new", "w") as file:
    json.dump([response.status, code], file)
os.rename(out + ".new", out)
