"""The dashboard in a real browser: each screen, live updates, the keyboard, light, dark and small, and hostile text."""

import contextlib
import signal
import threading
import time

import pytest

from interlock_server import eventually, fresh

SCREENS = {"now": "Now", "runs": "Runs", "budgets": "Budgets", "sessions": "Sessions", "agents": "Agents & schedules",
           "gateway": "Gateway", "system": "System"}
CHANGES = {"Pause agent", "Resume agent", "Trigger schedule", "Pause schedule", "Set price", "Revoke key", "Create API key",
           "Change limit", "Cancel runs …", "Retry runs …", "Cancel run", "Retry run", "Pause run", "Remove worktrees"}
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


@pytest.fixture
def page(browser, shop):
    with browser.open(shop.address, bypassCSP=False) as page:
        page.log_in(shop.link())
        yield page


def test_a_link_logs_in_once(browser, shop):
    link = shop.link()
    with browser.open(shop.address) as page:
        page.log_in(link)
        page.sees("Needs attention")
    with browser.open(shop.address) as page:
        page.do("await page.goto(args.link)", link=link)
        page.sees("Create another with: interlock login")


def test_a_key_logs_in_and_a_wrong_one_does_not(browser, shop):
    with browser.open(shop.address) as page:
        page.do("await page.goto(args.to)", to=shop.address)
        page.sees("interlock login")
        fill = "await page.getByLabel('API key').fill(args.key); await page.getByRole('button', {name: 'Log in'}).click()"
        page.do(fill, key="ilk_000000000000_0000000000000000000000000000000000000000000000000000000000000000")
        page.do("await page.getByRole('alert').waitFor()")
        page.do(fill, key=shop.admin.key)
        page.sees("live")
        page.do("await page.getByRole('button', {name: 'Log out'}).click()")
        page.sees("interlock login")


def test_a_key_that_may_only_read_gives_a_page_that_only_shows(browser, shop):
    key = shop.admin.post("/v1/keys", {"scopes": ["read"]}).ok()["key"]
    with browser.open(shop.address) as page:
        page.do("await page.goto(args.to)", to=shop.address)
        page.do("await page.getByLabel('API key').fill(args.key); await page.keyboard.press('Enter')", key=key)
        page.sees("read only")
        page.go(f"runs/{shop.run}")
        page.sees("reviewer")
        pressable = "return (await page.getByRole('button', {name: args.name, exact: true}).all()).length && " \
                    "await page.getByRole('button', {name: args.name, exact: true}).first().isEnabled()"
        assert page.do(pressable, name="Cancel run") is False
        # Nothing that changes anything can be pressed, on any screen.
        for screen in SCREENS:
            page.go(screen)
            page.do("await page.getByRole('heading', {level: 1}).waitFor()")
            assert page.do("return page.locator('[role=alert]').count()") == 0, page.reads()
            enabled = page.do("return page.evaluate(() => [...document.querySelectorAll('main button:enabled')]"
                              ".map((each) => each.textContent))")
            assert not set(enabled) & CHANGES, enabled


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1360, 390])
def test_every_screen_can_be_read_by_everybody(browser, shop, scheme, width):
    """What axe finds, what does not fit, and pictures for people to look at."""
    options = {"colorScheme": scheme, "viewport": {"width": width, "height": 900}, "bypassCSP": True}
    where = [*SCREENS, f"runs/{shop.run}", f"sessions/{shop.session}", "budgets/all-day"]
    with browser.open(shop.address, **options) as page:
        page.log_in(shop.link())
        for screen in where:
            page.go(screen)
            page.do("await page.getByRole('heading', {level: 1}).waitFor(); await wait(600)")
            page.picture(f"{screen.split('/')[0]}{'-one' if '/' in screen else ''}-{scheme}-{width}")
            assert page.faults() == [], screen
            wide = page.do("return page.evaluate('document.documentElement.scrollWidth - innerWidth')")
            assert wide <= 0, f"{screen} is {wide} px too wide"


def test_axe_would_find_something(browser, shop):
    """A negative control: text that is hardly there, and a button without a name."""
    with browser.open(shop.address, bypassCSP=True) as page:
        page.log_in(shop.link())
        page.do("""await page.evaluate(() => {
            const text = document.querySelector('main').appendChild(document.createElement('p'));
            text.textContent = 'hardly there';
            text.setAttribute('style', 'color: #eee; background: #fff');
            document.querySelector('main').appendChild(document.createElement('button'));
        })""")
        assert {each[0] for each in page.faults()} >= {"color-contrast", "button-name"}


