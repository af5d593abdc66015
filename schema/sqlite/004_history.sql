-- What was spent when, what became of runs and of ticks: rows that are written once and answer for a line on a chart
-- what would otherwise take all cost events, or all of the feed. And indexes for the lists that people look through.

alter table orgs add column settled integer not null default 0 check (settled >= 0);
alter table orgs add column marked_at integer not null default 0;
alter table budget_windows add column marked_at integer not null default 0;
alter table runs add column steps integer not null default 0 check (steps >= 0);

-- What was settled before the first spending of a bucket of time. The org as a whole is the budget ''.
create table spend_marks (
    org integer not null,
    budget text not null,
    start_at integer not null,
    at integer not null,
    settled integer not null check (settled >= 0),
    primary key (org, budget, start_at, at),
    check (at >= start_at),
    check (budget <> '' or start_at = 0),
    foreign key (org) references orgs deferrable initially deferred
) strict, without rowid;

create table run_steps (
    org integer not null,
    run blob not null check (length(run) = 16),
    number integer not null check (number > 0),
    at integer not null,
    state text not null check (state in ('queued', 'starting', 'running', 'paused', 'succeeded', 'failed', 'cancelled',
                                         'timed_out', 'lost')),
    waits_for text not null check (waits_for in ('nothing', 'agent', 'budget', 'workspace', 'agent_cap', 'provider_cap',
                                                 'node_cap', 'org_cap', 'its_time')),
    reason text not null,
    primary key (org, run, number),
    foreign key (org, run) references runs deferrable initially deferred
) strict, without rowid;

create table ticks (
    org integer not null,
    schedule text not null check (schedule <> ''),
    number integer not null check (number > 0),
    at integer not null,
    tick integer not null,
    outcome text not null check (outcome in ('fired', 'skipped', 'coalesced')),
    run blob check (length(run) = 16),
    reason text not null,
    primary key (org, schedule, number),
    check ((outcome = 'skipped') = (run is null)),
    foreign key (org, schedule) references schedules deferrable initially deferred
) strict, without rowid;

create index ticks_by_time on ticks (org, at, schedule, number);
create index ticks_of_schedule on ticks (org, schedule, at, number);
create index runs_of_agent on runs (org, agent, id);
create index runs_by_state on runs (org, state, id);
create index runs_of_schedule on runs (org, schedule, id) where schedule <> '';
create index runs_of_name on runs (org, name, id) where name <> '';
create index forks_of_session on sessions (org, parent, id) where parent is not null;
create index sessions_of_agent on sessions (org, agent, id);
create index refused_calls on model_calls (org, id) where refusal <> '';
-- Counting what is open took the key, and with it all holds there ever were.
drop index open_holds;
create index open_holds on holds (org, state, id) where state = 'open';
create index unpriced_calls on model_calls (org, provider, model)
    where unpriced = 1 or refusal = 'unknown_model';

-- What was spent before there were marks, by the minute. The last minute goes on.
insert into spend_marks
select org, '', 0, minute, coalesce(sum(cost) over (partition by org order by minute
                                                   rows between unbounded preceding and 1 preceding), 0)
from (select org, at - at % 60000000 as minute, sum(cost) as cost from ledger where cost > 0 group by 1, 2) as minutes;
update orgs set settled = (select coalesce(sum(cost), 0) from ledger where ledger.org = orgs.org),
                marked_at = (select coalesce(max(at), 0) from spend_marks where spend_marks.org = orgs.org);
