"""What people do on each screen of the page, in a real browser: it is done, and the server says so too."""

import json
import pathlib

import pytest

from interlock_server import eventually, fresh
from supervised import git, repository


@pytest.fixture(scope="module")
def page(browser, shop):
    with browser.open(shop.address) as page:
        page.log_in(shop.link())
        yield page


def press(page, name, within="page"):
    page.do(f"await {within}.getByRole('button', {{name: args.name, exact: true}}).first().click()", name=name)


def status(shop, run):
    return shop.admin.get(f"/v1/runs/{run}").ok()["status"]


def asked_to_stop(shop, run):
    return shop.admin.get(f"/v1/runs/{run}").ok()["stop_requested"] is not None


def begin(shop, agent, runs=1, **more):
    """Client-owned runs of a new agent, at work."""
    shop.admin.put(f"/v1/agents/{agent}", {"max_concurrent_runs": runs, "capture": "full"}).ok()
    begun = [shop.start(agent, lease_s=600, **more) for _ in range(runs)]
    for run in begun:
        fence = shop.admin.get(f"/v1/runs/{run}").ok()["fence"]
        shop.admin.post(f"/v1/runs/{run}/start", {"fence": fence}).ok()
    return begun


def test_now_says_what_runs_what_it_costs_and_what_needs_somebody(page, shop):
    agent = fresh("spender")
    run, = begin(shop, agent)
    budget = fresh("small")
    shop.admin.put(f"/v1/budgets/{budget}", {"limit": "0.05", "window": "day", "scope": {"agent": agent}}).ok()
    page.go("now")
    shop.charge("0.05", agent, run=run)
    page.do("await page.locator(`main tr:has(a[href*='${args.run}'])`).getByText('$0.0500').waitFor()", run=run)
    page.do("await page.getByRole('link', {name: args.budget}).first().waitFor()", budget=budget)
    page.do("await page.getByRole('img', {name: /Spend per minute in the last hour: \\$/}).waitFor()")
    # The table behind the chart says the last minute to the last digit.
    page.do("await page.getByText('as a table').first().click()")
    minutes = shop.admin.get("/v1/spend/minutes", minutes=60).ok()["items"]
    page.do("await page.getByRole('cell', {name: '$' + args.cost, exact: true}).first().waitFor()", cost=minutes[-1]["cost"])


def test_runs_are_filtered_looked_into_and_stopped_together(page, shop):
    agent = fresh("crowd")
    runs = begin(shop, agent, runs=4)
    page.go(f"runs?agent={agent}")
    page.do("await page.getByText('4 runs', {exact: true}).waitFor()")
    assert f"--agent {agent}" in page.reads("header.screen")
    # The keyboard: down, into, out of it again.
    page.press("j", "j", "Enter")
    page.do("await page.getByRole('complementary', {name: /^Run run_/}).waitFor()")
    assert "peek=run_" in page.do("return page.url()")
    page.press("Enter")
    page.do("await page.getByRole('heading', {level: 1}).filter({hasText: 'run_'}).waitFor()")
    page.do("await page.goBack()")
    page.do("await page.getByRole('complementary', {name: /^Run run_/}).waitFor()")
    page.press("Escape")
    page.do("await page.getByRole('complementary', {name: /^Run run_/}).waitFor({state: 'detached'})")
    # All of them at once, after a question.
    press(page, "mark all shown")
    press(page, "Stop …")
    press(page, "Stop 4 runs", "page.getByRole('dialog')")
    eventually(lambda: all(asked_to_stop(shop, run) for run in runs))
    page.sees("4 of 4 runs")
    press(page, "Close", "page.getByRole('dialog')")
    # Whoever carries them out ends them, and the page shows it.
    for run in runs:
        shop.finish(run)
    page.do("await page.locator('main tr .state').filter({hasText: 'succeeded'}).nth(3).waitFor()")


def test_a_hundred_thousand_rows_would_be_few_elements(page, shop):
    """The list draws what is seen, however much there is."""
    agent = fresh("many")
    shop.admin.put(f"/v1/agents/{agent}", {}).ok()
    first = None
    for _ in range(150):
        run = shop.start(agent)
        first = first or run
        shop.finish(run)
    page.go(f"runs?agent={agent}")
    page.do("await page.getByText('150 runs', {exact: true}).waitFor()")
    rows = "return page.evaluate(() => document.querySelectorAll('main tr').length)"
    assert 5 < page.do(rows) < 80
    assert int(page.do("return page.locator('[aria-rowcount]').getAttribute('aria-rowcount')")) >= 150
    page.do("await page.evaluate(() => { const box = document.querySelector('.virtual'); box.scrollTop = box.scrollHeight; })")
    page.do("await page.locator(`main a[href*='${args.run}']`).first().waitFor()", run=first)
    assert page.do(rows) < 80


