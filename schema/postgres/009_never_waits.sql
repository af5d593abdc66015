-- Whether a run asked to be refused rather than to wait in line. Runs that are there waited, and still do.
alter table runs add column never_waits bigint not null default 0 check (never_waits between 0 and 1);
