-- Runs that a program of a run has started: its parent, and the first run above. `settled_below` is what the runs below
-- a run have settled.
alter table runs add column parent blob check (length(parent) = 16);
alter table runs add column root blob check (length(root) = 16);
alter table runs add column settled_below integer not null default 0;
create index runs_by_parent on runs (org, parent, id) where parent is not null;
alter table agents add column child_agents text not null default '[]';

-- The claim of a run covers the runs below it, so that a place may be claimed once below each parent.
alter table claims add column parent blob check (length(parent) = 16);
drop index one_writer_per_place;
create unique index one_writer_per_place on claims (org, kind, host, path, coalesce(parent, x'')) where mode = 'write';