def test_a_run_is_paused_resumed_and_stopped_and_tells_its_story(page, shop):
    agent = fresh("teller")
    run, = begin(shop, agent, session=shop.session)
    shop.ask("A question of this run", run=run, key=shop.key_of(agent)).ok()
    page.go(f"runs/{run}")
    press(page, "Pause")
    eventually(lambda: status(shop, run) == "paused")
    press(page, "Resume")
    eventually(lambda: status(shop, run) == "running")
    # Its call, held and settled, to the last digit on hover; and what was said.
    call, = shop.admin.items("/v1/calls", run=run)
    page.do("await page.getByTitle('$' + args.cost, {exact: true}).first().waitFor()", cost=call["cost"])
    page.sees("A question of this run")
    page.sees("paused")
    press(page, "Stop")
    press(page, "Stop", "page.getByRole('dialog')")
    eventually(lambda: asked_to_stop(shop, run))
    page.do("await page.getByRole('button', {name: 'Asked to stop'}).waitFor()")
    shop.finish(run)
    page.sees("succeeded")


def test_a_run_that_failed_is_tried_again_with_its_log(page, shop):
    agent = fresh("builder")
    shop.admin.put(f"/v1/agents/{agent}", {"command": ["sh", "-c", "echo a line of the log; exit 3"]}).ok()
    run = shop.admin.post("/v1/runs", {"agent": agent, "launch": True}).ok()["id"]
    eventually(lambda: status(shop, run) == "failed")
    page.go(f"runs/{run}")
    page.sees("a line of the log")
    press(page, "Retry")
    again = eventually(lambda: [each["id"] for each in shop.admin.items("/v1/runs", agent=agent) if each["id"] != run])[0]
    page.do("await page.waitForURL((url) => url.hash.includes(args.run))", run=again)


def test_runs_that_failed_are_tried_again_together(page, shop):
    agent = fresh("stumbler")
    shop.admin.put(f"/v1/agents/{agent}", {"command": ["sh", "-c", "exit 3"], "max_concurrent_runs": 4}).ok()
    runs = {shop.admin.post("/v1/runs", {"agent": agent, "launch": True}).ok()["id"] for _ in range(2)}
    working, = begin(shop, fresh("steady"))
    eventually(lambda: all(status(shop, run) == "failed" for run in runs))
    page.go(f"runs?agent={agent}")
    page.do("await page.getByText('2 runs', {exact: true}).waitFor()")
    press(page, "mark all shown")
    press(page, "Retry …")
    press(page, "Retry 2 runs", "page.getByRole('dialog')")
    page.sees("2 of 2 runs")
    press(page, "Close", "page.getByRole('dialog')")
    again = [each["id"] for each in shop.admin.items("/v1/runs", agent=agent) if each["id"] not in runs]
    assert len(again) == 2 and status(shop, working) == "running"
    eventually(lambda: all(status(shop, run) == "failed" for run in again))


def test_a_limit_is_raised_after_a_look_at_what_it_means(page, shop):
    name = fresh("purse")
    shop.admin.put(f"/v1/budgets/{name}", {"limit": "1.00", "window": "month", "scope": {"agent": "reviewer"}}).ok()
    page.go("budgets")
    page.do("await page.getByRole('link', {name: args.name, exact: true}).click()", name=name)
    press(page, "Raise or lower")
    page.do("await page.getByLabel(/New limit/).fill('nonsense')")
    assert page.do("return page.getByRole('button', {name: 'Change'}).isDisabled()")
    page.do("await page.getByLabel(/New limit/).fill('2.50')")
    press(page, "Raise to $2.50")
    eventually(lambda: shop.admin.get(f"/v1/budgets/{name}").ok()["limit"] == "2.50")
    page.do("await page.getByRole('dialog').waitFor({state: 'detached'})")
    page.sees("$2.50")
    # What is left falls while somebody looks.
    shop.charge("0.25", model="sim/small")
    page.sees("$2.25")


def test_a_budget_says_how_long_it_lasts_and_what_its_windows_came_to(page, shop):
    agent, name = fresh("steady"), fresh("weekly")
    shop.admin.put(f"/v1/agents/{agent}", {}).ok()
    shop.admin.put(f"/v1/budgets/{name}", {"limit": "1000.00", "window": "day", "scope": {"agent": agent}}).ok()
    page.go(f"budgets/{name}")
    page.sees("Nothing is being spent: $0.00 of $1,000.00 so far.")
    shop.charge("0.25", agent)
    line = eventually(lambda: (line := shop.admin.get(f"/v1/budgets/{name}/line").ok())["settled"] == "0.25" and line)
    page.sees("Lasts: " if line["used_up_at"] is None else "Used up ")
    page.sees("at this rate, $")
    window = "page.getByRole('region', {name: 'Windows of ' + args.name}).getByRole('row').filter({hasText: 'this one'})"
    page.do(f"await {window}.getByTitle('$0.25', {{exact: true}}).first().waitFor()", name=name)


