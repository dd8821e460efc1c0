-- Tasks by what they ask, whatever blanks surround it: each record of an attempt looks for its own among them. Of long
-- prompts the length and the ending are enough to find the few that are worth reading.
create index task_by_prompt on task(
    skill_id,
    length(trim(prompt, char(9, 10, 11, 12, 13, 32))),
    substr(trim(prompt, char(9, 10, 11, 12, 13, 32)), -32)
);
