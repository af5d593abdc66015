-- What an org has spent is what its agents have spent. A sum of its own was one more row to write with every charge.
alter table orgs drop column settled;
