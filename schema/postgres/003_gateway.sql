-- What is set for the gateway, and the calls that went through it.

alter table agents add column capture text collate "C" not null default 'usage' check (capture in ('off', 'usage', 'full'));

create table settings (
    org bigint not null,
    kind text collate "C" not null check (kind <> ''),
    name text collate "C" not null check (name <> ''),
    document text collate "C" not null,
    version bigint not null check (version > 0),
    changed_at bigint not null,
    dropped bigint not null check (dropped between 0 and 1),
    primary key (org, kind, name),
    foreign key (org) references orgs deferrable initially deferred
);

-- A log that grows with every call: its ids rise with time, and it has one index beside its key, for a run's own calls.
create table model_calls (
    org bigint not null,
    id bytea not null check (length(id) = 16),
    at bigint not null,
    agent text collate "C" not null,
    workflow text collate "C" not null,
    provider text collate "C" not null,
    model text collate "C" not null,
    api_key text collate "C" not null,
    run bytea check (length(run) = 16),
    session bytea check (length(session) = 16),
    tags text collate "C" not null,
    operation text collate "C" not null,
    upstream text collate "C" not null,
    status bigint not null,
    refusal text collate "C" not null,
    attempts bigint not null check (attempts >= 0),
    hold bytea check (length(hold) = 16),
    bound bigint not null check (bound >= 0),
    cost bigint not null check (cost >= 0),
    input_tokens bigint not null check (input_tokens >= 0),
    output_tokens bigint not null check (output_tokens >= 0),
    cache_read_tokens bigint not null check (cache_read_tokens >= 0),
    cache_write_5m_tokens bigint not null check (cache_write_5m_tokens >= 0),
    cache_write_1h_tokens bigint not null check (cache_write_1h_tokens >= 0),
    reasoning_tokens bigint not null check (reasoning_tokens >= 0),
    price text collate "C" not null,
    estimated bigint not null check (estimated between 0 and 1),
    unpriced bigint not null check (unpriced between 0 and 1),
    streamed bigint not null check (streamed between 0 and 1),
    cached bigint not null check (cached between 0 and 1),
    first_byte_us bigint not null check (first_byte_us >= 0),
    duration_us bigint not null check (duration_us >= 0),
    detail text collate "C" not null,
    primary key (org, id)
);

create index calls_of_run on model_calls (org, run, id) where run is not null;
