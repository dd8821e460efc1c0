-- A run whose search was ended early searches on no more: what is left of it is the promotion test of its best version.

-- One row per run whose search was ended before its last step: after how many of how many steps, and why.
create table conclusion (
    run_id text primary key references run(id),
    after integer not null check (after >= 0 and after < planned),
    planned integer not null,
    why text not null,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict, without rowid;

create index conclusion_whole on conclusion(after, planned, why, created_at);

create trigger conclusion_stands before update on conclusion
begin select raise(abort, 'a conclusion is never rewritten'); end;

create trigger conclusion_is_never_taken_back before delete on conclusion
begin select raise(abort, 'a conclusion is never taken back'); end;

create trigger concluded_run_takes_no_step before insert on step
when exists (select 1 from conclusion where run_id = new.run_id)
begin select raise(abort, 'a run whose search was ended takes no step more'); end;
