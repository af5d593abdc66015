"""Sessions and their messages over HTTP: appended, read, followed, forked, taken out and brought back."""

import hashlib
import json
import sqlite3
import threading

import pytest

from interlock_server import ON_POSTGRES, Server, fresh, together

pytestmark = pytest.mark.seconds_max(30)
NDJSON = {"Content-Type": "application/x-ndjson"}


def append(client, session, content="hello", **body):
    return client.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": content, **body})


def turn(client, session, *contents, **body):
    messages = [{"role": "user", "content": content} for content in contents]
    return client.post(f"/v1/sessions/{session}/messages", {"messages": messages, **body})


def contents(client, session):
    found = client.items(f"/v1/sessions/{session}/messages")
    assert [message["seq"] for message in found] == list(range(len(found)))
    return [message["content"] for message in found]


def test_a_session_is_made_and_shown_whole(admin):
    agent = admin.agent()

    made = admin.post("/v1/sessions", {"agent": agent, "title": "Notes", "metadata": {"issue": 12}}).ok(201)

    assert made["id"].startswith("ses_") and made["created_at"]
    told = admin.get(f"/v1/sessions/{made['id']}").ok(200)
    assert {member: told[member] for member in told if member not in ("id", "created_at")} == {
        "agent": agent, "title": "Notes", "metadata": {"issue": 12}, "parent": None, "first_seq": 0, "next_seq": 0,
        "messages": 0, "closed": False, "input_tokens": 0, "output_tokens": 0, "spent": "0.00", "events": 0}


def test_a_session_needs_nothing_and_its_agent_must_be_there(admin):
    assert admin.get(f"/v1/sessions/{admin.session()}").ok(200)["messages"] == 0
    assert admin.post("/v1/sessions", {"agent": "nobody"}).refused(404, "not_found")["what"] == "agent"
    admin.post("/v1/sessions", {"metadata": []}).refused(400, "invalid_request", "/metadata")
    admin.post("/v1/sessions", {"color": "red"}).refused(400, "invalid_request", "/color")


def test_the_same_session_asked_for_twice_is_one(admin):
    agent, key = admin.agent(), fresh("key")

    first = admin.post("/v1/sessions", {"agent": agent, "key": key}).ok(201)
    again = admin.post("/v1/sessions", {"agent": agent}, idempotency=key)

    assert again.ok(201)["id"] == first["id"] and again.headers["idempotent-replayed"] == "true"
    assert again.json()["repeated"] is True
    admin.post("/v1/sessions", {"agent": agent, "title": "x", "key": key}).refused(422, "key_reused")


def test_sessions_are_listed_with_the_newest_first(admin):
    agent = admin.agent()
    made = [admin.session(agent=agent) for _ in range(3)]

    assert [each["id"] for each in admin.items("/v1/sessions", agent=agent, limit=1)] == made[::-1]


def test_a_message_is_kept_as_it_was_said(admin):
    session, agent = admin.session(), admin.agent()
    run = admin.run(agent)
    odd = "line\nbreak\ttab \"quote\" \\ \u0000 \u2028 é 漢 🙂 </script>"

    done = admin.post(f"/v1/sessions/{session}/messages", {
        "role": "assistant", "content": odd, "metadata": {"a": [1, {"b": None}], "é": "🙂"}, "input_tokens": 5,
        "output_tokens": 7, "run": run["id"], "fence": run["fence"]}).ok(201)

    assert done["seq"] == 0 and done["id"].startswith("msg_") and done["repeated"] is False
    message, = admin.items(f"/v1/sessions/{session}/messages")
    assert message.pop("at")
    assert message == {"seq": 0, "id": done["id"], "session": session, "role": "assistant", "content": odd,
                       "metadata": {"a": [1, {"b": None}], "é": "🙂"}, "input_tokens": 5, "output_tokens": 7,
                       "run": run["id"]}
    told = admin.get(f"/v1/sessions/{session}").ok(200)
    assert (told["input_tokens"], told["output_tokens"], told["next_seq"]) == (5, 7, 1)


