-- One row per run that came to the promotion test of its best version: how many pairs that had by then.
create table finish (
    run_id text not null references run(id),
    confirmation_id text not null references confirmation(id),
    n_pairs integer not null,
    primary key (run_id, confirmation_id)
) strict, without rowid;

create index finish_whole on finish(n_pairs, confirmation_id);
