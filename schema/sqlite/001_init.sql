-- The tables: one per kind of row, one column per described member of that row (src/core/rows.h), in the same order.
-- Cost events alone are two tables, behind a view that is like the others.
--
-- What the rules refuse, the tables refuse too: a mistake in the rules becomes an error, not a wrong number. Every key
-- begins with the org. Ids are 16 bytes, instants are microseconds since 1970, money is nano-dollars, enumerations are
-- the enumerators' names, lists and maps are JSON. An id that is not stated is null.
--
-- Tables are clustered by their key (without rowid) where rows are small. Messages and feed pages are large: they are
-- appended to a rowid table, and the tree that finds them holds keys alone.

create table orgs (
    org integer primary key check (org between 0 and 4294967295),
    name text not null,
    created_at integer not null,
    last_fence integer not null check (last_fence >= 0),
    last_ticket integer not null check (last_ticket >= 0)
) strict;

create table agents (
    org integer not null,
    name text not null check (name <> ''),
    command text not null,
    max_concurrent_runs integer not null check (max_concurrent_runs >= 0),
    tags text not null,
    pauses text not null,
    created_at integer not null,
    archived integer not null check (archived between 0 and 1),
    primary key (org, name),
    foreign key (org) references orgs deferrable initially deferred
) strict, without rowid;

create table agent_totals (
    org integer not null,
    agent text not null,
    settled integer not null check (settled >= 0),
    tokens integer not null check (tokens >= 0),
    events integer not null check (events >= 0),
    last_event_at integer not null,
    primary key (org, agent),
    foreign key (org, agent) references agents deferrable initially deferred
) strict, without rowid;

create table api_keys (
    org integer not null,
    id text not null check (id <> ''),
    hash text not null,
    scopes text not null,
    agent text not null,
    run blob check (length(run) = 16),
    budget text not null,
    note text not null,
    created_at integer not null,
    revoked_at integer not null,
    primary key (org, id),
    foreign key (org) references orgs deferrable initially deferred
) strict, without rowid;

create table caps (
    org integer not null,
    kind text not null check (kind in ('org', 'provider', 'node')),
    name text not null check ((kind = 'org') = (name = '')),
    max_live integer not null check (max_live >= 0),
    primary key (org, kind, name),
    foreign key (org) references orgs deferrable initially deferred
) strict, without rowid;

create table budgets (
    org integer not null,
    name text not null check (name <> ''),
    scope text not null,
    metric text not null check (metric in ('usd', 'tokens', 'calls', 'runs')),
    window text not null check (window in ('day', 'week', 'month', 'total')),
    zone text not null check (zone <> ''),
    limit_units integer not null check (limit_units >= 0),
    hard integer not null check (hard between 0 and 1),
    warn text not null,
    on_exhausted text not null check (on_exhausted in ('refuse', 'pause_agent', 'stop_runs')),
    created_at integer not null,
    deleted integer not null check (deleted between 0 and 1),
    frozen text not null,
    primary key (org, name),
    foreign key (org) references orgs deferrable initially deferred
) strict, without rowid;

create table budget_windows (
    org integer not null,
    budget text not null,
    start_at integer not null,
    end_at integer not null,
    limit_units integer not null check (limit_units >= 0),
    hard integer not null check (hard between 0 and 1),
    settled integer not null check (settled >= 0),
    held integer not null check (held >= 0),
    grace integer not null check (grace >= 0),
    warned integer not null check (warned >= 0),
    exhausted integer not null check (exhausted between 0 and 1),
    primary key (org, budget, start_at),
    check (start_at < end_at),
    foreign key (org, budget) references budgets deferrable initially deferred
) strict, without rowid;

create table sessions (
    org integer not null,
    id blob not null check (length(id) = 16),
    agent text not null,
    title text not null,
    metadata text not null,
    created_at integer not null,
    parent blob check (length(parent) = 16),
    first_seq integer not null check (first_seq >= 0),
    next_seq integer not null,
    closed integer not null check (closed between 0 and 1),
    input_tokens integer not null check (input_tokens >= 0),
    output_tokens integer not null check (output_tokens >= 0),
    settled integer not null check (settled >= 0),
    events integer not null check (events >= 0),
    primary key (org, id),
    check (next_seq >= first_seq),
    -- Only a fork begins behind 0, and a fork shares at least one message.
    check ((parent is null) = (first_seq = 0)),
    foreign key (org, parent) references sessions deferrable initially deferred
) strict, without rowid;