def test_numbers_in_metadata_come_back_as_they_were_or_are_refused(admin):
    session, kind = admin.session(), {"Content-Type": "application/json"}
    for number in ("0.1", "-0.5", "9007199254740993", "1e400", "-1e999", "12345678901234567890123", "1e-400", "1.0"):
        text = f'{{"role":"user","content":"{number}","metadata":{{"n":{number}}}}}'
        reply = admin.request("POST", f"/v1/sessions/{session}/messages", text, headers=kind)
        if reply.status != 201:
            reply.refused(400, "invalid_request")

    for message in admin.items(f"/v1/sessions/{session}/messages"):
        assert float(message["metadata"]["n"]) == float(message["content"]), message


def test_a_turn_goes_in_whole_or_not_at_all(admin):
    session = admin.session()

    assert turn(admin, session, "a", "b", "c").ok(201) == {"first_seq": 0, "last_seq": 2, "repeated": False}
    admin.post(f"/v1/sessions/{session}/messages", {"messages": [
        {"role": "user", "content": "d"}, {"role": "king", "content": "e"}]}).refused(400, "invalid_request")

    assert contents(admin, session) == ["a", "b", "c"]


def test_a_repeated_message_or_turn_is_there_once(admin):
    session, key = admin.session(), fresh("key")

    first, again = append(admin, session, "one", key=key).ok(201), append(admin, session, "one", key=key)
    assert again.ok(201) == {**first, "repeated": True} and again.headers["idempotent-replayed"] == "true"
    whole, once_more = turn(admin, session, "two", "three", key=key + "t"), turn(admin, session, "two", "three", key=key + "t")
    assert once_more.ok(201) == {**whole.ok(201), "repeated": True}
    append(admin, session, "other", key=key).refused(422, "key_reused")

    assert contents(admin, session) == ["one", "two", "three"]


def test_an_expected_number_that_is_not_next_is_refused_with_the_right_one(admin):
    session = admin.session()

    append(admin, session, expected_seq=0).ok(201)
    assert append(admin, session, expected_seq=0).refused(409, "unexpected_seq")["next_seq"] == 1
    assert turn(admin, session, "a", "b", expected_seq=5).refused(409, "unexpected_seq")["next_seq"] == 1
    assert turn(admin, session, "a", "b", expected_seq=1).ok(201)["last_seq"] == 2


def test_messages_are_read_page_by_page(admin):
    session = admin.session()
    turn(admin, session, *map(str, range(7))).ok(201)

    page = admin.get(f"/v1/sessions/{session}/messages", limit=3).ok(200)
    assert [message["seq"] for message in page["items"]] == [0, 1, 2] and page["next"] == "2"
    rest = admin.get(f"/v1/sessions/{session}/messages", after=4).ok(200)
    assert [message["seq"] for message in rest["items"]] == [5, 6] and rest["next"] is None
    assert admin.get(f"/v1/sessions/{session}/messages", after=100).ok(200)["items"] == []
    admin.get(f"/v1/sessions/{session}/messages", after="x").refused(400, "invalid_request")


def test_a_closed_session_can_be_read_and_takes_nothing(admin):
    session = admin.session()
    append(admin, session).ok(201)

    assert admin.post(f"/v1/sessions/{session}/close").ok(200)["closed"] is True
    append(admin, session).refused(409, "session_closed")
    assert contents(admin, session) == ["hello"]
    assert admin.post(f"/v1/sessions/{session}/close").ok(200)["closed"] is True


def test_a_message_with_the_fence_of_another_or_ended_run_is_refused(admin):
    session, agent = admin.session(), admin.agent()
    run = admin.run(agent)

    append(admin, session, run=run["id"], fence=run["fence"] + 1).refused(409, "stale_fence")
    assert append(admin, session, run="run_00000000000000000000000001").refused(404, "not_found")["what"] == "run"
    append(admin, session, run=run["id"], fence=run["fence"]).ok(201)
    admin.finish(run).ok(200)
    append(admin, session, run=run["id"], fence=run["fence"]).refused(409, "run_ended")


def test_an_id_of_nothing_but_zeros_is_not_the_same_as_none(admin):
    for body in ({"run": "run_00000000000000000000000000"}, {"session": "ses_00000000000000000000000000"}):
        reply = admin.post("/v1/charges", {"agent": admin.agent(), "cost": "0.01", **body})
        assert reply.status in (400, 404), reply


