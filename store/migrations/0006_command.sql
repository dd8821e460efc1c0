-- One row per program that a person registered as a judge, at a terminal. A task can only name one.
create table command (
    name text primary key,
    argv text not null,             -- json: the program, by absolute path, and its arguments; no shell reads them
    sha256 text not null,           -- of the program's files when it was registered
    limits text not null,           -- json: seconds, bytes and counts
    reads text not null default '[]', -- json: further paths that it may read
    require_sandbox integer not null default 0 check (require_sandbox in (0, 1)),
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;
