-- One row per task: what is asked, and the judge that scores an answer. Its split is frozen on insert.
create table task (
    id integer primary key,
    skill_id integer not null references skill(id),
    name text not null,             -- the caller's own id for it, or one made from the digest
    digest text not null,           -- sha256 over prompt, judge and files
    prompt text not null,
    judge text not null,            -- canonical json
    split text not null check (split in ('train', 'val', 'test')),
    tags text not null default '[]',
    files text not null default '[]',
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    unique (skill_id, digest),
    unique (skill_id, name)
) strict;

create index task_by_split on task(skill_id, split);

create trigger task_split_is_frozen before update of split, prompt, judge, files on task
begin select raise(abort, 'a task and its split never change'); end;

-- One row per recorded attempt of a real session. Rollouts of a run are rows of trial.
create table trajectory (
    id integer primary key,
    skill_id integer not null references skill(id),
    version_id text not null,       -- the version that was live
    session_id text,
    position integer,               -- the caller's index within the session
    prompt text not null,
    answer text not null,
    hard integer check (hard in (0, 1)),
    soft real check (soft between 0 and 1),
    reason text not null,
    messages text not null,         -- json: [[role, content, name?], ...]
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    foreign key (skill_id, version_id) references version(skill_id, id)
) strict;

create unique index trajectory_once on trajectory(skill_id, session_id, position)
    where session_id is not null and position is not null;
create index trajectory_by_skill on trajectory(skill_id, id);