@pytest.mark.parametrize("body, pointer", [
    ({}, "/role"), ({"role": "user"}, "/content"), ({"role": "king", "content": ""}, "/role"),
    ({"role": "user", "content": 5}, "/content"), ({"role": "user", "content": "", "metadata": "x"}, "/metadata"),
    ({"role": "user", "content": "", "input_tokens": "1"}, "/input_tokens"),
    ({"role": "user", "content": "", "expected_seq": "0"}, "/expected_seq"),
    ({"role": "user", "content": "", "more": 1}, "/more"), ({"messages": []}, None), ({"messages": {}}, "/messages"),
    ({"messages": [{"role": "user"}]}, "/messages/0/content"),
    ({"messages": [{"role": "user", "content": ""}], "role": "user"}, "/role"),
])
def test_a_message_that_makes_no_sense_is_refused(admin, body, pointer):
    session = admin.session()

    admin.post(f"/v1/sessions/{session}/messages", body).refused(400, "invalid_request", pointer)

    assert contents(admin, session) == []


def test_a_message_larger_than_the_limit_is_refused_and_one_just_below_is_kept(admin):
    session = admin.session()

    append(admin, session, "x" * (4 << 20)).ok(201)
    append(admin, session, "x" * ((4 << 20) + 1)).refused(400, "invalid_request", "/content")
    turn(admin, session, *["x"] * 1001).refused(400, "invalid_request")

    assert admin.get(f"/v1/sessions/{session}").ok(200)["messages"] == 1


# ---- forks --------------------------------------------------------------------------------------------------------

def test_a_fork_shares_what_was_before_and_goes_its_own_way(admin):
    session, key = admin.session(agent=admin.agent()), fresh("key")
    turn(admin, session, "a", "b", "c").ok(201)

    fork = admin.post(f"/v1/sessions/{session}/fork", {"at_seq": 1, "title": "again", "key": key}).ok(201)
    repeat = admin.post(f"/v1/sessions/{session}/fork", {"at_seq": 1, "title": "again", "key": key})
    assert repeat.ok(201)["id"] == fork["id"] and repeat.headers["idempotent-replayed"] == "true"
    assert (fork["parent"], fork["first_seq"], fork["next_seq"], fork["title"]) == (session, 2, 2, "again")
    append(admin, fork["id"], "C").ok(201)
    append(admin, session, "d").ok(201)
    deeper = admin.post(f"/v1/sessions/{fork['id']}/fork", {"at_seq": 2}).ok(201)["id"]
    append(admin, deeper, "D").ok(201)

    assert contents(admin, session) == ["a", "b", "c", "d"]
    assert contents(admin, fork["id"]) == ["a", "b", "C"]
    assert contents(admin, deeper) == ["a", "b", "C", "D"]
    owners = [message["session"] for message in admin.items(f"/v1/sessions/{deeper}/messages", limit=1)]
    assert owners == [session, session, fork["id"], deeper]


def test_a_fork_from_a_message_that_is_not_there_is_refused(admin):
    session = admin.session()
    turn(admin, session, "a").ok(201)

    assert admin.post(f"/v1/sessions/{session}/fork", {"at_seq": 1}).refused(404, "not_found")["what"] == "message"
    admin.post(f"/v1/sessions/{session}/fork", {}).refused(400, "invalid_request", "/at_seq")
    admin.post("/v1/sessions/ses_00000000000000000000000000/fork", {"at_seq": 0}).refused(404, "not_found")


# ---- out and in ---------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def exported(server):
    admin = server.admin
    session = admin.session(agent=admin.agent(), title="T", metadata={"a": 1})
    turn(admin, session, "one", "two\nlines", "drei 🙂", *(str(i) for i in range(600))).ok(201)
    fork = admin.post(f"/v1/sessions/{session}/fork", {"at_seq": 601}).ok(201)["id"]
    append(admin, fork, "last").ok(201)
    reply = admin.get(f"/v1/sessions/{fork}/export")
    assert reply.status == 200 and reply.headers["content-type"] == "application/x-ndjson"
    return fork, reply.body


