-- A run keeps the hard caps that it was given last, and goes on under them; null does not limit.
alter table run add column max_calls integer;
alter table run add column max_tokens integer;
alter table run add column max_usd real;
alter table run add column max_minutes real;

create index run_caps_whole on run(max_calls, max_tokens, max_usd, max_minutes);
