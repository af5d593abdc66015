-- A session says which API key made it, and those that are not closed are counted by it and by their agent. With
-- `closed` in the index, SQLite counts without a look at the rows.
alter table sessions add column api_key text not null default '';
create index open_sessions on sessions (org, agent, api_key, closed) where closed = 0;

-- Where API keys that are no operator's may claim directories: as operators set it, and where that led then.
alter table agents add column roots text not null default '[]';
alter table agents add column resolved_roots text not null default '[]';
