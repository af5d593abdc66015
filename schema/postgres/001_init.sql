-- The tables: one per kind of row, one column per described member of that row (src/core/rows.h), in the same order.
-- Cost events alone are two tables, behind a view that is like the others.
--
-- What the rules refuse, the tables refuse too: a mistake in the rules becomes an error, not a wrong number. Every key
-- begins with the org. Ids are 16 bytes, instants are microseconds since 1970, money is nano-dollars, enumerations are
-- the enumerators' names, lists and maps are JSON. An id that is not stated is null.
--
-- Text is compared byte by byte (collate "C"): names sort alike on every machine, and no index depends on the locale of
-- the system below. A few small tables are rewritten by nearly every commit; they leave room in their pages, so that
-- a new version of a row stands beside the old one and no index has to follow.

create table orgs (
    org bigint primary key check (org between 0 and 4294967295),
    name text collate "C" not null,
    created_at bigint not null,
    last_fence bigint not null check (last_fence >= 0),
    last_ticket bigint not null check (last_ticket >= 0)
);

create table agents (
    org bigint not null,
    name text collate "C" not null check (name <> ''),
    command text collate "C" not null,
    max_concurrent_runs bigint not null check (max_concurrent_runs >= 0),
    tags text collate "C" not null,
    pauses text collate "C" not null,
    created_at bigint not null,
    archived bigint not null check (archived between 0 and 1),
    primary key (org, name),
    foreign key (org) references orgs deferrable initially deferred
);

create table agent_totals (
    org bigint not null,
    agent text collate "C" not null,
    settled bigint not null check (settled >= 0),
    tokens bigint not null check (tokens >= 0),
    events bigint not null check (events >= 0),
    last_event_at bigint not null,
    primary key (org, agent),
    foreign key (org, agent) references agents deferrable initially deferred
) with (fillfactor = 75);

create table api_keys (
    org bigint not null,
    id text collate "C" not null check (id <> ''),
    hash text collate "C" not null,
    scopes text collate "C" not null,
    agent text collate "C" not null,
    run bytea check (length(run) = 16),
    budget text collate "C" not null,
    note text collate "C" not null,
    created_at bigint not null,
    revoked_at bigint not null,
    primary key (org, id),
    foreign key (org) references orgs deferrable initially deferred
);

create table caps (
    org bigint not null,
    kind text collate "C" not null check (kind in ('org', 'provider', 'node')),
    name text collate "C" not null check ((kind = 'org') = (name = '')),
    max_live bigint not null check (max_live >= 0),
    primary key (org, kind, name),
    foreign key (org) references orgs deferrable initially deferred
);

create table budgets (
    org bigint not null,
    name text collate "C" not null check (name <> ''),
    scope text collate "C" not null,
    metric text collate "C" not null check (metric in ('usd', 'tokens', 'calls', 'runs')),
    "window" text collate "C" not null check ("window" in ('day', 'week', 'month', 'total')),
    zone text collate "C" not null check (zone <> ''),
    limit_units bigint not null check (limit_units >= 0),
    hard bigint not null check (hard between 0 and 1),
    warn text collate "C" not null,
    on_exhausted text collate "C" not null check (on_exhausted in ('refuse', 'pause_agent', 'stop_runs')),
    created_at bigint not null,
    deleted bigint not null check (deleted between 0 and 1),
    frozen text collate "C" not null,
    primary key (org, name),
    foreign key (org) references orgs deferrable initially deferred
);

create table budget_windows (
    org bigint not null,
    budget text collate "C" not null,
    start_at bigint not null,
    end_at bigint not null,
    limit_units bigint not null check (limit_units >= 0),
    hard bigint not null check (hard between 0 and 1),
    settled bigint not null check (settled >= 0),
    held bigint not null check (held >= 0),
    grace bigint not null check (grace >= 0),
    warned bigint not null check (warned >= 0),
    exhausted bigint not null check (exhausted between 0 and 1),
    primary key (org, budget, start_at),
    check (start_at < end_at),
    foreign key (org, budget) references budgets deferrable initially deferred
) with (fillfactor = 75);

