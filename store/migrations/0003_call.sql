-- One row per question to a backend: claimed before it is sent, by one sender at a time.
create table call (
    id integer primary key,
    key blob not null unique,       -- sha256 of role, backend fingerprint, stage, request digest and draw
    scope text not null,            -- the run or confirmation that asked
    role text not null check (role in ('target', 'optimizer', 'judge')),
    stage text not null,
    draw text not null,
    refs text not null default '',  -- what the evidence was made of
    owner text not null,            -- the process that sends it
    n_claims integer not null default 1 -- above 1: it was in flight when its sender died
) strict;

create index call_by_scope on call(scope);

-- One row per answered call. A row with a fault is missing: asked, retried, given up, and never a score.
create table reply (
    call_id integer primary key references call(id),
    text text not null,
    messages text not null,         -- json: [[role, content, name?], ...]
    tokens_in integer not null,
    tokens_out integer not null,
    usd real,                       -- null when the price is unknown
    latency_ms real not null,
    fault text
) strict;

-- One row per attempt at a call that gave no reply.
create table attempt (
    id integer primary key,
    call_id integer not null references call(id),
    fault text not null,
    detail text not null,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

-- One row per rollout kept as evidence: which version attempted which task, on whose draw, with what score.
create table trial (
    id integer primary key,
    scope text not null,            -- the run or confirmation it serves
    version_id text not null,
    task_id integer not null references task(id),
    draw text not null,
    call_id integer not null references call(id),
    hard integer check (hard in (0, 1)),
    soft real check (soft between 0 and 1),
    reason text not null,
    check ((hard is null) = (soft is null)),
    unique (call_id, task_id)
) strict;

create index trial_by_scope on trial(scope);
