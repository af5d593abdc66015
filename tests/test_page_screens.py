"""What people do on each screen of the dashboard, in a real browser. The server confirms each change."""

import json
import pathlib
import re

import pytest

from interlock_server import eventually, fresh
from supervised import git, repository


WEB = pathlib.Path(__file__).resolve().parent.parent / "web"


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
    """Live client-owned runs of a new agent."""
    shop.admin.put(f"/v1/agents/{agent}", {"max_concurrent_runs": runs, "capture": "full"}).ok()
    begun = [shop.start(agent, lease_s=600, **more) for _ in range(runs)]
    for run in begun:
        fence = shop.admin.get(f"/v1/runs/{run}").ok()["fence"]
        shop.admin.post(f"/v1/runs/{run}/start", {"fence": fence}).ok()
    return begun


def test_now_shows_live_runs_their_cost_and_problems(page, shop):
    agent = fresh("spender")
    run, = begin(shop, agent)
    budget = fresh("small")
    shop.admin.put(f"/v1/budgets/{budget}", {"limit": "0.05", "window": "day", "scope": {"agent": agent}}).ok()
    page.go("now")
    shop.charge("0.05", agent, run=run)
    page.do("await page.locator(`main tr:has(a[href*='${args.run}'])`).getByText('$0.0500').waitFor()", run=run)
    page.do("await page.getByRole('link', {name: args.budget}).first().waitFor()", budget=budget)
    page.do("await page.getByRole('img', {name: /Spend per minute in the last hour: \\$/}).waitFor()")
    # The table of the chart has the exact cost of the last minute.
    page.do("await page.getByText('as a table').first().click()")
    minutes = shop.admin.get("/v1/spend/minutes", minutes=60).ok()["items"]
    page.do("await page.getByRole('cell', {name: '$' + args.cost, exact: true}).first().waitFor()", cost=minutes[-1]["cost"])


def test_runs_are_filtered_previewed_and_cancelled_together(page, shop):
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
    # All of them at once, after a confirmation.
    press(page, "Mark all")
    press(page, "Cancel runs …")
    press(page, "Cancel 4 runs", "page.getByRole('dialog')")
    eventually(lambda: all(asked_to_stop(shop, run) for run in runs))
    page.sees("4 of 4 runs")
    press(page, "Close", "page.getByRole('dialog')")
    # Their client ends them, and the list shows it.
    for run in runs:
        shop.finish(run)
    page.do("await page.locator('main tr .state').filter({hasText: 'succeeded'}).nth(3).waitFor()")


def test_a_hundred_thousand_rows_would_be_few_elements(page, shop):
    """Only the rows in view are in the DOM, however long the list is."""
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


def test_a_run_is_paused_resumed_and_cancelled_and_shows_its_calls_and_messages(page, shop):
    agent = fresh("teller")
    run, = begin(shop, agent, session=shop.session)
    shop.ask("A question of this run", run=run, key=shop.key_of(agent)).ok()
    page.go(f"runs/{run}")
    press(page, "Pause run")
    eventually(lambda: status(shop, run) == "paused")
    press(page, "Resume run")
    eventually(lambda: status(shop, run) == "running")
    # Its call with the exact cost on hover, and its message.
    call, = shop.admin.items("/v1/calls", run=run)
    page.do("await page.getByTitle('$' + args.cost, {exact: true}).first().waitFor()", cost=call["cost"])
    page.sees("A question of this run")
    page.sees("paused")
    press(page, "Cancel run")
    press(page, "Cancel run", "page.getByRole('dialog')")
    eventually(lambda: asked_to_stop(shop, run))
    page.do("await page.getByRole('button', {name: 'Cancel requested'}).waitFor()")
    shop.finish(run)
    page.sees("succeeded")


