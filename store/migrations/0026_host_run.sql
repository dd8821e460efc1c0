-- Also on what a host's own agents judged, or made in a session that had seen the tasks.
alter table permission add column host_run integer not null default 0 check (host_run in (0, 1));

create index permission_host_run_whole on permission(host_run);
