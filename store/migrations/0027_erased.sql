-- What remains of an erased attempt is its row in trajectory, without what was asked, done and said: so no reading of the
-- session brings it back, and whatever refers to it still does.

-- One row per attempt whose texts a person took out.
create table erased (
    id integer primary key,
    trajectory_id integer not null unique references trajectory(id),
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

create index erased_whole on erased(created_at, trajectory_id);

create trigger erased_stands before update on erased
begin select raise(abort, 'an erasure is never rewritten'); end;

create trigger erased_is_never_taken_back before delete on erased
begin select raise(abort, 'an erasure is never rewritten'); end;

create trigger erased_attempt_stays_empty before update of prompt, answer, hard, soft, reason, messages on trajectory
when exists (select 1 from erased where trajectory_id = old.id)
begin select raise(abort, 'an erased attempt stays empty'); end;