create table sessions (
    org bigint not null,
    id bytea not null check (length(id) = 16),
    agent text collate "C" not null,
    title text collate "C" not null,
    metadata text collate "C" not null,
    created_at bigint not null,
    parent bytea check (length(parent) = 16),
    first_seq bigint not null check (first_seq >= 0),
    next_seq bigint not null,
    closed bigint not null check (closed between 0 and 1),
    input_tokens bigint not null check (input_tokens >= 0),
    output_tokens bigint not null check (output_tokens >= 0),
    settled bigint not null check (settled >= 0),
    events bigint not null check (events >= 0),
    primary key (org, id),
    check (next_seq >= first_seq),
    -- Only a fork begins behind 0, and a fork shares at least one message.
    check ((parent is null) = (first_seq = 0)),
    foreign key (org, parent) references sessions deferrable initially deferred
) with (fillfactor = 75);

create table messages (
    org bigint not null,
    session bytea not null check (length(session) = 16),
    seq bigint not null check (seq >= 0),
    id bytea check (length(id) = 16),
    role text collate "C" not null check (role in ('user', 'assistant', 'system', 'tool')),
    content text collate "C" not null,
    metadata text collate "C" not null,
    at bigint not null,
    input_tokens bigint not null check (input_tokens >= 0),
    output_tokens bigint not null check (output_tokens >= 0),
    run bytea check (length(run) = 16),
    primary key (org, session, seq),
    foreign key (org, session) references sessions deferrable initially deferred
);

create table runs (
    org bigint not null,
    id bytea not null check (length(id) = 16),
    agent text collate "C" not null,
    workflow text collate "C" not null,
    provider text collate "C" not null,
    model text collate "C" not null,
    api_key text collate "C" not null,
    run bytea check (run = id),
    session bytea check (length(session) = 16),
    tags text collate "C" not null,
    node text collate "C" not null,
    state text collate "C" not null check (state in ('queued', 'starting', 'running', 'paused', 'succeeded', 'failed', 'cancelled',
                                         'timed_out', 'lost')),
    priority bigint not null,
    ticket bigint not null,
    fence bigint not null check (fence >= 0),
    wanted text collate "C" not null,
    hold_bound_usd bigint not null check (hold_bound_usd >= 0),
    hold_bound_tokens bigint not null check (hold_bound_tokens >= 0),
    hold_bound_calls bigint not null check (hold_bound_calls >= 0),
    hold_bound_runs bigint not null check (hold_bound_runs >= 0),
    hold bytea check (length(hold) = 16),
    metered bigint not null check (metered between 0 and 1),
    isolated bigint not null check (isolated between 0 and 1),
    stop_requested text collate "C" not null,
    lease_s bigint not null check (lease_s >= 0),
    created_at bigint not null,
    queued_until bigint not null,
    admitted_at bigint not null,
    lease_until bigint not null,
    started_at bigint not null,
    ended_at bigint not null,
    reason text collate "C" not null,
    schedule text collate "C" not null,
    settled bigint not null check (settled >= 0),
    tokens bigint not null check (tokens >= 0),
    events bigint not null check (events >= 0),
    unknown bigint not null check (unknown >= 0),
    primary key (org, id),
    -- A queued run holds nothing, a live one has been admitted.
    check (state <> 'queued' or fence = 0),
    check (state not in ('starting', 'running', 'paused') or fence > 0),
    check (unknown <= settled),
    foreign key (org, agent) references agents deferrable initially deferred
);

-- What is needed in memory at open, without reading all of history.
create index unfinished_runs on runs (org, id) where state in ('queued', 'starting', 'running', 'paused');

create table claims (
    org bigint not null,
    run bytea not null,
    number bigint not null check (number >= 0),
    kind text collate "C" not null check (kind in ('workspace', 'resource')),
    host text collate "C" not null,
    path text collate "C" not null check (path <> ''),
    chain text collate "C" not null,
    mode text collate "C" not null check (mode in ('read', 'write')),
    fence bigint not null check (fence > 0),
    primary key (org, run, number),
    foreign key (org, run) references runs deferrable initially deferred
);

-- A path may be longer than what an index takes, so it stands there as 128 bits of hash.
create unique index one_writer_per_place
    on claims (org, kind, host, hashtextextended(path, 0), hashtextextended(path, 1)) where mode = 'write';

