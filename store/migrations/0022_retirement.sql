-- One row per task that a person took out of use: kept with its history, and drawn by nothing that begins later.
create table retirement (
    task_id integer primary key references task(id),
    name text not null,             -- what the task was called, which another may be called from then on
    reason text not null,
    n_tests integer not null,       -- promotion tests that the skill had by then
    n_looks integer not null,       -- of them, those that had drawn it
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

create index retirement_whole on retirement(name, reason, n_tests, n_looks, created_at);

create trigger retirement_stands before update on retirement
begin select raise(abort, 'a retirement is never rewritten'); end;

create trigger retirement_is_never_taken_back before delete on retirement
begin select raise(abort, 'a retirement is never rewritten'); end;

-- A retired task makes room for the one that corrects it.
create trigger task_is_renamed_by_retirement_alone before update of name on task
when not exists (select 1 from retirement where task_id = new.id and name = old.name)
begin select raise(abort, 'a task keeps its name'); end;
