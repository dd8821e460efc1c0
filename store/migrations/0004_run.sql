-- One row per training run. Everything it depends on is frozen here, so that it can be resumed and recomputed.
create table run (
    id text primary key,
    skill_id integer not null references skill(id),
    base_version text not null,
    config text not null,           -- json
    prompts text not null,          -- json: the prompts, whole
    tasks text not null,            -- json: the ids of its tasks
    sessions text not null,         -- json: the ids of the recorded trajectories it may see
    target text not null,           -- backend fingerprints
    optimizer text not null,
    status text not null check (status in ('running', 'stopped', 'finished')),
    result text,                    -- json, once finished
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    foreign key (skill_id, base_version) references version(skill_id, id)
) strict;

create index run_by_skill on run(skill_id);

-- One row per finished training step.
create table step (
    run_id text not null references run(id),
    n integer not null,             -- 1-based, over all epochs
    epoch integer not null,
    parent_version text not null,   -- the current version when the step began
    candidate_id text references candidate(id),
    verdict text not null check (verdict in ('accept_best', 'accept', 'reject', 'no_change', 'held')),
    record text not null,           -- json: scores, budgets, unmatched edits, unusable replies
    primary key (run_id, n)
) strict, without rowid;

-- One row per candidate: a parent version and a patch, which together are a new version under test.
create table candidate (
    id text primary key,
    skill_id integer not null references skill(id),
    base_version text not null,
    version_id text not null,
    origin text not null check (origin in ('host', 'step', 'run')),
    run_id text references run(id),
    reasoning text not null,
    findings text not null default '[]', -- json: what the guard found; not empty holds it for a person
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    unique (skill_id, base_version, version_id),
    foreign key (skill_id, base_version) references version(skill_id, id),
    foreign key (skill_id, version_id) references version(skill_id, id)
) strict;

-- One row per edit of a candidate, applied or not, with the trajectories that it came from.
create table edit (
    candidate_id text not null references candidate(id),
    n integer not null,
    op text not null,
    path text not null,
    target text,
    content text,
    status text not null check (status in ('applied', 'unmatched')),
    reason text,
    detail text not null,
    sources text not null default '[]', -- json: references of trials and trajectories
    primary key (candidate_id, n)
) strict, without rowid;
