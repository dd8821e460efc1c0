-- One row per change of a live skill that failed half-way and is being taken back: until it is, its promotion is pending.
create table undoing (
    promotion_id integer primary key references promotion(id),
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

create index undoing_whole on undoing(created_at);

-- An approval is used once. Where an earlier release let it be used again, it counts for the first change alone.
update promotion set approval_id = null where approval_id is not null and exists (
    select 1 from promotion earlier where earlier.approval_id = promotion.approval_id and earlier.id < promotion.id
);
drop index promotion_by_approval;
create unique index promotion_uses_an_approval on promotion(approval_id) where approval_id is not null;
