-- What agents start and how, what became of it, and the worktrees that were made for it.

alter table agents add column process text collate "C" not null default '{}';
alter table agents add column retry text collate "C" not null default '{}';
alter table agents add column workplace text collate "C" not null default '{}';
alter table agents add column provider text collate "C" not null default '';

alter table runs add column name text collate "C" not null default '';
alter table runs add column supervised bigint not null default 0 check (supervised between 0 and 1);
alter table runs add column ceiling bigint not null default 0 check (ceiling >= 0);
alter table runs add column attempt bigint not null default 1 check (attempt >= 1);
alter table runs add column retry_of bytea check (length(retry_of) = 16);
alter table runs add column not_before bigint not null default 0;
alter table runs add column exit_code bigint not null default -1 check (exit_code between -1 and 255);

alter table schedules add column node text collate "C" not null default '';
alter table schedules add column worktrees text collate "C" not null default '[]';

create table launches (
    org bigint not null,
    run bytea not null check (length(run) = 16),
    process text collate "C" not null,
    retry text collate "C" not null,
    primary key (org, run),
    foreign key (org, run) references runs deferrable initially deferred
);

create table worktrees (
    org bigint not null,
    run bytea not null check (length(run) = 16),
    node text collate "C" not null,
    repository text collate "C" not null,
    path text collate "C" not null check (path <> ''),
    branch text collate "C" not null,
    base text collate "C" not null,
    teardown text collate "C" not null,
    port_base bigint not null check (port_base >= 0),
    state text collate "C" not null check (state in ('open', 'saved')),
    saved_as text collate "C" not null,
    created_at bigint not null,
    primary key (org, run),
    check ((state = 'saved') = (saved_as <> '')),
    foreign key (org, run) references runs deferrable initially deferred
);

create unique index one_worktree_per_path on worktrees (org, node, path) where state = 'open';
create unique index one_worktree_per_port on worktrees (org, node, port_base) where state = 'open' and port_base > 0;
