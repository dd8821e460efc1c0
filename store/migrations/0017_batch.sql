-- One row per batch of calls that is to be answered by a vendor's batch API; it stands here before it is sent.
create table batch (
    id text primary key,            -- goes with the batch, so that it is found at the vendor when its sender died
    budget text not null,           -- what it is charged to: a run, or a test that somebody asked for by itself
    role text not null check (role in ('target', 'judge')),
    backend text not null,          -- the fingerprint of who sends it
    vendor_id text,                 -- null until the vendor has taken it
    state text not null check (state in ('opening', 'running', 'cancelling', 'over', 'dissolved')),
    opened_at real not null         -- seconds since 1970
) strict;

create index batch_whole on batch(state, budget, role, backend, vendor_id, opened_at);

-- One row per call in a batch, with what it was charged, at its most, before it was sent.
create table batch_call (
    batch_id text not null references batch(id),
    call_id integer not null references call(id),
    tokens integer not null,
    usd real not null,
    primary key (batch_id, call_id)
) strict, without rowid;

create index batch_call_whole on batch_call(call_id, batch_id, tokens, usd);
