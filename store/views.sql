-- Views for people: open the store with Datasette or sqlite-utils and start here. No code of the package reads them.

-- One row per skill, with what there is of it.
create view skills as
select s.name, s.path, substr(s.live_version, 1, 12) as live_version, substr(s.best_version, 1, 12) as best_version,
    (select count(*) from task where skill_id = s.id and id not in (select task_id from retirement)) as n_tasks,
    (select count(*) from trajectory where skill_id = s.id) as n_attempts,
    (select count(*) from run where skill_id = s.id) as n_runs,
    (select count(*) from promotion_test where skill_id = s.id and number is not null) as n_promotion_tests,
    s.is_hidden, s.created_at
from skill s;

-- One row per training step: what was tried, and whether it was kept.
create view steps as
select s.name as skill, st.run_id, st.n as step, st.epoch, st.verdict, st.candidate_id,
    substr(st.parent_version, 1, 12) as parent_version, substr(c.version_id, 1, 12) as version,
    (select count(*) from edit e where e.candidate_id = st.candidate_id and e.status = 'applied') as n_edits
from step st join run r on r.id = st.run_id join skill s on s.id = r.skill_id
left join candidate c on c.id = st.candidate_id;

-- One row per unit of a promotion test: the mean scores of both arms, and so which task got better, which worse.
create view test_tasks as
select s.name as skill, p.id as test, a.unit, t.name as task,
    avg(case when a.arm = 'base' then a.score end) as base,
    avg(case when a.arm = 'candidate' then a.score end) as candidate,
    round(avg(case when a.arm = 'candidate' then a.score end) - avg(case when a.arm = 'base' then a.score end), 6)
        as gain,
    count(*) as n_attempts, t.prompt
from test_attempt a join promotion_test p on p.id = a.test_id join skill s on s.id = p.skill_id
join task t on t.id = json_extract(p.tasks, '$[' || a.unit || ']')
group by p.id, a.unit;

-- One row per verdict of a gate.
create view verdicts as
select s.name as skill, d.gate, d.verdict, d.reason, d.scope, substr(d.base_version, 1, 12) as base_version,
    substr(d.version_id, 1, 12) as version,
    (select id from candidate c where c.skill_id = d.skill_id and c.base_version = d.base_version
        and c.version_id = d.version_id) as candidate_id,
    d.created_at
from decision d join skill s on s.id = d.skill_id;

-- One row per edit of a candidate, with what became of it.
create view edits as
select s.name as skill, e.candidate_id, c.origin, e.n, e.op, e.path, e.target, e.content, e.status, e.reason, e.detail,
    c.created_at
from edit e join candidate c on c.id = e.candidate_id join skill s on s.id = c.skill_id;

-- One row per run or promotion test and role: answered calls, tokens and known cost. What failed is in table attempt.
create view spend as
select c.scope, c.role, count(*) as n_calls, sum(r.fault is not null) as n_missing, sum(r.tokens_in) as tokens_in,
    sum(r.tokens_cached) as tokens_cached, sum(r.tokens_out) as tokens_out, round(sum(r.usd), 6) as usd,
    sum(r.usd is null) as n_unpriced
from call c join reply r on r.call_id = c.id group by c.scope, c.role;

-- One row per recorded attempt of a real session.
create view sessions as
select s.name as skill, t.session_id as session, t.position, t.id as trajectory_id, t.hard, t.soft, t.reason,
    t.prompt, t.answer, json_array_length(t.messages) as n_messages, substr(t.version_id, 1, 12) as version,
    t.id in (select trajectory_id from erased) as is_erased, t.created_at
from trajectory t join skill s on s.id = t.skill_id;

-- One row per change of a live skill.
create view promotions as
select s.name as skill, p.kind, p.state, p.candidate_id, substr(p.from_version, 1, 12) as from_version,
    substr(p.to_version, 1, 12) as to_version, p.verdict, p.agreed_by, p.agreed_on, p.login, p.created_at
from promotion p join skill s on s.id = p.skill_id;