def test_the_keyboard_goes_everywhere(page):
    page.press("Tab")
    assert page.do("return page.evaluate('document.activeElement.textContent')") == "Skip to the content"
    for key, title in zip("rbsawyn", ("Runs", "Budgets", "Sessions", "Agents & schedules", "Gateway", "System", "Now")):
        page.press("g", key)
        page.do("await page.getByRole('heading', {level: 1, name: args.title, exact: true}).waitFor()", title=title)
    page.press("g", "r", "?")
    page.sees("Keyboard shortcuts")
    page.press("Escape")
    page.do("await page.getByRole('dialog').waitFor({state: 'detached'})")


def test_what_happens_is_seen_within_a_second(page, shop):
    agent, waits = fresh("quick"), []
    shop.admin.put(f"/v1/agents/{agent}", {"max_concurrent_runs": 5}).ok()
    page.go("now")
    page.sees("Live and queued runs")
    # A busy machine may delay one of them. A page that polls would delay all.
    while not waits or min(waits) >= 1.0:
        assert len(waits) < 5, waits
        start = time.monotonic()
        run = shop.start(agent)
        page.do("await page.locator(`main a[href*='${args.run}']`).first().waitFor()", run=run)
        waits.append(time.monotonic() - start)


def test_it_comes_back_by_itself_after_the_server_was_away(browser, shop):
    agent = fresh("patient")
    with browser.open(shop.address) as page:
        page.log_in(shop.link())
        page.go("now")
        page.sees("Live and queued runs")
        shop.server.kill9()
        page.sees("reconnecting", seconds=10)
        shop.server.start()
        shop.admin = shop.server.admin
        shop.admin.put(f"/v1/agents/{agent}", {}).ok()
        shop.start(agent)
        page.sees(agent, seconds=20)
        page.do("await page.getByRole('status').filter({hasText: /^live$/}).waitFor()")


def test_a_connection_that_went_silent_is_noticed(browser, shop):
    """As after a machine's sleep: nobody says that the connection is dead. What happened meanwhile is there soon after."""
    agent = fresh("sleeper")
    shop.admin.put(f"/v1/agents/{agent}", {"max_concurrent_runs": 5}).ok()
    with browser.open(shop.address) as page:
        page.log_in(shop.link())
        page.go("now")
        page.sees("Live and queued runs")
        shop.server.signal(signal.SIGSTOP)
        page.sees("reconnecting", seconds=60)
        shop.server.signal(signal.SIGCONT)
        runs = [shop.start(agent) for _ in range(3)]
        for run in runs:
            page.do("await page.locator(`main a[href*='${args.run}']`).first().waitFor({timeout: 20_000})", run=run)


def test_hostile_text_is_only_text(page, shop):
    """Markup, colours of a terminal and a line of a megabyte, wherever an agent can put something."""
    agent = fresh("guest")
    shop.admin.put(f"/v1/agents/{agent}", {"tags": {"note": HOSTILE}}).ok()
    session = shop.admin.post("/v1/sessions", {"agent": agent, "title": HOSTILE}).ok()["id"]
    shop.say(f"\x1b[31m{HOSTILE}\x1b[0m\x1b]0;taken\x07", session, "assistant")
    shop.say("x" * 1_000_000, session, "tool")
    script = f"printf '%s\\n' \"$GUEST\"; printf '\\033[31mred\\033[0m\\n'; head -c 1000000 /dev/zero | tr '\\0' y; echo"
    shop.admin.put(f"/v1/agents/{agent}-sh", {"command": ["sh", "-c", script], "env": {"GUEST": HOSTILE}}).ok()
    run = shop.admin.post("/v1/runs", {"agent": f"{agent}-sh", "launch": True}).ok()["id"]
    eventually(lambda: shop.admin.get(f"/v1/runs/{run}").ok()["status"] == "succeeded")
    for where in (f"sessions/{session}", f"runs/{run}", "sessions", "agents", "runs"):
        page.go(where)
        page.do("await page.getByRole('heading', {level: 1}).waitFor(); await wait(500)")
        assert page.do("return page.evaluate(() => document.querySelectorAll('main script, main img').length)") == 0
        assert page.do("return page.title()") != "taken"
        took = page.do("const start = Date.now(); await page.evaluate(() => new Promise(requestAnimationFrame)); "
                       "return Date.now() - start")
        assert took < 1_000, (where, took)
    page.go(f"runs/{run}")
    page.sees(HOSTILE)
    page.sees("red")
    assert "\x1b" not in page.reads()


