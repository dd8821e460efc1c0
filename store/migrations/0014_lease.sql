-- One row per call that was handed to a host for a while; after that it may be handed out again, under another id.
create table lease (
    id text primary key,            -- unguessable: whoever knows it may answer
    call_id integer not null references call(id),
    scope text not null,            -- the run or confirmation that asked
    task_id integer references task(id), -- null: a question
    session text not null,          -- who took it
    taken_at real not null,         -- seconds since 1970
    expires_at real not null,
    state text not null check (state in ('out', 'answered', 'failed', 'withdrawn'))
) strict;

create index lease_by_call on lease(call_id);
create index lease_by_scope on lease(scope);

-- One row per task that a session of a host knows with its judge: evidence from that session is exposed.
create table exposure (
    task_id integer not null references task(id),
    session text not null,
    primary key (task_id, session)
) strict, without rowid;

alter table run add column kind text not null default 'replay' check (kind in ('replay', 'proposal'));
