-- A person agrees to what they have seen, and it is named here: a change that differs in any of it (other versions, other
-- findings, another test) is not approved.

-- One row per approval: a person agreed to one change of a live file, once.
create table approval (
    id integer primary key,
    skill_id integer not null references skill(id),
    kind text not null check (kind in ('promote', 'rollback')),
    from_version text not null,     -- what was live
    to_version text not null,
    findings text not null,         -- sha256 over what the guard found
    evidence text not null,         -- the promotion test whose verdict was shown; empty for a rollback
    given_by text not null,         -- where the person was asked
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    foreign key (skill_id, from_version) references version(skill_id, id),
    foreign key (skill_id, to_version) references version(skill_id, id)
) strict;

create index approval_by_change on approval(skill_id, from_version, to_version);

-- The approval that a change has used up.
alter table promotion add column approval_id integer references approval(id);

create index promotion_by_approval on promotion(approval_id) where approval_id is not null;
