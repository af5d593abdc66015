-- What is set for the gateway, and the calls that went through it.

alter table agents add column capture text not null default 'usage' check (capture in ('off', 'usage', 'full'));

create table settings (
    org integer not null,
    kind text not null check (kind <> ''),
    name text not null check (name <> ''),
    document text not null,
    version integer not null check (version > 0),
    changed_at integer not null,
    dropped integer not null check (dropped between 0 and 1),
    primary key (org, kind, name),
    foreign key (org) references orgs deferrable initially deferred
) strict, without rowid;

-- A log that grows with every call: its ids rise with time, and it has one index beside its key, for a run's own calls.
create table model_calls (
    org integer not null,
    id blob not null check (length(id) = 16),
    at integer not null,
    agent text not null,
    workflow text not null,
    provider text not null,
    model text not null,
    api_key text not null,
    run blob check (length(run) = 16),
    session blob check (length(session) = 16),
    tags text not null,
    operation text not null,
    upstream text not null,
    status integer not null,
    refusal text not null,
    attempts integer not null check (attempts >= 0),
    hold blob check (length(hold) = 16),
    bound integer not null check (bound >= 0),
    cost integer not null check (cost >= 0),
    input_tokens integer not null check (input_tokens >= 0),
    output_tokens integer not null check (output_tokens >= 0),
    cache_read_tokens integer not null check (cache_read_tokens >= 0),
    cache_write_5m_tokens integer not null check (cache_write_5m_tokens >= 0),
    cache_write_1h_tokens integer not null check (cache_write_1h_tokens >= 0),
    reasoning_tokens integer not null check (reasoning_tokens >= 0),
    price text not null,
    estimated integer not null check (estimated between 0 and 1),
    unpriced integer not null check (unpriced between 0 and 1),
    streamed integer not null check (streamed between 0 and 1),
    cached integer not null check (cached between 0 and 1),
    first_byte_us integer not null check (first_byte_us >= 0),
    duration_us integer not null check (duration_us >= 0),
    detail text not null,
    primary key (org, id)
) strict, without rowid;

create index calls_of_run on model_calls (org, run, id) where run is not null;