create table messages (
    org integer not null,
    session blob not null check (length(session) = 16),
    seq integer not null check (seq >= 0),
    id blob check (length(id) = 16),
    role text not null check (role in ('user', 'assistant', 'system', 'tool')),
    content text not null,
    metadata text not null,
    at integer not null,
    input_tokens integer not null check (input_tokens >= 0),
    output_tokens integer not null check (output_tokens >= 0),
    run blob check (length(run) = 16),
    unique (org, session, seq),
    foreign key (org, session) references sessions deferrable initially deferred
) strict;

create table runs (
    org integer not null,
    id blob not null check (length(id) = 16),
    agent text not null,
    workflow text not null,
    provider text not null,
    model text not null,
    api_key text not null,
    run blob check (run = id),
    session blob check (length(session) = 16),
    tags text not null,
    node text not null,
    state text not null check (state in ('queued', 'starting', 'running', 'paused', 'succeeded', 'failed', 'cancelled',
                                         'timed_out', 'lost')),
    priority integer not null,
    ticket integer not null,
    fence integer not null check (fence >= 0),
    wanted text not null,
    hold_bound_usd integer not null check (hold_bound_usd >= 0),
    hold_bound_tokens integer not null check (hold_bound_tokens >= 0),
    hold_bound_calls integer not null check (hold_bound_calls >= 0),
    hold_bound_runs integer not null check (hold_bound_runs >= 0),
    hold blob check (length(hold) = 16),
    metered integer not null check (metered between 0 and 1),
    isolated integer not null check (isolated between 0 and 1),
    stop_requested text not null,
    lease_s integer not null check (lease_s >= 0),
    created_at integer not null,
    queued_until integer not null,
    admitted_at integer not null,
    lease_until integer not null,
    started_at integer not null,
    ended_at integer not null,
    reason text not null,
    schedule text not null,
    settled integer not null check (settled >= 0),
    tokens integer not null check (tokens >= 0),
    events integer not null check (events >= 0),
    unknown integer not null check (unknown >= 0),
    primary key (org, id),
    -- A queued run holds nothing, a live one has been admitted.
    check (state <> 'queued' or fence = 0),
    check (state not in ('starting', 'running', 'paused') or fence > 0),
    check (unknown <= settled),
    foreign key (org, agent) references agents deferrable initially deferred
) strict, without rowid;

-- What is needed in memory at open, without reading all of history.
create index unfinished_runs on runs (org, id) where state in ('queued', 'starting', 'running', 'paused');

create table claims (
    org integer not null,
    run blob not null,
    number integer not null check (number >= 0),
    kind text not null check (kind in ('workspace', 'resource')),
    host text not null,
    path text not null check (path <> ''),
    chain text not null,
    mode text not null check (mode in ('read', 'write')),
    fence integer not null check (fence > 0),
    primary key (org, run, number),
    foreign key (org, run) references runs deferrable initially deferred
) strict, without rowid;

create unique index one_writer_per_place on claims (org, kind, host, path) where mode = 'write';

create table holds (
    org integer not null,
    id blob not null check (length(id) = 16),
    agent text,  -- Null when not stated, so that a stated one is an agent.
    workflow text not null,
    provider text not null,
    model text not null,
    api_key text not null,
    run blob check (length(run) = 16),
    session blob check (length(session) = 16),
    tags text not null,
    bound_usd integer not null check (bound_usd >= 0),
    bound_tokens integer not null check (bound_tokens >= 0),
    bound_calls integer not null check (bound_calls >= 0),
    bound_runs integer not null check (bound_runs >= 0),
    drawn_usd integer not null check (drawn_usd >= 0),
    drawn_tokens integer not null check (drawn_tokens >= 0),
    drawn_calls integer not null check (drawn_calls >= 0),
    drawn_runs integer not null check (drawn_runs >= 0),
    parts text not null,
    dispatched integer not null check (dispatched between 0 and 1),
    for_run integer not null check (for_run between 0 and 1),
    state text not null check (state in ('open', 'settled', 'released')),
    created_at integer not null,
    expires_at integer not null,
    closed_at integer not null,
    primary key (org, id),
    foreign key (org, agent) references agents deferrable initially deferred
) strict, without rowid;

create index open_holds on holds (org, id) where state = 'open';

-- What is held where, for people and for checks.
create view hold_parts as
select holds.org as org, holds.id as hold, json_extract(part.value, '$.budget') as budget,
       json_extract(part.value, '$.window') as window_start, json_extract(part.value, '$.amount') as amount
