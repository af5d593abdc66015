-- What agents start and how, what became of it, and the worktrees that were made for it.

alter table agents add column process text not null default '{}';
alter table agents add column retry text not null default '{}';
alter table agents add column workplace text not null default '{}';
alter table agents add column provider text not null default '';

alter table runs add column name text not null default '';
alter table runs add column supervised integer not null default 0 check (supervised between 0 and 1);
alter table runs add column ceiling integer not null default 0 check (ceiling >= 0);
alter table runs add column attempt integer not null default 1 check (attempt >= 1);
alter table runs add column retry_of blob check (length(retry_of) = 16);
alter table runs add column not_before integer not null default 0;
alter table runs add column exit_code integer not null default -1 check (exit_code between -1 and 255);

alter table schedules add column node text not null default '';
alter table schedules add column worktrees text not null default '[]';

create table launches (
    org integer not null,
    run blob not null check (length(run) = 16),
    process text not null,
    retry text not null,
    primary key (org, run),
    foreign key (org, run) references runs deferrable initially deferred
) strict, without rowid;

create table worktrees (
    org integer not null,
    run blob not null check (length(run) = 16),
    node text not null,
    repository text not null,
    path text not null check (path <> ''),
    branch text not null,
    base text not null,
    teardown text not null,
    port_base integer not null check (port_base >= 0),
    state text not null check (state in ('open', 'saved')),
    saved_as text not null,
    created_at integer not null,
    primary key (org, run),
    check ((state = 'saved') = (saved_as <> '')),
    foreign key (org, run) references runs deferrable initially deferred
) strict, without rowid;

create unique index one_worktree_per_path on worktrees (org, node, path) where state = 'open';
create unique index one_worktree_per_port on worktrees (org, node, port_base) where state = 'open' and port_base > 0;
