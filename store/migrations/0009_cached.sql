alter table reply add column tokens_cached integer not null default 0; -- those of tokens_in that the vendor's cache had