from holds, json_each(holds.parts) as part
where holds.state = 'open';

-- Cost events, as they are stored: what nearly every one states. Nothing is written more often, and each column costs
-- its share of every charge, so what most events leave at its default is a row of its own, where there is one. Neither
-- has an index but its key, and there is no foreign key to the agent: looking the agent up costs a fifth of an insert,
-- and the rules have looked it up already (docs/adr/0003, docs/adr/0008).
create table ledger (
    org integer not null,
    key blob not null check (length(key) = 16),
    fingerprint integer not null,
    seq integer not null check (seq > 0),
    at integer not null,
    counted_at integer not null,
    agent text not null,
    provider text not null,
    model text not null,
    run blob,
    session blob,
    cost integer not null check (cost >= 0),
    input_tokens integer not null check (input_tokens >= 0),
    output_tokens integer not null check (output_tokens >= 0),
    hold blob,
    primary key (org, key)
) strict, without rowid;

create table ledger_details (
    org integer not null,
    key blob not null,
    workflow text not null,
    api_key text not null,
    tags text not null,
    cache_read_tokens integer not null check (cache_read_tokens >= 0),
    cache_write_5m_tokens integer not null check (cache_write_5m_tokens >= 0),
    cache_write_1h_tokens integer not null check (cache_write_1h_tokens >= 0),
    reasoning_tokens integer not null check (reasoning_tokens >= 0),
    calls integer not null check (calls >= 0),
    price text not null,
    overage integer not null check (overage >= 0),
    over_limit integer not null check (over_limit between 0 and 1),
    estimated integer not null check (estimated between 0 and 1),
    unpriced integer not null check (unpriced between 0 and 1),
    primary key (org, key),
    foreign key (org, key) references ledger deferrable initially deferred
) strict, without rowid;

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
    org integer not null,
    day integer not null,
    agent text not null,
    provider text not null,
    model text not null,
    cost integer not null check (cost >= 0),
    events integer not null check (events >= 0),
    calls integer not null check (calls >= 0),
    input_tokens integer not null check (input_tokens >= 0),
    output_tokens integer not null check (output_tokens >= 0),
    cache_read_tokens integer not null check (cache_read_tokens >= 0),
    cache_write_5m_tokens integer not null check (cache_write_5m_tokens >= 0),
    cache_write_1h_tokens integer not null check (cache_write_1h_tokens >= 0),
    reasoning_tokens integer not null check (reasoning_tokens >= 0),
    primary key (org, day, agent, provider, model)
) strict, without rowid;

create table schedules (
    org integer not null,
    name text not null check (name <> ''),
    agent text not null,
    every_s integer not null check (every_s >= 0),
    cron text not null,
    zone text not null check (zone <> ''),
    jitter_s integer not null check (jitter_s >= 0),
    overlap text not null check (overlap in ('skip', 'queue', 'replace', 'allow')),
    missed text not null check (missed in ('skip', 'one', 'all')),
    missed_max integer not null check (missed_max >= 0),
    places text not null,
    lease_s integer not null check (lease_s >= 0),
    priority integer not null,
    hold_bound_usd integer not null check (hold_bound_usd >= 0),
    hold_bound_tokens integer not null check (hold_bound_tokens >= 0),
    hold_bound_calls integer not null check (hold_bound_calls >= 0),
    hold_bound_runs integer not null check (hold_bound_runs >= 0),
    enabled integer not null check (enabled between 0 and 1),
    deleted integer not null check (deleted between 0 and 1),
    created_at integer not null,
    next_at integer not null,
    last_fired_at integer not null,
    fired integer not null check (fired >= 0),
    skipped integer not null check (skipped >= 0),
    coalesced integer not null check (coalesced >= 0),
    primary key (org, name),
    check ((every_s > 0) <> (cron <> '')),
    foreign key (org, agent) references agents deferrable initially deferred
) strict, without rowid;

create table answers (
    org integer not null,
    key blob not null check (length(key) = 16),
    fingerprint integer not null,
    at integer not null,
    reply blob not null,
    primary key (org, key)
) strict, without rowid;

create table feed_pages (
    org integer not null,
    last_seq integer not null,
    first_seq integer not null check (first_seq > 0),
    at integer not null,
    body blob not null,
    hash blob not null check (length(hash) = 32),
    primary key (org, last_seq),
    check (first_seq <= last_seq),
    foreign key (org) references orgs deferrable initially deferred
) strict;