def test_a_page_of_a_proxy_with_a_prefix(browser, shop, binary):
    """Everything the page asks for is beside it, whatever path a proxy puts before."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    import http.client

    class Proxy(BaseHTTPRequestHandler):
        asked = []

        def forward(self):
            Proxy.asked.append(self.path)
            if not self.path.startswith("/tools/interlock/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            upstream = http.client.HTTPConnection(*shop.server.address, timeout=60)
            upstream.request(self.command, self.path.removeprefix("/tools/interlock"), body or None,
                             {name: value for name, value in self.headers.items() if name.lower() != "connection"})
            answer = upstream.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            self.send_header("connection", "close")
            self.end_headers()
            with contextlib.suppress(OSError):
                while piece := answer.read1(65536):
                    self.wfile.write(piece)
                    self.wfile.flush()

        do_GET = do_POST = do_PUT = do_DELETE = forward

        def log_message(self, *_):
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{proxy.server_port}/tools/interlock"
        code = shop.link().split("/login")[1]
        with browser.open(address) as page:
            page.log_in(f"{address}/login{code}")
            for screen in SCREENS:
                page.go(screen)
                page.do("await page.getByRole('heading', {level: 1}).waitFor()")
        assert [path for path in Proxy.asked if not path.startswith("/tools/interlock/")] in ([], ["/favicon.ico"])
    finally:
        proxy.shutdown()
        proxy.server_close()


# Numbers. They are bounds that a page must keep on any machine; bench/page.py measures what they are.


def test_half_an_hour_of_events_leaves_no_more_in_memory(page, shop):
    """1,800 events, as many as half an hour brings at one a second, once to get warm and then again."""
    page.go("now")
    page.sees("Live and queued runs")
    held = "return page.evaluate(() => { gc(); gc(); return performance.memory.usedJSHeapSize })"

    def half_an_hour():
        charges = [{"agent": "reviewer", "cost": "0.000001"} for _ in range(100)]
        for _ in range(18):
            shop.admin.post("/v1/charges", charges).ok()
            time.sleep(0.15)
        page.do("await wait(1500)")
        return page.do(held)

    half_an_hour()
    first = half_an_hour()
    second = half_an_hour()
    assert second - first < 500_000, (first, second)


def test_a_page_that_was_hidden_is_whole_again(page, shop):
    page.go(f"runs/{shop.run}")
    page.sees("reviewer")
    for hidden in ("true", "false", "true", "false"):
        page.do("""await page.evaluate((hidden) => {
            Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
            document.dispatchEvent(new Event('visibilitychange'));
        }, args.hidden === 'true'); await wait(100)""", hidden=hidden)
    page.sees("reviewer")


def test_an_address_that_is_nonsense_leads_to_words(page):
    for where in ("%", "runs/%", "nothing/here"):
        page.go(where)
        page.do("await page.locator('main').filter({hasText: /./}).waitFor()")


def test_the_first_look_takes_little(browser, shop):
    seen = first_look(browser, shop)
    assert seen["bytes"] <= 100_000, seen
    # Ten times the goal, in one of three tries: this may be a busy machine. bench/page.py has the number.
    paints = [seen["paint"]]
    while min(paints) > 3_000:
        assert len(paints) < 3, paints
        paints.append(first_look(browser, shop)["paint"])


def first_look(browser, shop):
    with browser.open(shop.address) as page:
        page.log_in(shop.link())
        return page.do("""
            await page.context().clearCookies({name: 'none'});
            const session = await page.context().newCDPSession(page);
            await session.send('Network.enable');
            await session.send('Network.setCacheDisabled', {cacheDisabled: true});
            let bytes = 0;
            session.on('Network.loadingFinished', (event) => { bytes += event.encodedDataLength; });
            await page.reload();
            await page.getByText('Live and queued runs').waitFor();
            await wait(1000);
            const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
            return {bytes, paint};
        """)