create table holds (
    org bigint not null,
    id bytea not null check (length(id) = 16),
    agent text collate "C",  -- Null when not stated, so that a stated one is an agent.
    workflow text collate "C" not null,
    provider text collate "C" not null,
    model text collate "C" not null,
    api_key text collate "C" not null,
    run bytea check (length(run) = 16),
    session bytea check (length(session) = 16),
    tags text collate "C" not null,
    bound_usd bigint not null check (bound_usd >= 0),
    bound_tokens bigint not null check (bound_tokens >= 0),
    bound_calls bigint not null check (bound_calls >= 0),
    bound_runs bigint not null check (bound_runs >= 0),
    drawn_usd bigint not null check (drawn_usd >= 0),
    drawn_tokens bigint not null check (drawn_tokens >= 0),
    drawn_calls bigint not null check (drawn_calls >= 0),
    drawn_runs bigint not null check (drawn_runs >= 0),
    parts text collate "C" not null,
    dispatched bigint not null check (dispatched between 0 and 1),
    for_run bigint not null check (for_run between 0 and 1),
    state text collate "C" not null check (state in ('open', 'settled', 'released')),
    created_at bigint not null,
    expires_at bigint not null,
    closed_at bigint not null,
    primary key (org, id),
    foreign key (org, agent) references agents deferrable initially deferred
);

create index open_holds on holds (org, id) where state = 'open';

-- What is held where, for people and for checks.
create view hold_parts as
select holds.org as org, holds.id as hold, (part.value ->> 'budget') collate "C" as budget,
       (part.value ->> 'window')::bigint as window_start, (part.value ->> 'amount')::bigint as amount
from holds cross join lateral json_array_elements(holds.parts::json) as part(value)
where holds.state = 'open';

-- Cost events, as they are stored: what nearly every one states. Nothing is written more often, and each column costs
-- its share of every charge, so what most events leave at its default is a row of its own, where there is one. Neither
-- has an index but its key, and there is no foreign key to the agent: looking the agent up costs a fifth of an insert,
-- and the rules have looked it up already (docs/adr/0003, docs/adr/0008).
create table ledger (
    org bigint not null,
    key bytea not null check (length(key) = 16),
    fingerprint bigint not null,
    seq bigint not null check (seq > 0),
    at bigint not null,
    counted_at bigint not null,
    agent text collate "C" not null,
    provider text collate "C" not null,
    model text collate "C" not null,
    run bytea,
    session bytea,
    cost bigint not null check (cost >= 0),
    input_tokens bigint not null check (input_tokens >= 0),
    output_tokens bigint not null check (output_tokens >= 0),
    hold bytea,
    primary key (org, key)
);

create table ledger_details (
    org bigint not null,
    key bytea not null,
    workflow text collate "C" not null,
    api_key text collate "C" not null,
    tags text collate "C" not null,
    cache_read_tokens bigint not null check (cache_read_tokens >= 0),
    cache_write_5m_tokens bigint not null check (cache_write_5m_tokens >= 0),
    cache_write_1h_tokens bigint not null check (cache_write_1h_tokens >= 0),
    reasoning_tokens bigint not null check (reasoning_tokens >= 0),
    calls bigint not null check (calls >= 0),
    price text collate "C" not null,
    overage bigint not null check (overage >= 0),
    over_limit bigint not null check (over_limit between 0 and 1),
    estimated bigint not null check (estimated between 0 and 1),
    unpriced bigint not null check (unpriced between 0 and 1),
    primary key (org, key),
    foreign key (org, key) references ledger deferrable initially deferred
);

-- Cost events, whole. An event without details has the defaults of core::CostEvent.
create view cost_events as
select ledger.org as org, ledger.key as key, fingerprint, seq, at, counted_at, agent, coalesce(workflow, '') as workflow,
       provider, model, coalesce(api_key, '') as api_key, run, session, coalesce(tags, '{}') as tags, cost, input_tokens,
       output_tokens, coalesce(cache_read_tokens, 0) as cache_read_tokens,
       coalesce(cache_write_5m_tokens, 0) as cache_write_5m_tokens,
       coalesce(cache_write_1h_tokens, 0) as cache_write_1h_tokens, coalesce(reasoning_tokens, 0) as reasoning_tokens,
       coalesce(calls, 1) as calls, coalesce(price, '') as price, hold, coalesce(overage, 0) as overage,
       coalesce(over_limit, 0) as over_limit, coalesce(estimated, 0) as estimated, coalesce(unpriced, 0) as unpriced
