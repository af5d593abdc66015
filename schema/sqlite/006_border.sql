-- A hold says who opened it and which cost event settled it. Holds that were open when the server stopped and look like
-- those of the gateway are the gateway's.
alter table holds add column opened_by text not null default 'key'
    check (opened_by = 'key' or opened_by = 'gateway' or opened_by = 'run');
alter table holds add column event blob check (length(event) = 16);
update holds set opened_by = 'run' where for_run = 1;
update holds set opened_by = 'gateway'
where for_run = 0 and state = 'open' and dispatched = 1 and provider <> '' and model <> '' and bound_calls = 1;
alter table holds drop column for_run;

-- A correction is a cost event below 0 that refers to the first one. The rows stay as they are, so nothing but the text
-- of the tables is written.
alter table ledger_details add column corrects blob check (length(corrects) = 16);
alter table ledger_details add column why text not null default '';

pragma writable_schema = on;
update sqlite_schema set sql = replace(replace(replace(sql,
    ' check (cost >= 0)', ''), ' check (input_tokens >= 0)', ''), ' check (output_tokens >= 0)', '')
where type = 'table' and name = 'ledger';
update sqlite_schema set sql = replace(replace(replace(replace(replace(sql,
    ' check (cache_read_tokens >= 0)', ''), ' check (cache_write_5m_tokens >= 0)', ''),
    ' check (cache_write_1h_tokens >= 0)', ''), ' check (reasoning_tokens >= 0)', ''), ' check (calls >= 0)', '')
where type = 'table' and name = 'ledger_details';
pragma writable_schema = reset;

drop view cost_events;
create view cost_events as
select ledger.org as org, ledger.key as key, fingerprint, seq, at, counted_at, agent, coalesce(workflow, '') as workflow,
       provider, model, coalesce(api_key, '') as api_key, run, session, coalesce(tags, '{}') as tags, cost, input_tokens,
       output_tokens, coalesce(cache_read_tokens, 0) as cache_read_tokens,
       coalesce(cache_write_5m_tokens, 0) as cache_write_5m_tokens,
       coalesce(cache_write_1h_tokens, 0) as cache_write_1h_tokens, coalesce(reasoning_tokens, 0) as reasoning_tokens,
       coalesce(calls, 1) as calls, coalesce(price, '') as price, hold, coalesce(overage, 0) as overage,
       coalesce(over_limit, 0) as over_limit, coalesce(estimated, 0) as estimated, coalesce(unpriced, 0) as unpriced,
       corrects, coalesce(why, '') as why
from ledger left join ledger_details on ledger_details.org = ledger.org and ledger_details.key = ledger.key;

-- What corrected events come to.
create table corrected_costs (
    org integer not null,
    event blob not null check (length(event) = 16),
    cost integer not null check (cost >= 0),
    primary key (org, event)
) strict, without rowid;

-- Idempotency keys belong to the agent whose API key sent them. What an older version stored is under the bare text of
-- the key. For 30 days a retry is looked up there too. An org that is made later has no such rows.
alter table orgs add column former_keys_until integer not null default 0;
update orgs set former_keys_until = (cast(strftime('%s', 'now') as integer) + 30 * 86400) * 1000000;

-- What each commit wrote, as keyed digests of its rows in a chain. A commit with events has its seal in its feed page.
alter table feed_pages add column seal_number integer not null default 0 check (seal_number >= 0);
alter table feed_pages add column seal_key blob not null default x'';
alter table feed_pages add column digests blob not null default x'';
alter table feed_pages add column seal_hash blob not null default x'';

create table seals (
    org integer not null,
    number integer not null check (number > 0),
    at integer not null,
    key_id blob not null check (length(key_id) = 8),
    digests blob not null,
    hash blob not null check (length(hash) = 32),
    primary key (org, number),
    foreign key (org) references orgs deferrable initially deferred
) strict;
