-- One row per promotion test opened: a base and a candidate, and its share of the skill's lifetime error budget.
create table confirmation (
    id text primary key,
    skill_id integer not null references skill(id),
    base_version text not null,
    version_id text not null,
    j integer not null,             -- the j-th test of this skill: alpha_j = alpha * 6 / (pi^2 j^2)
    alpha real not null,            -- alpha_j
    backend text not null,          -- the target's fingerprint
    tasks text not null,            -- json: the ids of the held-out tasks, in order
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    unique (skill_id, base_version, version_id, backend),
    unique (skill_id, j)
) strict;

-- One row per pair of a promotion test, in drawn order. A null score is missing after all tries.
create table pair (
    confirmation_id text not null references confirmation(id),
    n integer not null,
    task_id integer not null references task(id),
    base real,
    candidate real,
    primary key (confirmation_id, n)
) strict, without rowid;

-- One row per verdict of a gate, with the inputs that it recomputes from.
create table decision (
    id integer primary key,
    skill_id integer not null references skill(id),
    gate text not null,
    base_version text not null,
    version_id text not null,
    scope text not null,            -- the run and step, or the confirmation
    verdict text not null,
    reason text not null,
    inputs text not null,           -- json
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    unique (scope, gate, inputs)
) strict;

create index decision_by_version on decision(skill_id, version_id);

-- One row per change of a live skill: the journal while it happens, the history afterwards.
create table promotion (
    id integer primary key,
    skill_id integer not null references skill(id),
    kind text not null check (kind in ('promote', 'rollback')),
    candidate_id text references candidate(id),
    from_version text not null,
    to_version text not null,
    state text not null check (state in ('pending', 'done', 'undone')),
    verdict text not null,
    consent text not null,          -- who agreed: a person at a terminal, or a standing permission
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    foreign key (skill_id, from_version) references version(skill_id, id),
    foreign key (skill_id, to_version) references version(skill_id, id)
) strict;

create index promotion_by_skill on promotion(skill_id, id);
create index promotion_pending on promotion(state) where state = 'pending';
