-- Which of its sources whoever proposed an edit named as what it rests on; of edits of old releases nobody kept it.
alter table edit add column cited text not null default '[]';

create index edit_cited_whole on edit(candidate_id, n, cited);
