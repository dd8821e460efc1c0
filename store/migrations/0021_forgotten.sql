-- One row per skill that a person wants listed no more: its folder is gone, or nothing was recorded of it. All else stays.
create table forgotten (
    skill_id integer primary key references skill(id),
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

create index forgotten_whole on forgotten(created_at);