def test_a_failed_run_shows_its_log_and_is_retried(page, shop):
    agent = fresh("builder")
    shop.admin.put(f"/v1/agents/{agent}", {"command": ["sh", "-c", "echo a line of the log; exit 3"]}).ok()
    run = shop.admin.post("/v1/runs", {"agent": agent, "launch": True}).ok()["id"]
    eventually(lambda: status(shop, run) == "failed")
    page.go(f"runs/{run}")
    page.sees("a line of the log")
    press(page, "Retry run")
    again = eventually(lambda: [each["id"] for each in shop.admin.items("/v1/runs", agent=agent) if each["id"] != run])[0]
    page.do("await page.waitForURL((url) => url.hash.includes(args.run))", run=again)


def test_failed_runs_are_retried_together(page, shop):
    agent = fresh("stumbler")
    shop.admin.put(f"/v1/agents/{agent}", {"command": ["sh", "-c", "exit 3"], "max_concurrent_runs": 4}).ok()
    runs = {shop.admin.post("/v1/runs", {"agent": agent, "launch": True}).ok()["id"] for _ in range(2)}
    working, = begin(shop, fresh("steady"))
    eventually(lambda: all(status(shop, run) == "failed" for run in runs))
    page.go(f"runs?agent={agent}")
    page.do("await page.getByText('2 runs', {exact: true}).waitFor()")
    press(page, "Mark all")
    press(page, "Retry runs …")
    press(page, "Retry 2 runs", "page.getByRole('dialog')")
    page.sees("2 of 2 runs")
    press(page, "Close", "page.getByRole('dialog')")
    again = [each["id"] for each in shop.admin.items("/v1/runs", agent=agent) if each["id"] not in runs]
    assert len(again) == 2 and status(shop, working) == "running"
    eventually(lambda: all(status(shop, run) == "failed" for run in again))


def test_a_limit_is_raised_after_its_effects_are_shown(page, shop):
    name = fresh("purse")
    shop.admin.put(f"/v1/budgets/{name}", {"limit": "1.00", "window": "month", "scope": {"agent": "reviewer"}}).ok()
    page.go("budgets")
    page.do("await page.getByRole('link', {name: args.name, exact: true}).click()", name=name)
    press(page, "Change limit")
    page.do("await page.getByLabel(/New limit/).fill('nonsense')")
    assert page.do("return page.getByRole('dialog').getByRole('button', {name: 'Change limit'}).isDisabled()")
    page.do("await page.getByLabel(/New limit/).fill('2.50')")
    press(page, "Raise to $2.50")
    eventually(lambda: shop.admin.get(f"/v1/budgets/{name}").ok()["limit"] == "2.50")
    page.do("await page.getByRole('dialog').waitFor({state: 'detached'})")
    page.sees("$2.50")
    # The free amount falls while the screen is open.
    shop.charge("0.25", model="sim/small")
    page.sees("$2.25")


def test_a_budget_shows_its_forecast_and_its_windows(page, shop):
    agent, name = fresh("steady"), fresh("weekly")
    shop.admin.put(f"/v1/agents/{agent}", {}).ok()
    shop.admin.put(f"/v1/budgets/{name}", {"limit": "1000.00", "window": "day", "scope": {"agent": agent}}).ok()
    page.go(f"budgets/{name}")
    page.sees("No cost at present: $0.00 of $1,000.00 so far.")
    shop.charge("0.25", agent)
    line = eventually(lambda: (line := shop.admin.get(f"/v1/budgets/{name}/line").ok())["settled"] == "0.25" and line)
    page.sees("Forecast: used up " if line["used_up_at"] else "Forecast: $")
    page.sees(", at $")
    window = "page.getByRole('region', {name: 'Windows of ' + args.name}).getByRole('row').filter({hasText: 'current'})"
    page.do(f"await {window}.getByTitle('$0.25', {{exact: true}}).first().waitFor()", name=name)