from ledger left join ledger_details on ledger_details.org = ledger.org and ledger_details.key = ledger.key;

create table rollups (
    org bigint not null,
    day bigint not null,
    agent text collate "C" not null,
    provider text collate "C" not null,
    model text collate "C" not null,
    cost bigint not null check (cost >= 0),
    events bigint not null check (events >= 0),
    calls bigint not null check (calls >= 0),
    input_tokens bigint not null check (input_tokens >= 0),
    output_tokens bigint not null check (output_tokens >= 0),
    cache_read_tokens bigint not null check (cache_read_tokens >= 0),
    cache_write_5m_tokens bigint not null check (cache_write_5m_tokens >= 0),
    cache_write_1h_tokens bigint not null check (cache_write_1h_tokens >= 0),
    reasoning_tokens bigint not null check (reasoning_tokens >= 0),
    primary key (org, day, agent, provider, model)
) with (fillfactor = 75);

create table schedules (
    org bigint not null,
    name text collate "C" not null check (name <> ''),
    agent text collate "C" not null,
    every_s bigint not null check (every_s >= 0),
    cron text collate "C" not null,
    zone text collate "C" not null check (zone <> ''),
    jitter_s bigint not null check (jitter_s >= 0),
    overlap text collate "C" not null check (overlap in ('skip', 'queue', 'replace', 'allow')),
    missed text collate "C" not null check (missed in ('skip', 'one', 'all')),
    missed_max bigint not null check (missed_max >= 0),
    places text collate "C" not null,
    lease_s bigint not null check (lease_s >= 0),
    priority bigint not null,
    hold_bound_usd bigint not null check (hold_bound_usd >= 0),
    hold_bound_tokens bigint not null check (hold_bound_tokens >= 0),
    hold_bound_calls bigint not null check (hold_bound_calls >= 0),
    hold_bound_runs bigint not null check (hold_bound_runs >= 0),
    enabled bigint not null check (enabled between 0 and 1),
    deleted bigint not null check (deleted between 0 and 1),
    created_at bigint not null,
    next_at bigint not null,
    last_fired_at bigint not null,
    fired bigint not null check (fired >= 0),
    skipped bigint not null check (skipped >= 0),
    coalesced bigint not null check (coalesced >= 0),
    primary key (org, name),
    check ((every_s > 0) <> (cron <> '')),
    foreign key (org, agent) references agents deferrable initially deferred
);

create table answers (
    org bigint not null,
    key bytea not null check (length(key) = 16),
    fingerprint bigint not null,
    at bigint not null,
    reply bytea not null,
    primary key (org, key)
);

create table feed_pages (
    org bigint not null,
    last_seq bigint not null,
    first_seq bigint not null check (first_seq > 0),
    at bigint not null,
    body bytea not null,
    hash bytea not null check (length(hash) = 32),
    primary key (org, last_seq),
    check (first_seq <= last_seq),
    foreign key (org) references orgs deferrable initially deferred
);

-- What is packed tightly already is not worth the time to compress it.
alter table feed_pages alter body set storage external;
alter table answers alter reply set storage external;

-- ---- several nodes -------------------------------------------------------------------------------------------------

-- Who writes an org. Every commit locks its org's row and looks whether the epoch is still its own. A row may be there
-- before its org is.
create table lanes (
    org bigint primary key check (org between 0 and 4294967295),
    epoch bigint not null check (epoch >= 0),
    node bytea check (length(node) = 16),
    boot bytea check (length(boot) = 16),  -- Null: free.
    taken_at bigint not null
) with (fillfactor = 75);

-- One for each start of a node.
create table nodes (
    id bytea not null check (length(id) = 16),
    boot bytea primary key check (length(boot) = 16),
    name text collate "C" not null,
    url text collate "C" not null,
    version text collate "C" not null,
    started_at bigint not null,
    seen_at bigint not null,
    lease_until bigint not null
) with (fillfactor = 75);

-- What all nodes agree on.
create table facts (
    name text collate "C" primary key,
    value text collate "C" not null
);
