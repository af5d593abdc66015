"""A real browser, headless, for tests of the page.

    with Browser() as browser, browser.open(server, colorScheme="dark") as page:
        page.go("runs")
        page.do("await page.getByRole('heading', {name: 'Runs'}).waitFor()")

Debian's Chromium, driven by playwright-core from npm (tests/browser). What a test wants done is written in Playwright's
own words. A page that complains on its console fails its test.
"""

import contextlib
import json
import pathlib
import shutil
import subprocess

from npm_packages import installed

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ROOT / "build/page_pictures"
# What a browser says of every answer that is not 2xx, whatever the page makes of it.
EXPECTED_COMPLAINTS = ("Failed to load resource",)


class Browser:
    def __enter__(self):
        program = shutil.which("chromium")
        assert program, "the page is tested with Debian's Chromium, which is not there: see ./dev test"
        directory = installed(ROOT / "tests/browser", ROOT / "build/browser")
        self.directory = directory
        self.process = subprocess.Popen(["node", "driver.mjs", program], cwd=directory, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.version = self.answer()
        self.opened = 0
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def ask(self, **words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        assert line, "the browser is gone"
        said = json.loads(line)
        assert "error" not in said, said["error"]
        return said["value"]

    @contextlib.contextmanager
    def open(self, address, complaints=(), **options):
        """A page with a profile of its own. `complaints`: what it may say on its console besides."""
        self.opened += 1
        page = BrowserPage(self, f"page {self.opened}", address)
        options.setdefault("viewport", {"width": 1360, "height": 900})
        self.ask(open=page.name, options=options)
        try:
            yield page
        finally:
            said = self.ask(close=page.name)
        allowed = (*EXPECTED_COMPLAINTS, *complaints)
        said = [each for each in said if not any(word in each for word in allowed)]
        assert not said, said


class BrowserPage:
    def __init__(self, browser, name, address):
        self.browser, self.name, self.address = browser, name, address.rstrip("/")

    def do(self, code, **args):
        """Runs the body of an async function of (page, args, wait), and answers with its value."""
        return self.browser.ask(page=self.name, code=code, args=args)

    def log_in(self, link):
        self.do("await page.goto(args.link)", link=link)
        self.sees("live")

    def go(self, where):
        self.do("await page.goto(args.to)", to=f"{self.address}/#/{where}")

    def sees(self, text, seconds=30):
        """Waits until it is there to be seen."""
        self.do("await page.getByText(args.text, {exact: false}).filter({visible: true}).first()"
                ".waitFor({timeout: args.ms})", text=text, ms=seconds * 1000)

    def reads(self, selector="main"):
        """What a person reads there."""
        return self.do("return page.locator(args.selector).first().innerText()", selector=selector)

    def press(self, *keys):
        self.do("for (const key of args.keys) await page.keyboard.press(key)", keys=keys)

    def picture(self, name):
        """For people to look at: build/page_pictures."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.do("await page.screenshot({path: args.path, fullPage: true})", path=str(PICTURES / f"{name}.png"))

    def faults(self):
        """What axe finds that is serious."""
        source = (self.browser.directory / "node_modules/axe-core/axe.min.js").read_text()
        found = self.do("await page.evaluate(args.source); return (await page.evaluate('axe.run()')).violations",
                        source=source)
        return [(each["id"], each["impact"], each["nodes"][0]["html"][:300]) for each in found
                if each["impact"] in ("serious", "critical")]