def test_a_budget_that_froze_says_why_and_goes_on_when_somebody_says_so(page, shop):
    agent, name = fresh("hasty"), fresh("thin")
    shop.admin.put(f"/v1/agents/{agent}", {}).ok()
    shop.admin.put(f"/v1/budgets/{name}", {"limit": "1.00", "window": "total", "scope": {"agent": agent}}).ok()
    hold = shop.admin.post("/v1/holds", {"agent": agent, "amount": "0.90"}).ok()["id"]
    page.go(f"budgets/{name}")
    # What is set aside is there to be seen, by whom.
    held = "page.getByRole('region', {name: 'Open holds on ' + args.name}).getByRole('row').filter({hasText: args.agent})"
    page.do(f"await {held}.getByTitle('$0.90', {{exact: true}}).first().waitFor()", name=name, agent=agent)
    shop.admin.post(f"/v1/holds/{hold}/settle", {"cost": "1.50"}).ok()
    shop.admin.post("/v1/budgets/all-day/unfreeze").ok()  # It covers everybody, and froze as well.
    page.sees("Frozen: nothing is spent from it until somebody lets it go on.")
    page.sees("Nothing is set aside from it right now.")
    press(page, "Unfreeze")
    press(page, "Unfreeze", "page.getByRole('dialog')")
    eventually(lambda: shop.admin.get(f"/v1/budgets/{name}").ok()["frozen"] is None)
    page.sees("Used up.")
    # Nothing is left of it all the same, and whoever asks is refused.
    assert shop.ask("Hello", key=shop.key_of(agent)).status == 402
    press(page, "Look again")
    refused = "page.getByRole('region', {name: 'Calls that ' + args.name + ' refused'}).getByRole('row').filter({hasText: args.agent})"
    page.do(f"await {refused}.getByText('budget exceeded').waitFor()", name=name, agent=agent)


def test_the_ledger_is_checked_from_the_page(page, shop):
    page.go("budgets")
    press(page, "Check now")
    page.sees("Ledger balanced")
    eventually(lambda: shop.admin.get("/v1/verify/last").ok()["at"])


def test_sessions_are_found_followed_and_forked(page, shop):
    title = fresh("A talk to be found")
    session = shop.admin.post("/v1/sessions", {"agent": "reviewer", "title": title}).ok()["id"]
    shop.say("the first word", session)
    page.go("sessions")
    page.do("await page.getByPlaceholder('title, agent or id').fill(args.text)", text=title)
    page.do("await page.getByRole('link', {name: args.title}).first().click()", title=title)
    page.sees("the first word")
    shop.say("a word that comes while somebody looks", session, "assistant")
    page.sees("a word that comes while somebody looks", seconds=2)
    # At the second message: what was said before it is shared, what comes after is not.
    shop.say("a word that is left out", session)
    page.sees("a word that is left out")
    second = "page.getByRole('listitem').filter({hasText: 'a word that comes while somebody looks'})"
    page.do(f"await {second}.getByRole('button', {{name: 'fork', exact: true}}).click()")
    press(page, "Fork", "page.getByRole('dialog')")
    family = eventually(lambda: shop.admin.get(f"/v1/sessions/{session}/tree").ok()["items"][1:])
    assert [each["parent"] for each in family] == [session]
    said = [each["content"] for each in shop.admin.items(f"/v1/sessions/{family[0]['id']}/messages")]
    assert said == ["the first word", "a word that comes while somebody looks"]
    page.do("await page.waitForURL((url) => url.hash.includes(args.id))", id=family[0]["id"])


def test_an_agent_is_paused_and_a_schedule_woken(page, shop):
    agent, schedule = fresh("sleepy"), fresh("rarely")
    shop.admin.put(f"/v1/agents/{agent}", {"command": ["sh", "-c", "true"]}).ok()
    shop.admin.put(f"/v1/schedules/{schedule}", {"agent": agent, "every_s": 86400}).ok()
    page.go("agents")
    row = "page.getByRole('row').filter({has: page.getByText(args.of, {exact: true})})"
    page.do(f"await {row}.getByRole('button', {{name: 'Wake now'}}).click()", of=schedule)
    eventually(lambda: shop.admin.items(f"/v1/schedules/{schedule}/history"))
    # It stands in the picture of the day, and what is to come does too.
    page.do("await page.getByRole('img', {name: new RegExp(`^${args.of}: 1 ticks in twelve hours, 0 skipped, 0 failed; next in`)}).waitFor()",
            of=schedule)
    page.do(f"await {row}.first().getByRole('button', {{name: 'Pause'}}).click()", of=agent)
    page.do("await page.getByLabel('Why, for those who wonder').fill('over lunch')")
    press(page, f"Pause {agent}")
    eventually(lambda: shop.admin.get(f"/v1/agents/{agent}").ok()["state"] == "paused")
    page.sees("over lunch")


