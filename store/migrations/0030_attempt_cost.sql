-- What an attempt cost that gave no reply. Those of old releases have none: it stands in the reply to their call, as far
-- as it was known.
alter table attempt add column tokens_in integer not null default 0;
alter table attempt add column tokens_out integer not null default 0;
alter table attempt add column tokens_cached integer not null default 0;
alter table attempt add column usd real default 0.0;    -- null when it may have been paid, and nobody said what
alter table attempt add column claim integer;           -- the claim of the call that ended with it, nothing under way

create index attempt_cost_whole on attempt(call_id, tokens_in, tokens_out, tokens_cached, usd, claim);
