-- What came after the events stands in indexes, too, so that integrity_check notices a change: see there.
create index approval_whole on approval(kind, findings, evidence, given_by, created_at);
create index lease_whole on lease(call_id, scope, task_id, session, taken_at, expires_at, state);
create index run_kind_whole on run(kind);
create index exposure_whole on exposure(session);
