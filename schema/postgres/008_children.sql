-- Runs that a program of a run has started: its parent, and the first run above. `settled_below` is what the runs below
-- a run have settled.
alter table runs add column parent bytea check (length(parent) = 16);
alter table runs add column root bytea check (length(root) = 16);
alter table runs add column settled_below bigint not null default 0;
create index runs_by_parent on runs (org, parent, id) where parent is not null;
alter table agents add column child_agents text collate "C" not null default '[]';

-- The claim of a run covers the runs below it, so that a place may be claimed once below each parent.
alter table claims add column parent bytea check (length(parent) = 16);
drop index one_writer_per_place;
create unique index one_writer_per_place
    on claims (org, kind, host, hashtextextended(path, 0), hashtextextended(path, 1), coalesce(parent, ''::bytea))
    where mode = 'write';