def test_a_frozen_budget_shows_why_and_is_unfrozen(page, shop):
    agent, name = fresh("hasty"), fresh("thin")
    shop.admin.put(f"/v1/agents/{agent}", {}).ok()
    shop.admin.put(f"/v1/budgets/{name}", {"limit": "1.00", "window": "total", "scope": {"agent": agent}}).ok()
    hold = shop.admin.post("/v1/holds", {"agent": agent, "amount": "0.90"}).ok()["id"]
    page.go(f"budgets/{name}")
    # The hold is listed with its agent.
    held = "page.getByRole('region', {name: 'Open holds on ' + args.name}).getByRole('row').filter({hasText: args.agent})"
    page.do(f"await {held}.getByTitle('$0.90', {{exact: true}}).first().waitFor()", name=name, agent=agent)
    shop.admin.post(f"/v1/holds/{hold}/settle", {"cost": "1.50"}).ok()
    shop.admin.post("/v1/budgets/all-day/unfreeze").ok()  # It covers all agents, and froze as well.
    page.sees("Frozen: charges and calls are refused until you unfreeze the budget.")
    page.sees("No open holds.")
    press(page, "Unfreeze budget")
    press(page, "Unfreeze budget", "page.getByRole('dialog')")
    eventually(lambda: shop.admin.get(f"/v1/budgets/{name}").ok()["frozen"] is None)
    page.sees("Used up.")
    # It is still used up, so calls are refused.
    assert shop.ask("Hello", key=shop.key_of(agent)).status == 402
    press(page, "Refresh")
    refused = "page.getByRole('region', {name: 'Calls that ' + args.name + ' refused'}).getByRole('row').filter({hasText: args.agent})"
    page.do(f"await {refused}.getByText('budget exceeded').waitFor()", name=name, agent=agent)


def test_the_ledger_is_checked_from_the_dashboard(page, shop):
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
    shop.say("a message that arrives later", session, "assistant")
    page.sees("a message that arrives later", seconds=2)
    # At the second message: earlier messages are shared, later ones are not.
    shop.say("a word that is left out", session)
    page.sees("a word that is left out")
    second = "page.getByRole('listitem').filter({hasText: 'a message that arrives later'})"
    page.do(f"await {second}.getByRole('button', {{name: 'Fork', exact: true}}).click()")
    press(page, "Fork session", "page.getByRole('dialog')")
    family = eventually(lambda: shop.admin.get(f"/v1/sessions/{session}/tree").ok()["items"][1:])
    assert [each["parent"] for each in family] == [session]
    said = [each["content"] for each in shop.admin.items(f"/v1/sessions/{family[0]['id']}/messages")]
    assert said == ["the first word", "a message that arrives later"]
    page.do("await page.waitForURL((url) => url.hash.includes(args.id))", id=family[0]["id"])


def test_an_agent_is_paused_and_a_schedule_triggered(page, shop):
    agent, schedule = fresh("sleepy"), fresh("rarely")
    shop.admin.put(f"/v1/agents/{agent}", {"command": ["sh", "-c", "true"]}).ok()
    shop.admin.put(f"/v1/schedules/{schedule}", {"agent": agent, "every_s": 86400}).ok()
    page.go("agents")
    row = "page.getByRole('row').filter({has: page.getByText(args.of, {exact: true})})"
    page.do(f"await {row}.getByRole('button', {{name: 'Trigger schedule'}}).click()", of=schedule)
    eventually(lambda: shop.admin.items(f"/v1/schedules/{schedule}/history"))
    # The timeline shows the tick and the coming ones.
    page.do("await page.getByRole('img', {name: new RegExp(`^${args.of}: 1 ticks in 12 hours, 0 skipped, 0 failed; next in`)}).waitFor()",
            of=schedule)
    page.do(f"await {row}.first().getByRole('button', {{name: 'Pause agent'}}).click()", of=agent)
    page.do("await page.getByLabel('Reason').fill('over lunch')")
    press(page, "Pause agent", "page.getByRole('dialog')")
    eventually(lambda: shop.admin.get(f"/v1/agents/{agent}").ok()["state"] == "paused")
    page.sees("over lunch")