def test_a_model_without_a_price_gets_one(page, shop):
    page.go("gateway")
    page.sees("sim-openai")
    row = "page.getByRole('row').filter({hasText: 'sim/no-such-model'}).first()"
    page.do(f"await {row}.getByRole('button', {{name: 'Set price'}}).click()")
    for field in ("A million tokens in", "A million tokens out"):
        page.do("await page.getByLabel(args.field, {exact: true}).fill('1.50')", field=field)
    press(page, "Set this price")
    eventually(lambda: shop.admin.get("/v1/prices/show", provider="sim", model="sim/no-such-model").status == 200)
    eventually(lambda: not shop.admin.get("/v1/prices/unpriced").ok()["items"])
    page.do("await page.getByRole('dialog').waitFor({state: 'detached'})")


def test_rate_limits_are_shown_as_they_are_set(page, shop):
    name = fresh("slowly")
    page.go("gateway")
    page.sees("Rate limits")
    shop.admin.put(f"/v1/rate-limits/{name}", {"match": {"agent": "reviewer"}, "requests_per_minute": 600}).ok()
    row = "page.getByRole('region', {name: 'All rate limits'}).getByRole('row').filter({hasText: args.name})"
    page.do(f"await {row}.waitFor()", name=name)
    cells = page.do(f"return {row}.getByRole('cell').allInnerTexts()", name=name)
    assert "reviewer" in cells[1] and cells[2:4] == ["600", "no limit"]
    shop.admin.delete(f"/v1/rate-limits/{name}").ok()


def test_a_worktree_says_whether_it_may_go_and_goes(page, shop):
    repo = repository(shop.server.directory / fresh("repo"))
    agent = fresh("isolated")
    shop.admin.put(f"/v1/agents/{agent}", {"command": ["sh", "-c", "true"], "workspace": str(repo)}).ok()
    run = shop.admin.post("/v1/runs", {"agent": agent, "launch": True, "isolate": True}).ok()["id"]
    eventually(lambda: status(shop, run) == "succeeded")
    page.go("system")
    item = "page.locator('.worktrees li').filter({hasText: args.agent})"
    page.do(f"await {item}.getByRole('button', {{name: 'May it go?'}}).click()", agent=agent)
    page.do(f"await {item}.getByText('safe to remove: nothing would be lost with it').waitFor()", agent=agent)
    # Work that is nowhere else keeps it.
    path = pathlib.Path(shop.admin.get(f"/v1/worktrees/{run}").ok()["path"])
    (path / "readme").write_text("changed")
    page.do(f"await {item}.getByRole('button', {{name: 'Look again'}}).click()", agent=agent)
    page.do(f"await {item}.getByText('Kept').waitFor()", agent=agent)
    git("checkout", "-q", "readme", cwd=path)
    page.do(f"await {item}.getByRole('button', {{name: 'Look again'}}).click()", agent=agent)
    page.do(f"await {item}.getByRole('button', {{name: 'Remove', exact: true}}).click()", agent=agent)
    press(page, "Remove", "page.getByRole('dialog')")
    eventually(lambda: not path.exists())
    page.do(f"await {item}.waitFor({{state: 'detached'}})", agent=agent)


def test_the_system_is_checked_and_a_key_is_made_and_revoked(page, shop):
    page.go("system")
    press(page, "Check now")
    page.sees("exact ledger")
    press(page, "Make a key")
    note = fresh("for a wall")
    page.do("await page.getByLabel('What it is for').fill(args.note)", note=note)
    press(page, "Make it")
    page.sees("This is the only time it is shown")
    secret = page.do("return page.getByRole('dialog').locator('code').filter({hasText: 'ilk_'}).innerText()")
    assert shop.admin.with_key(secret).get("/v1/keys/self").ok()["note"] == note
    press(page, "I have it")
    page.do("await page.getByRole('row').filter({hasText: args.note}).getByRole('button', {name: 'Revoke'}).click()", note=note)
    press(page, "Revoke", "page.getByRole('dialog')")
    eventually(lambda: shop.admin.with_key(secret).get("/v1/keys/self").status == 401)


def test_what_the_api_refuses_is_said_in_its_words(page, shop):
    page.go("runs/run_01m7h2v2n6exp84hhng6pqg26f")
    detail = json.loads(shop.admin.get("/v1/runs/run_01m7h2v2n6exp84hhng6pqg26f").body)["detail"]
    page.sees(detail)
