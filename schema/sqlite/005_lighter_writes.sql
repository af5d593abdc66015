-- What an org has spent is what its agents have spent. A sum of its own was one more row to write with every charge.
alter table orgs drop column settled;

-- SQLite looks a list of more than two up in a tree, which it builds anew for every statement. Tables that are written
-- all the time compare instead. The rows stay as they are, so nothing but the text of the tables is written.
pragma writable_schema = on;

update sqlite_schema set sql = replace(sql,
    'state in (''open'', ''settled'', ''released'')',
    'state = ''open'' or state = ''settled'' or state = ''released''')
where type = 'table' and name = 'holds';

update sqlite_schema set sql = replace(sql,
    'role in (''user'', ''assistant'', ''system'', ''tool'')',
    'role = ''user'' or role = ''assistant'' or role = ''system'' or role = ''tool''')
where type = 'table' and name = 'messages';

update sqlite_schema set sql = replace(sql,
    'state in (''queued'', ''starting'', ''running'', ''paused'', ''succeeded'', ''failed'', ''cancelled'',
                                         ''timed_out'', ''lost'')',
    'state = ''queued'' or state = ''starting'' or state = ''running'' or state = ''paused'' or
                               state = ''succeeded'' or state = ''failed'' or state = ''cancelled'' or
                               state = ''timed_out'' or state = ''lost''')
where type = 'table' and name in ('runs', 'run_steps');

update sqlite_schema set sql = replace(sql,
    'state not in (''starting'', ''running'', ''paused'') or fence > 0',
    'fence > 0 or (state <> ''starting'' and state <> ''running'' and state <> ''paused'')')
where type = 'table' and name = 'runs';

update sqlite_schema set sql = replace(sql,
    'waits_for in (''nothing'', ''agent'', ''budget'', ''workspace'', ''agent_cap'', ''provider_cap'',
                                                 ''node_cap'', ''org_cap'', ''its_time'')',
    'waits_for = ''nothing'' or waits_for = ''agent'' or waits_for = ''budget'' or
                                   waits_for = ''workspace'' or waits_for = ''agent_cap'' or
                                   waits_for = ''provider_cap'' or waits_for = ''node_cap'' or
                                   waits_for = ''org_cap'' or waits_for = ''its_time''')
where type = 'table' and name = 'run_steps';

pragma writable_schema = reset;