def bring_back(client, text, **options):
    return client.request("POST", "/v1/sessions/import", text, headers=NDJSON, **options)


def test_an_export_has_a_head_all_messages_and_a_sum(admin, exported):
    session, text = exported
    lines = text.splitlines(keepends=True)

    head, last = json.loads(lines[0]), json.loads(lines[-1])
    assert head["interlock_session"] == 1 and head["id"] == session
    assert last == {"messages": 603, "sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest()}
    assert [json.loads(line)["content"] for line in lines[1:-1]] == contents(admin, session)


def test_an_export_comes_back_as_a_new_session_with_the_same_messages(admin, exported):
    session, text = exported
    key = fresh("key")

    made = bring_back(admin, text, idempotency=key).ok(201)
    again = bring_back(admin, text, idempotency=key)

    assert made["id"] != session and made["messages"] == 603 and made["parent"] is None
    assert contents(admin, made["id"]) == contents(admin, session)
    assert again.ok(201)["id"] == made["id"] and again.headers["idempotent-replayed"] == "true"
    assert admin.get(f"/v1/sessions/{made['id']}").ok(200)["messages"] == 603


def test_a_session_without_messages_can_go_out_and_come_back(admin):
    text = admin.get(f"/v1/sessions/{admin.session()}/export").body

    assert bring_back(admin, text).ok(201)["messages"] == 0


def test_a_torn_or_changed_file_is_refused(admin, exported):
    _, text = exported
    lines = text.splitlines(keepends=True)
    before = len(admin.items("/v1/sessions"))
    torn = [text[:-1], text[:-20], text[:len(text) // 2], b"".join(lines[:-1]), lines[0], b"", b"\n", b"hello\n",
            b"".join(lines[1:]), b"".join([lines[0], *lines[2:]]), b"".join([*lines[:3], *lines[4:]]),
            b"".join([lines[0], lines[2], lines[1], *lines[3:]]), text.replace(b'"one"', b'"two"'),
            text.replace(b'"messages":603', b'"messages":602'), text.replace(b'"sha256":"', b'"sha256":"0'),
            b"".join([*lines[:-1], lines[1], lines[-1]])]

    for broken in torn:
        assert broken != text
        bring_back(admin, broken).refused(400, "invalid_request")

    assert len(admin.items("/v1/sessions")) == before


def test_what_follows_the_last_line_of_an_export_is_refused(admin, exported):
    _, text = exported

    bring_back(admin, text + b'{"role":"user","content":"slipped in"}\n').refused(400, "invalid_request")


def test_an_import_is_sent_as_what_it_is(admin, exported):
    reply = admin.request("POST", "/v1/sessions/import", exported[1], headers={"Content-Type": "application/json"})

    reply.refused(415, "unsupported_media_type")


# ---- following ----------------------------------------------------------------------------------------------------

def test_the_tail_begins_now_and_brings_each_message_once(admin):
    session = admin.session()
    append(admin, session, "before").ok(201)

    with admin.events(f"/v1/sessions/{session}/tail") as tail:
        turn(admin, session, "a", "b").ok(201)
        append(admin, admin.session(), "of another session").ok(201)
        append(admin, session, "c").ok(201)
        found = tail.take(3)

    assert [(number, kind, data["content"]) for number, kind, data in found] == [
        (1, "message", "a"), (2, "message", "b"), (3, "message", "c")]
    assert found[0][2] == admin.items(f"/v1/sessions/{session}/messages")[1]


def test_the_tail_goes_on_where_a_follower_was_cut(admin):
    session, total = admin.session(), 300
    writer = threading.Thread(target=lambda: [append(admin, session, str(i)).ok(201) for i in range(total)], daemon=True)
    writer.start()

    seen, last = [], -1
    while last < total - 1:
        with admin.events(f"/v1/sessions/{session}/tail", last_event_id=last) as tail:
            for number, _, data in tail.take(min(37, total - 1 - last)):
                seen.append((number, data["content"]))
                last = number
    writer.join(20)

    assert seen == [(i, str(i)) for i in range(total)]


def test_the_tail_can_begin_anywhere(admin):
    session = admin.session()
    turn(admin, session, *map(str, range(5))).ok(201)

    for start, query in ((0, {"after": -1}), (3, {"after": 2})):
        with admin.events(f"/v1/sessions/{session}/tail", **query) as tail:
            assert [number for number, _, _ in tail.take(5 - start)] == list(range(start, 5))
    admin.get(f"/v1/sessions/{session}/tail", after="x").refused(400, "invalid_request")


def test_the_tail_of_a_fork_shows_the_shared_messages_too(admin):
    session = admin.session()
    turn(admin, session, "a", "b").ok(201)
    fork = admin.post(f"/v1/sessions/{session}/fork", {"at_seq": 1}).ok(201)["id"]

    with admin.events(f"/v1/sessions/{fork}/tail", after=-1) as tail:
        append(admin, session, "not here").ok(201)
        append(admin, fork, "c").ok(201)
        assert [data["content"] for _, _, data in tail.take(3)] == ["a", "b", "c"]


# ---- search and family --------------------------------------------------------------------------------------------

def found(client, text, **query):
    return [session["id"] for session in client.items("/v1/sessions", q=text, **query)]


def test_a_search_finds_what_is_in_titles_and_names_whatever_its_case(admin):
    word, agent = fresh("Needle"), admin.agent()
    first = admin.session(agent=agent, title=f"A {word} in the hay")
    second = admin.session(agent=admin.agent(), title=f"the same {word.lower()}!")
    admin.session(agent=agent, title="hay")

    assert found(admin, word) == found(admin, word.upper()) == [second, first]
    assert found(admin, word, agent=agent) == [first]
    assert len(found(admin, agent.upper())) == 2
    assert found(admin, f"{word}%") == [] and found(admin, word.replace("-", "_")) == []


@pytest.mark.parametrize("title", ["100% of_it!", "a'b\"c\\d", "Größe", "%"])
def test_a_search_takes_every_character_for_itself(admin, title):
    word = fresh("exactly")
    session = admin.session(title=f"{word} {title}")
    admin.session(title=f"{word} something else")

    assert found(admin, f"{word} {title}") == [session]


def test_a_search_finds_an_id_by_its_beginning(admin):
    session = admin.session(title="by its id")

    assert found(admin, session) == [session] and session in found(admin, session[:20])
    assert found(admin, session[:-1] + ("0" if session[-1] != "0" else "1")) == []
    assert session in found(admin, "ses_") and found(admin, "ses_zzzz") == []


def test_a_search_comes_in_pages(admin):
    word = fresh("paged")
    made = [admin.session(title=f"{word} {i}") for i in range(7)]

    page = admin.get("/v1/sessions", q=word, limit=3).ok(200)

    assert [session["id"] for session in page["items"]] == made[:3:-1] and page["next"]
    assert found(admin, word, limit=3) == made[::-1]


@pytest.mark.skipif(ON_POSTGRES, reason="so many are put into the embedded store's file")
@pytest.mark.parametrize("of_agent", [False, True])
def test_a_search_among_very_many_goes_on_by_its_cursor(binary, tmp_path, of_agent):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        oldest = server.admin.session(agent=agent, title="the needle")
        server.terminate()
        with sqlite3.connect(server.data / "interlock.db") as store:
            columns = [row[1] for row in store.execute("pragma table_info(sessions)")]
            row = dict(zip(columns, store.execute("select * from sessions").fetchone()))
            first = int.from_bytes(row["id"], "big")
            copies = ({**row, "id": (first + i).to_bytes(16, "big"), "title": "hay"} for i in range(1, 45_001))
            store.executemany(f"insert into sessions values ({','.join('?' * len(columns))})",
                              (tuple(copy[column] for column in columns) for copy in copies))
        store.close()
        server.start()
        query, pages = {"q": "NEEDLE", **({"agent": agent} if of_agent else {})}, []
        while not pages or pages[-1]["next"]:
            after = {"after": pages[-1]["next"]} if pages else {}
            pages.append(server.admin.get("/v1/sessions", **query, **after).ok(200))

        assert [[session["id"] for session in page["items"]] for page in pages] == [[], [], [oldest]]


def test_a_bound_key_finds_only_what_is_its_own(admin):
    word, agent = fresh("bound"), admin.agent()
    mine = admin.session(agent=agent, title=word)
    other = admin.session(agent=admin.agent(), title=word)
    bound = admin.make_key("read", agent=agent)

    assert found(bound, word) == [mine] and found(bound, other) == []


def test_the_tree_is_the_whole_family_whoever_of_it_is_asked(admin):
    root = admin.session(title="root")
    for _ in range(3):
        append(admin, root).ok(201)
    fork = admin.post(f"/v1/sessions/{root}/fork", {"at_seq": 1, "title": "fork"}).ok(201)["id"]
    append(admin, fork).ok(201)
    deeper = admin.post(f"/v1/sessions/{fork}/fork", {"at_seq": 2, "title": "deeper"}).ok(201)["id"]
    sibling = admin.post(f"/v1/sessions/{root}/fork", {"at_seq": 2}).ok(201)["id"]
    admin.post(f"/v1/sessions/{fork}/close").ok(200)
    admin.session(title="a stranger")

    trees = [admin.get(f"/v1/sessions/{id}/tree").ok(200) for id in (root, fork, deeper, sibling)]

    assert all(tree == trees[0] for tree in trees)
    assert trees[0]["root"] == root and trees[0]["more"] is False
    assert [(item["id"], item["parent"]) for item in trees[0]["items"]] == [(root, None), (fork, root),
                                                                            *sorted([(deeper, fork), (sibling, root)])]
    shown = {item["id"]: item for item in trees[0]["items"]}
    assert (shown[fork]["title"], shown[fork]["first_seq"], shown[fork]["next_seq"]) == ("fork", 2, 3)
    assert [shown[id]["closed"] for id in (root, fork, deeper)] == [False, True, False]
    assert set(shown[root]) == {"id", "parent", "agent", "title", "first_seq", "next_seq", "closed", "created_at"}
    admin.get("/v1/sessions/nothing/tree").refused(404, "not_found")


def test_a_session_without_forks_is_a_tree_of_one(admin):
    session = admin.session()

    tree = admin.get(f"/v1/sessions/{session}/tree").ok(200)

    assert tree["root"] == session and [item["id"] for item in tree["items"]] == [session]


def test_a_family_of_another_agent_is_unknown_to_a_bound_key(admin):
    agent = admin.agent()
    mine, other = admin.session(agent=agent), admin.session(agent=admin.agent())
    bound = admin.make_key("read", agent=agent)

    assert bound.get(f"/v1/sessions/{mine}/tree").ok(200)["root"] == mine
    bound.get(f"/v1/sessions/{other}/tree").refused(404, "not_found")


def test_of_a_large_family_only_so_much_is_shown(admin):
    root = admin.session(title="many children")
    append(admin, root).ok(201)
    together(8, lambda i: [admin.post(f"/v1/sessions/{root}/fork", {"at_seq": 0}).ok(201) for _ in range(63)])

    tree = admin.get(f"/v1/sessions/{root}/tree").ok(200)

    assert len(tree["items"]) == 500 and tree["more"] is True and tree["items"][0]["id"] == root


def test_search_and_tree_at_the_command_line(admin, server, interlock):
    word = fresh("listed")
    root = admin.session(title=word)
    append(admin, root).ok(201)
    fork = admin.post(f"/v1/sessions/{root}/fork", {"at_seq": 0, "title": "the other way"}).ok(201)["id"]

    def cli(*words):
        done = interlock(*words, "--data-dir", server.data)
        assert done.returncode == 0, done
        return done.stdout

    assert root in cli("sessions", "ls", "--search", word) and fork not in cli("sessions", "ls", "--search", word)
    lines = cli("sessions", "tree", fork).splitlines()
    assert lines[0].startswith(root) and lines[1].startswith(f"  {fork}") and "<-" in lines[1]
    assert "its own from 1" in lines[1] and "the other way" in lines[1]
    assert json.loads(cli("sessions", "tree", root, "--json"))["root"] == root
    assert cli("sessions", "tree", root, "--quiet").split() == [root, fork]
