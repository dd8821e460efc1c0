-- One row per note that an epoch left for the optimizer; the latest stays in force until another replaces it.
create table meta_note (
    id integer primary key,
    skill_id integer not null references skill(id),
    run_id text not null references run(id),
    epoch integer not null,
    text text not null,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    unique (run_id, epoch)
) strict;

create index meta_note_by_skill on meta_note(skill_id, id);

alter table run add column note text not null default ''; -- the note that the run began with
