-- One row per thing that happened: tracked, added, decided, promoted, allowed. Each row's hash covers all rows before it.
create table event (
    seq integer primary key,
    kind text not null,
    content text not null,          -- canonical json: when, the key of the rows that it records, and their digest
    prev_hash text not null,        -- of the row before; empty in the first
    hash text not null              -- sha256 over prev_hash, seq, kind and content
) strict;

create trigger event_is_never_rewritten before update on event
begin select raise(abort, 'an event is never rewritten'); end;

create trigger event_is_never_removed before delete on event
begin select raise(abort, 'an event is never removed'); end;

-- One row per history of another store that a person imported into a skill.
create table imported (
    id integer primary key,
    skill_id integer not null references skill(id),
    sha256 text not null,           -- of the history's lines
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    unique (skill_id, sha256)
) strict;

-- One row per line of an imported history that only tells: a decision, promotion, run, event. Nothing ever acts on it.
create table archive (
    id integer primary key,
    skill_id integer not null references skill(id),
    imported_id integer not null references imported(id),
    kind text not null,
    sha256 text not null,           -- of content
    content text not null,          -- json
    unique (skill_id, kind, sha256)
) strict;

-- SQLite's integrity_check compares every index with its table, so a value that stands in an index as well cannot change
-- by a fault of the disk without being noticed. What no digest covers, and is small, is in an index from here on.
create index skill_root_whole on skill_root(created_at);
create index skill_whole on skill(name, live_version, best_version, n_seen, created_at);
create index permission_whole on permission(granted_by, simulated, created_at);
create index version_whole on version(parent_id, origin, created_at);
create index task_whole on task(tags, created_at);
create index attempt_whole on attempt(call_id, fault, detail, created_at);
create index run_whole on run(base_version, config, prompts, tasks, sessions, target, optimizer, status, result, note,
    judge, created_at);
create index step_whole on step(epoch, parent_version, candidate_id, verdict, record);
create index candidate_whole on candidate(origin, run_id, reasoning, findings, created_at);
create index edit_whole on edit(op, path, target, content, status, reason, detail, sources);
create index confirmation_whole on confirmation(alpha, tasks, created_at);
create index pair_whole on pair(base, candidate);
create index decision_whole on decision(base_version, verdict, reason, created_at);
create index promotion_whole on promotion(kind, candidate_id, from_version, to_version, state, verdict, consent,
    created_at);
create index command_whole on command(argv, sha256, limits, reads, require_sandbox, created_at);
create index meta_note_whole on meta_note(text, created_at);
create index rotation_whole on rotation(from_split, to_split, n_looks, created_at);
create index imported_whole on imported(created_at);
create index archive_whole on archive(imported_id, content);
create index migration_whole on _sqlite_migrations(applied_at);

-- What is large or many has a checksum of its row instead: `store.sums.row_sum`; null in rows from before there was one.
alter table call add column sum integer;
alter table trial add column sum integer;
alter table budget add column sum integer;
create index call_unsummed on call(id) where sum is null;
create index trial_unsummed on trial(id) where sum is null;
create index budget_unsummed on budget(id) where sum is null;
alter table blob add column sum integer;
alter table trajectory add column imported_id integer references imported(id);
alter table trajectory add column sum integer;
alter table reply add column sum integer;
create index blob_unsummed on blob(sha256) where sum is null;
create index trajectory_unsummed on trajectory(id) where sum is null;
create index reply_unsummed on reply(call_id) where sum is null;
