-- What an accept of a promotion test says: better on these tasks (drawn with replacement), or on tasks like these (each
-- fresh test task drawn once; tasks that are added later join the test).
alter table confirmation add column claim text not null default 'these' check (claim in ('these', 'like_these'));

create index confirmation_claim_whole on confirmation(claim);