def test_a_model_without_a_price_gets_one(page, shop):
    page.go("gateway")
    page.sees("sim-openai")
    row = "page.getByRole('row').filter({hasText: 'sim/no-such-model'}).first()"
    page.do(f"await {row}.getByRole('button', {{name: 'Set price'}}).click()")
    for field in ("Input, per 1M tokens", "Output, per 1M tokens"):
        page.do("await page.getByLabel(args.field, {exact: true}).fill('1.50')", field=field)
    press(page, "Set price", "page.getByRole('dialog')")
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


def test_a_worktree_is_checked_and_removed(page, shop):
    repo = repository(shop.server.directory / fresh("repo"))
    agent = fresh("isolated")
    shop.admin.put(f"/v1/agents/{agent}", {"command": ["sh", "-c", "true"], "workspace": str(repo)}).ok()
    run = shop.admin.post("/v1/runs", {"agent": agent, "launch": True, "isolate": True}).ok()["id"]
    eventually(lambda: status(shop, run) == "succeeded")
    page.go("system")
    item = "page.locator('.worktrees li').filter({hasText: args.agent})"
    page.do(f"await {item}.getByRole('button', {{name: 'Check if removable'}}).click()", agent=agent)
    page.do(f"await {item}.getByText('safe to remove: it has no unsaved work').waitFor()", agent=agent)
    # Unsaved work keeps it.
    path = pathlib.Path(shop.admin.get(f"/v1/worktrees/{run}").ok()["path"])
    (path / "readme").write_text("changed")
    page.do(f"await {item}.getByRole('button', {{name: 'Check again'}}).click()", agent=agent)
    page.do(f"await {item}.getByText('Not removable').waitFor()", agent=agent)
    git("checkout", "-q", "readme", cwd=path)
    page.do(f"await {item}.getByRole('button', {{name: 'Check again'}}).click()", agent=agent)
    page.do(f"await {item}.getByRole('button', {{name: 'Remove worktree', exact: true}}).click()", agent=agent)
    press(page, "Remove worktree", "page.getByRole('dialog')")
    eventually(lambda: not path.exists())
    page.do(f"await {item}.waitFor({{state: 'detached'}})", agent=agent)


def test_the_guarantees_are_checked_and_an_api_key_is_created_and_revoked(page, shop):
    page.go("system")
    press(page, "Check now")
    page.sees("exact ledger")
    press(page, "Create API key")
    note = fresh("for a wall")
    page.do("await page.getByLabel('Note').fill(args.note)", note=note)
    press(page, "Create key")
    page.sees("The key is shown only once.")
    secret = page.do("return page.getByRole('dialog').locator('code').filter({hasText: 'ilk_'}).innerText()")
    assert shop.admin.with_key(secret).get("/v1/keys/self").ok()["note"] == note
    press(page, "Done")
    page.do("await page.getByRole('row').filter({hasText: args.note}).getByRole('button', {name: 'Revoke key'}).click()", note=note)
    press(page, "Revoke key", "page.getByRole('dialog')")
    eventually(lambda: shop.admin.with_key(secret).get("/v1/keys/self").status == 401)


def test_an_error_of_the_api_is_shown(page, shop):
    page.go("runs/run_01m7h2v2n6exp84hhng6pqg26f")
    detail = json.loads(shop.admin.get("/v1/runs/run_01m7h2v2n6exp84hhng6pqg26f").body)["detail"]
    page.sees(detail)


# ---- sandbox ------------------------------------------------------------------------------------------------------

HOSTILE = "<img src=x onerror=\"document.title='taken'\">"


def fact(page, name, within="main"):
    """The value of a term in a list of facts."""
    return page.do("return page.locator(args.within).locator('dt', {hasText: args.name}).locator('+ dd').first().innerText()",
                   within=within, name=name)


def answer_with(page, path, change):
    """Changes the responses for a path of the API. `change` is JavaScript that changes `body`."""
    page.do(f"await page.route((url) => url.pathname === args.path, async (route) => {{ const response = await route.fetch(); "
            f"const body = await response.json(); {change}; await route.fulfill({{response, json: body}}); }})", path=path)


