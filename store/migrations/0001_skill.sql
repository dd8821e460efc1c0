-- One row per folder in which promotion may write, beside the hosts' own skill folders. A person registers it.
create table skill_root (
    path text primary key,          -- links resolved when it was registered
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

-- One row per tracked skill: a folder with a SKILL.md, seen at least once.
create table skill (
    id integer primary key,
    name text not null,
    path text not null unique,      -- the folder, links resolved
    live_version text not null,     -- the version last seen on disk
    best_version text,              -- the version last promoted
    n_seen integer not null default 0, -- trajectories that the last proposal had seen (the largest id)
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

-- One row per standing permission: a person allows promotion of a skill's clean, accepted candidates without being asked again.
create table permission (
    skill_id integer primary key references skill(id),
    granted_by text not null,
    simulated integer not null default 0 check (simulated in (0, 1)), -- also on evidence from a simulation
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

-- One row per distinct file content, by the sha256 of the uncompressed bytes.
create table blob (
    sha256 text primary key,
    size integer not null,
    encoding text not null check (encoding in ('raw', 'zlib')),
    content blob not null
) strict, without rowid;

-- One row per snapshot of a skill's files; `id` is the digest of their paths and contents.
create table version (
    skill_id integer not null references skill(id),
    id text not null,
    parent_id text,
    origin text not null check (origin in ('recorded', 'edited')),
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    primary key (skill_id, id)
) strict, without rowid;

-- One row per file of a version.
create table version_file (
    skill_id integer not null,
    version_id text not null,
    path text not null,
    sha256 text not null references blob(sha256),
    executable integer not null check (executable in (0, 1)),
    primary key (skill_id, version_id, path),
    foreign key (skill_id, version_id) references version(skill_id, id)
) strict, without rowid;

create trigger version_is_never_rewritten before update on version
begin select raise(abort, 'a version is never rewritten'); end;

create trigger version_file_is_never_rewritten before update on version_file
begin select raise(abort, 'a version is never rewritten'); end;

create trigger blob_is_never_rewritten before update on blob
begin select raise(abort, 'a blob is never rewritten'); end;
