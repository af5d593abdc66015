-- A session says which API key made it, and those that are not closed are counted by it and by their agent.
alter table sessions add column api_key text collate "C" not null default '';
create index open_sessions on sessions (org, agent, api_key) where closed = 0;

-- Where API keys that are no operator's may claim directories: as operators set it, and where that led then.
alter table agents add column roots text collate "C" not null default '[]';
alter table agents add column resolved_roots text collate "C" not null default '[]';
