alter table run add column answering text; -- json: who answers from which step on, by fingerprints; null: not known
create index run_answering_whole on run(answering);
