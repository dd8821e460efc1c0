-- One row per test task that was worn out by many promotion tests and moved into train: the only way a split changes.
create table rotation (
    task_id integer primary key references task(id),
    from_split text not null check (from_split = 'test'),
    to_split text not null check (to_split = 'train'),
    n_looks integer not null,       -- promotion tests that had drawn it
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

create index pair_by_task on pair(task_id, confirmation_id);

drop trigger task_split_is_frozen;

create trigger task_is_frozen before update of prompt, judge, files on task
begin select raise(abort, 'a task and its split never change'); end;

create trigger task_moves_by_rotation_alone before update of split on task
when not exists (
    select 1 from rotation where task_id = new.id and from_split = old.split and to_split = new.split
)
begin select raise(abort, 'a task and its split never change'); end;
