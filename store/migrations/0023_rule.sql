-- What a promotion test asks of its pairs is chosen when it is opened, before the first of them: json, beside alpha and
-- claim. Null: opened before this was kept.
alter table confirmation add column rule text;

create index confirmation_rule_whole on confirmation(rule);
