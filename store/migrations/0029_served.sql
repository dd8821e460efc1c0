-- Which model answered a call, by the word of whoever served it: an alias may switch, and a router picks by the prompt.

-- One row per name that a model was served by.
create table served (
    id integer primary key,
    name text not null unique
) strict;

create trigger served_stands before update on served
begin select raise(abort, 'what a model was served by is never rewritten'); end;

create trigger served_is_never_removed before delete on served
begin select raise(abort, 'what a model was served by is never removed'); end;

alter table reply add column served integer references served(id); -- null: nobody said; then the sum is without it