def test_an_agent_and_its_runs_show_their_sandbox_level_and_allowed_hosts(page, shop):
    agent, sealed = fresh("open"), fresh("sealed")
    hosts = ["packages.example.com", "*.example.org:443"]
    shop.admin.put(f"/v1/agents/{agent}", {}).ok()
    shop.admin.put(f"/v1/agents/{sealed}", {"sandbox_level": "sealed", "allowed_hosts": hosts, "writable": ["/var/cache/x"]}).ok()
    run = shop.admin.post("/v1/runs", {"agent": agent, "launch": True, "command": ["true"], "sandbox_level": "guarded"}).ok()["id"]
    eventually(lambda: status(shop, run) == "succeeded")

    page.go(f"agents?agent={sealed}")
    page.do("await page.getByRole('dialog').getByText('allowed hosts').waitFor()")
    assert fact(page, "sandbox level", "dialog") == "sealed"
    assert fact(page, "allowed hosts", "dialog").split() == hosts
    assert fact(page, "writable", "dialog") == "/var/cache/x"
    page.go(f"agents?agent={agent}")
    page.do("await page.getByRole('dialog').getByText('default of the server').waitFor()")
    assert "allowed hosts" not in page.reads("dialog")

    page.go(f"runs/{run}")
    page.sees("sandbox level")
    assert fact(page, "sandbox level").startswith("guarded") and "allowed hosts" not in page.reads()


def test_the_hosts_of_a_sealed_run_are_text(browser, shop):
    """The responses are made up, because not every machine can seal a run, and the API refuses such names."""
    agent = fresh("hostile")
    shop.admin.put(f"/v1/agents/{agent}", {"command": ["true"]}).ok()
    run, other = (shop.admin.post("/v1/runs", {"agent": agent, "launch": True}).ok()["id"] for _ in range(2))
    with browser.open(shop.address) as page:
        page.log_in(shop.link())
        hosts = json.dumps([HOSTILE, "a.example"])
        answer_with(page, f"/v1/runs/{run}", f"body.sandbox = 'sealed'; body.process.allowed_hosts = {hosts}")
        answer_with(page, f"/v1/runs/{other}", "body.sandbox = 'sealed'")
        answer_with(page, "/v1/agents", f"body.items.forEach((each) => each.allowed_hosts = {hosts})")

        for where, within in ((f"runs/{run}", "main"), (f"agents?agent={agent}", "dialog")):
            page.go(where)
            page.do("await page.locator(args.within).getByText('allowed hosts').waitFor()", within=within)
            assert fact(page, "allowed hosts", within).split("\n") == [HOSTILE, "a.example"]
            assert page.do("return page.locator('main img').count()") == 0 and page.do("return page.title()") != "taken"
        page.go(f"runs/{other}")
        page.sees("allowed hosts")
        assert (fact(page, "sandbox level"), fact(page, "allowed hosts")) == ("sealed", "none")


# ---- commands -----------------------------------------------------------------------------------------------------


def commands():
    """The words of each command that the dashboard shows, up to the first argument."""
    source = "\n".join(path.read_text() for path in sorted(WEB.rglob("src/**/*.tsx")))
    in_text = re.findall(r"\binterlock((?: [a-z][a-z-]*)+)", source)
    in_calls = re.findall(r'shell_command\("interlock"((?:, "[a-z][a-z-]*")+)', source)
    return {tuple(words.split()) for words in in_text} | {tuple(re.findall("[a-z-]+", words)) for words in in_calls}


def test_each_command_on_the_dashboard_exists(interlock):
    found = commands()
    assert len(found) > 40 and ("runs", "ls") in found, found

    assert not [words for words in found if not is_command(interlock, words)]
    assert not is_command(interlock, ("runs", "nonsense")) and not is_command(interlock, ("nonsense",))


def is_command(interlock, words):
    """The help of a group, which is also printed for an unknown verb, has VERB in its usage."""
    usage = re.search(r"^Usage: interlock (.*)", interlock(*words, "--help").stdout, re.M)
    return usage is not None and usage[1].startswith(words[0]) and "VERB" not in usage[1]
