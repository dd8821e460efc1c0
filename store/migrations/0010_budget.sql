-- What is under way counts as the most that it can cost; so does what was under way when its process died.

-- One row per budget: what a run (or a promotion test that somebody asked for by itself) has used so far.
create table budget (
    id text primary key,
    calls integer not null,         -- sent to a model, again and again where attempts failed
    tokens integer not null,
    usd real not null,              -- what is known of it
    seconds real not null           -- that processes worked on it
) strict;
