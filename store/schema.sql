-- The store of skillopt-mcp: one SQLite file. Times are UTC, `*_version` and `version_id` are ids of versions,
-- and what is called json here is JSON text.

-- Skills and their files

-- One row per folder in which promotion may write, besides the hosts' own skill folders. A person registers it.
create table skill_root (
    path text primary key,          -- links resolved when it was registered
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

-- One row per tracked skill: a folder with a SKILL.md, seen at least once.
create table skill (
    id integer primary key,
    name text not null,
    path text not null unique,      -- the folder, links resolved
    live_version text not null,     -- the version last seen on disk
    best_version text,              -- the version last promoted
    n_seen integer not null default 0, -- the largest trajectory id when the last proposal was made
    is_hidden integer not null default 0 check (is_hidden in (0, 1)), -- a person took it off the lists
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

-- One row per standing permission: candidates better by own evidence and without findings are promoted without asking.
create table permission (
    skill_id integer primary key references skill(id),
    granted_by text not null,
    simulated integer not null default 0 check (simulated in (0, 1)), -- also on evidence from a simulation
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

-- One row per backend that a person let agents use though it is not a vendor at its own address or an installed CLI.
create table remembered_backend (
    parts text primary key,         -- json: what it leads to, such as program, sha256, address, proxy, model, tools
    spec text not null,             -- as the person wrote it
    granted_by text not null,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

-- One row per run or promotion test that neither a person nor an agent worked on, but a script, CI or a notebook.
create table unattended_work (
    scope text primary key,         -- the id of the run or test
    remembered integer not null check (remembered in (0, 1)) -- 1: all who answered were backends that agents may use
) strict;

-- One row per distinct content of a file, or of the prompts of a run.
create table blob (
    sha256 text primary key,        -- of the uncompressed bytes
    size integer not null,          -- uncompressed
    encoding text not null check (encoding in ('raw', 'zlib')),
    content blob not null
) strict, without rowid;

-- One row per snapshot of a skill's files; `id` is the digest of their paths and contents.
create table version (
    skill_id integer not null references skill(id),
    id text not null,
    parent_id text,
    origin text not null check (origin in ('recorded', 'edited')),
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    primary key (skill_id, id)
) strict, without rowid;

-- One row per file of a version.
create table version_file (
    skill_id integer not null,
    version_id text not null,
    path text not null,
    sha256 text not null references blob(sha256),
    executable integer not null check (executable in (0, 1)),
    primary key (skill_id, version_id, path),
    foreign key (skill_id, version_id) references version(skill_id, id)
) strict, without rowid;

create trigger version_is_never_rewritten before update on version
begin select raise(abort, 'a version is never rewritten'); end;

create trigger version_file_is_never_rewritten before update on version_file
begin select raise(abort, 'a version is never rewritten'); end;

create trigger blob_is_never_rewritten before update on blob
begin select raise(abort, 'a blob is never rewritten'); end;

-- Tasks and judges

-- One row per task: what is asked, and the judge that scores an answer. Its split is frozen once it does not wait.
create table task (
    id integer primary key,
    skill_id integer not null references skill(id),
    name text not null,             -- the caller's id for it, or one made from the digest
    digest text not null,           -- sha256 over prompt, judge and files
    prompt text not null,
    judge text not null,            -- canonical json
    split text not null check (split in ('train', 'val', 'test')),
    tags text not null default '[]', -- json
    files text not null default '[]', -- json
    group_name text not null default '', -- tasks of one group are one family, and in one split; '' is none
    waits integer not null default 0 check (waits in (0, 1)), -- in train until a person has looked at it
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    unique (skill_id, digest),
    unique (skill_id, name)
) strict;

create index task_by_split on task(skill_id, split, tags, waits);
create index task_held_out on task(skill_id, trim(prompt, char(9, 10, 11, 12, 13, 32))) where split <> 'train';

-- One row per task that a person added at a terminal, or looked at and kept.
create table adoption (
    task_id integer primary key references task(id),
    digest text not null,           -- of what they saw: the task, its group, and the judge programs that it names
    login text not null,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

-- One row per task that was mined from a skill's text, sessions or a repository, and what it was made from.
create table draft (
    task_id integer primary key references task(id),
    source text not null check (source in ('skill', 'sessions', 'repo')),
    origin text not null,           -- an episode (<session>#<index>), a commit, a rule of the skill's text, a complaint
    accepted text not null default '', -- an answer that its judge has to pass
    rejected text not null default '', -- an answer that its judge has to fail
    correction text not null default '' -- the person's own words on it
) strict;

-- One row per task that a person removed: kept with its history, and drawn by nothing that starts later.
create table retirement (
    task_id integer primary key references task(id),
    name text not null,             -- the task's name, which is free for another one
    reason text not null,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

-- One row per program that a person registered as a judge. A task can only name one.
create table command (
    name text primary key,
    argv text not null,             -- json: the program, by absolute path, and its arguments; no shell reads them
    sha256 text not null,           -- of the program's files when it was registered
    limits text not null,           -- json: seconds, bytes and counts
    reads text not null default '[]', -- json: further paths that it may read
    unconfined integer not null default 0 check (unconfined in (0, 1)), -- 1: a person let it run without bubblewrap
    unattended integer not null default 0 check (unattended in (0, 1)), -- 1: a script registered it, for its own runs
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

create trigger task_is_frozen before update of prompt, judge, files on task
begin select raise(abort, 'a task and its split never change'); end;

create trigger group_is_frozen before update of group_name on task when not old.waits
begin select raise(abort, 'a task and its split never change'); end;

create trigger split_is_frozen before update of split, waits on task when not (old.waits and not new.waits)
begin select raise(abort, 'a task and its split never change'); end;

create trigger task_is_renamed_by_retirement_alone before update of name on task
when not old.waits and not exists (select 1 from retirement where task_id = new.id and name = old.name)
begin select raise(abort, 'a task keeps its name'); end;

create trigger retirement_stands before update on retirement
begin select raise(abort, 'a retirement is never rewritten'); end;

create trigger retirement_is_never_taken_back before delete on retirement
begin select raise(abort, 'a retirement is never rewritten'); end;

-- Attempts in real sessions

-- One row per recorded attempt of a real session. Rollouts of a run are rows of trial.
create table trajectory (
    id integer primary key,
    skill_id integer not null references skill(id),
    version_id text not null,       -- the version that was live
    session_id text,
    position integer,               -- the caller's index within the session
    prompt text not null,
    answer text not null,
    hard integer check (hard in (0, 1)),
    soft real check (soft between 0 and 1),
    reason text not null,
    messages text not null,         -- json: [[role, content, name?], ...]
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    foreign key (skill_id, version_id) references version(skill_id, id)
) strict;

create unique index trajectory_once on trajectory(skill_id, session_id, position)
    where session_id is not null and position is not null;
create index trajectory_by_skill on trajectory(skill_id, id, hard);

-- One row per attempt whose texts a person erased: its row in trajectory stays, without prompt, answer and messages.
create table erased (
    id integer primary key,
    trajectory_id integer not null unique references trajectory(id),
    at text not null default '',    -- when its episode was given: a fork of the session has a copy with that time
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

create trigger erased_stands before update on erased
begin select raise(abort, 'an erasure is never rewritten'); end;

create trigger erased_is_never_taken_back before delete on erased
begin select raise(abort, 'an erasure is never rewritten'); end;

create trigger erased_attempt_stays_empty before update of prompt, answer, hard, soft, reason, messages on trajectory
when exists (select 1 from erased where trajectory_id = old.id)
begin select raise(abort, 'an erased attempt stays empty'); end;

-- One row per task that a person gave in a session, for each tracked skill that it is about.
create table episode (
    id integer primary key,
    skill_id integer not null references skill(id),
    session text not null,
    position integer not null,      -- how many things were said before it in the session
    last_position integer not null, -- of the last turn that continues it
    opened integer not null check (opened in (0, 1)), -- 0: the skill did not arrive, and perhaps should have
    prompt text not null,
    folder text not null,
    answer text not null,           -- the last one
    rejected text not null,         -- the first answer that was rejected; '' for none
    correction text not null,       -- the person's words on it
    label text not null check (label in ('accepted', 'rejected', 'unknown')),
    why text not null,              -- the rule that labelled it, or 'asked'
    at text not null,               -- when it was given, as the host writes times
    unique (skill_id, session, position)
) strict;

create index episode_by_time on episode(skill_id, at);

create trigger erased_takes_its_episode after insert on erased
begin
    update draft set accepted = '', rejected = '', correction = '' where source = 'sessions' and exists (
        select 1 from trajectory t join task on task.skill_id = t.skill_id join episode e
            on e.skill_id = t.skill_id and e.session = t.session_id and t.position between e.position and e.last_position
        where t.id = new.trajectory_id and task.id = draft.task_id and draft.origin = e.session || '#' || e.position
    );
    delete from episode where id in (
        select e.id from episode e join trajectory t on t.skill_id = e.skill_id and t.session_id = e.session
        where t.id = new.trajectory_id and t.position between e.position and e.last_position
    );
end;

-- One row per session file of a host that was read: how far.
create table session_file (
    path text primary key,
    inode integer not null,
    mtime_ns integer not null,
    size integer not null,
    offset integer not null,        -- where its last episode begins
    before text not null,           -- sha256 of the bytes before that
    n_turns integer not null,       -- what was said before that
    folder text not null,           -- the working folder there
    newest_skill integer not null   -- the id of the newest skill that was looked for
) strict, without rowid;

-- Calls and what they cost

-- One row per question to a backend: claimed before it is sent, by one sender at a time.
create table call (
    id integer primary key,
    key blob not null unique,       -- sha256 of role, backend fingerprint, stage, request digest and draw
    scope text not null,            -- the run or promotion test that asked
    role text not null check (role in ('target', 'optimizer', 'judge')),
    stage text not null,
    draw text not null,
    refs text not null default '',  -- what its evidence was made of: trials and trajectories
    owner text not null,            -- the process that sends it
    n_claims integer not null default 1 -- above 1: it was in flight when its sender died
) strict;

create index call_by_scope on call(scope);

-- One row per answered call. A row with a fault is missing: asked, retried, given up.
create table reply (
    call_id integer primary key references call(id),
    text text not null,
    messages text not null,         -- json: [[role, content, name?], ...]
    tokens_in integer not null,
    tokens_out integer not null,
    usd real,                       -- null: the price is unknown
    latency_ms real not null,
    fault text,
    tokens_cached integer not null default 0, -- part of tokens_in that the vendor's cache had
    served integer references served(id), -- null: the backend did not report a model
    answered_at integer not null default (cast(strftime('%s', 'now') as integer)) -- seconds since 1970
) strict;

-- One row per model name that a backend reported with a reply: an alias may switch, a router picks by prompt.
create table served (
    id integer primary key,
    name text not null unique
) strict;

create trigger served_stands before update on served
begin select raise(abort, 'what a model was served by is never rewritten'); end;

create trigger served_is_never_removed before delete on served
begin select raise(abort, 'what a model was served by is never removed'); end;

-- One row per try of a call that gave no reply, with what it cost.
create table attempt (
    id integer primary key,
    call_id integer not null references call(id),
    fault text not null,
    detail text not null,
    tokens_in integer not null default 0,
    tokens_out integer not null default 0,
    tokens_cached integer not null default 0,
    usd real default 0.0,           -- null: it may have been charged, the amount is unknown
    claim integer,                  -- the claim of the call that ended with it, with nothing left in flight
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

create index attempt_by_call on attempt(call_id);

-- One row per budget: what a run, or a promotion test outside of a run, has used. A call in flight counts as its maximum.
create table budget (
    id text primary key,
    calls integer not null,         -- sent to a model, retries included
    tokens integer not null,
    usd real not null,              -- as far as prices are known
    seconds real not null           -- that processes worked on it
) strict, without rowid;

-- One row per call that was handed to a host for a while; after that it may be handed out again, under another id.
create table lease (
    id text primary key,            -- unguessable: who knows it may answer
    call_id integer not null references call(id),
    scope text not null,            -- the run or promotion test that asked
    task_id integer references task(id), -- null: a question
    session text not null,          -- that took it
    taken_at real not null,         -- seconds since 1970
    expires_at real not null,
    state text not null check (state in ('out', 'answered', 'failed', 'withdrawn'))
) strict;

create index lease_by_call on lease(call_id);
create index lease_by_scope on lease(scope);

-- One row per boot of the machine in which leases were taken: their time is the machine's since then.
create table boot (
    id text primary key,            -- the machine's name of it
    at real not null                -- seconds since 1970, by the clock when the first lease was taken
) strict;

-- One row per judged rollout: which version attempted which task, on which draw, with what score.
create table trial (
    id integer primary key,
    version_id text not null,
    task_id integer not null references task(id),
    call_id integer not null references call(id), -- its scope and draw are the trial's
    hard integer check (hard in (0, 1)),
    soft real check (soft between 0 and 1),
    reason text not null,
    check ((hard is null) = (soft is null)),
    unique (call_id, task_id)
) strict;

-- Runs and candidates

-- One row per training run or proposal. What it depends on is frozen here, so that it can be resumed and recomputed.
create table run (
    id text primary key,
    skill_id integer not null references skill(id),
    kind text not null default 'replay' check (kind in ('replay', 'proposal')),
    base_version text not null,
    config text not null,           -- json
    prompts text not null references blob(sha256), -- json: the prompts, whole, as a zlib blob
    tasks text not null,            -- json: the ids of its tasks
    sessions text not null,         -- json: the ids of the recorded trajectories it may see
    target text not null,           -- backend fingerprints
    optimizer text not null,
    judge text not null default '', -- the backend that was named for the role judge, if any
    answering text,                 -- json: the fingerprints that answered, by step
    note text not null default '',  -- the note that the run started with
    max_calls integer,              -- the caps it was last given; null does not limit
    max_tokens integer,
    max_usd real,
    max_minutes real,
    status text not null check (status in ('running', 'stopped', 'finished')),
    higher text not null default '', -- the options that raise the caps at which it stopped
    result text,                    -- json, once finished
    folder text not null default '', -- the one that it is written to as files, if any
    memory_id integer,              -- the memory file that is trained, too, as a row of skill, and its version; or null
    memory_version text,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    foreign key (skill_id, base_version) references version(skill_id, id),
    foreign key (memory_id, memory_version) references version(skill_id, id)
) strict;

create index run_by_skill on run(skill_id);

-- One row per finished training step.
create table step (
    run_id text not null references run(id),
    n integer not null,             -- from 1, over all epochs
    epoch integer not null,
    parent_version text not null,   -- the current version when the step started
    candidate_id text references candidate(id),
    verdict text not null check (verdict in ('accept_best', 'accept', 'reject', 'no_change')),
    record text not null,           -- json: scores, budgets, unmatched edits, unusable replies
    primary key (run_id, n)
) strict, without rowid;

-- One row per note that an epoch left for the optimizer; the latest is in force until another replaces it.
create table meta_note (
    id integer primary key,
    skill_id integer not null references skill(id),
    run_id text not null references run(id),
    epoch integer not null,
    text text not null,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    unique (run_id, epoch)
) strict;

-- One row per candidate: a parent version and a patch, which together are a new version under test.
create table candidate (
    id text primary key,
    skill_id integer not null references skill(id),
    base_version text not null,
    version_id text not null,
    origin text not null check (origin in ('host', 'step', 'run', 'person')),
    run_id text references run(id),
    reasoning text not null,
    findings text not null default '[]', -- json: what the guard found; not empty holds it for a person
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    unique (skill_id, base_version, version_id),
    foreign key (skill_id, base_version) references version(skill_id, id),
    foreign key (skill_id, version_id) references version(skill_id, id)
) strict;

-- One row per session of a host that proposed or saw a candidate: attempts of that session are labelled.
create table candidate_session (
    candidate_id text not null references candidate(id),
    session text not null,
    primary key (candidate_id, session)
) strict, without rowid;

-- One row per edit of a candidate, applied or not.
create table edit (
    candidate_id text not null references candidate(id),
    n integer not null,
    op text not null,
    path text not null,
    target text,
    content text,
    status text not null check (status in ('applied', 'unmatched')),
    reason text,
    detail text not null,
    sources text not null default '[]', -- json: the trials and trajectories that its author was shown
    cited text not null default '[]', -- json: those of them that its author named
    primary key (candidate_id, n)
) strict, without rowid;

-- Promotion tests and changes of live files

-- One row per promotion test of two versions: what is fixed before its first attempt.
create table promotion_test (
    id text primary key,
    skill_id integer not null references skill(id),
    base_version text not null,
    version_id text not null,
    release integer not null,       -- its tests share an error budget; a proven promotion opens the next one
    series text not null default '', -- of a gate's tests, which are numbered apart: the pull request
    number integer,                 -- of the release's tests, from 1; 0: outside of that budget; null before an answer
    backend text not null,          -- the fingerprints of the target and of the judges
    tasks text not null,            -- json: the ids of the tasks, one per unit, in order
    plan text not null,             -- json: salt, units in order, passes, number, kind, earlier base attempts, margin
    other_id integer,               -- the other document of the run, which all attempts see, too, and its version
    other_version text,
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    foreign key (other_id, other_version) references version(skill_id, id),
    foreign key (skill_id, base_version) references version(skill_id, id),
    foreign key (skill_id, version_id) references version(skill_id, id)
) strict;

create index promotion_test_by_skill on promotion_test(skill_id);

-- Its first answer sets release and number, and takes away a kind that has too few units for that number.
create trigger promotion_test_is_frozen before update on promotion_test
when old.number is not null or new.number is null
    or json_remove(old.plan, '$.number', '$.kind') <> json_remove(new.plan, '$.number', '$.kind')
    or coalesce(new.plan ->> '$.kind', old.plan ->> '$.kind') is not old.plan ->> '$.kind'
    or (old.id, old.skill_id, old.base_version, old.version_id, old.backend, old.tasks, old.created_at)
    <> (new.id, new.skill_id, new.base_version, new.version_id, new.backend, new.tasks, new.created_at)
    or (old.other_id, old.other_version) is not (new.other_id, new.other_version)
begin select raise(abort, 'a promotion test is never rewritten'); end;

-- One row per attempt of a promotion test at the task of a unit. What has no answer has a score by its cause.
create table test_attempt (
    test_id text not null references promotion_test(id),
    unit integer not null,          -- from 0, in the order of the test
    arm text not null check (arm in ('base', 'candidate')),
    number integer not null,        -- from 0, of the arm at the unit
    score real not null check (score between 0 and 1),
    cause text not null check (cause in ('', 'target', 'bounded')), -- failed by itself; lost, and counted against it
    n_again integer not null default 0, -- how often it was lost and repeated
    call_id integer not null references call(id),
    primary key (test_id, unit, arm, number)
) strict, without rowid;

create trigger test_attempt_is_of_an_open_test before insert on test_attempt
when (select number from promotion_test where id = new.test_id) is null
begin select raise(abort, 'a promotion test has its number before its first attempt'); end;

-- One row per text that a host was tried with: whether it loads it. No model is asked for that.
create table arrival (
    backend text not null,          -- the target's fingerprint
    version text not null,          -- the digest of the files
    folder text not null,           -- the skill's folder; "/" before it: opened by its name in a prompt
    state text not null check (state in ('arrived', 'refused', 'unchecked')),
    words text not null,            -- the host's own, or what it changes
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    primary key (backend, version, folder)
) strict, without rowid;

-- One row per command that a host runs while it loads a skill, and that a person has seen.
create table seen_command (
    key text primary key,           -- sha256 of the skill's id and the command
    skill_id integer not null references skill(id),
    command text not null,
    login text not null,            -- the name that the person was logged in by; empty where it is not known
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict, without rowid;

-- One row per run that reached the promotion test of its best version.
create table finish (
    run_id text not null references run(id),
    test_id text not null references promotion_test(id),
    primary key (run_id, test_id)
) strict, without rowid;

-- One row per verdict of a gate, with the inputs that it recomputes from.
create table decision (
    id integer primary key,
    skill_id integer not null references skill(id),
    gate text not null,
    base_version text not null,
    version_id text not null,
    scope text not null,            -- the run and step, or the promotion test
    verdict text not null,
    reason text not null,
    inputs text not null,           -- json
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ'))
) strict;

create index decision_by_scope on decision(scope);
create index decision_by_version on decision(skill_id, version_id);

-- One row per yes in an MCP dialog: of exactly what was shown, for one change, which may come in a later call.
create table approval (
    id integer primary key,
    skill_id integer not null references skill(id),
    kind text not null check (kind in ('promote', 'rollback')),
    from_version text not null,     -- what was live
    to_version text not null,
    findings text not null,         -- the sha256 of each finding of the guard
    evidence text not null,         -- the promotion test whose verdict was shown; empty for a rollback
    login text not null,            -- the name that the person was logged in by; empty where it is not known
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    foreign key (skill_id, from_version) references version(skill_id, id),
    foreign key (skill_id, to_version) references version(skill_id, id)
) strict;

create index approval_by_change on approval(skill_id, from_version, to_version);

-- One row per change of a live skill: the journal while it happens, the history afterwards.
create table promotion (
    id integer primary key,
    skill_id integer not null references skill(id),
    kind text not null check (kind in ('promote', 'rollback')),
    candidate_id text references candidate(id),
    from_version text not null,
    to_version text not null,
    state text not null check (state in ('pending', 'undoing', 'done', 'undone')),
    verdict text not null,
    agreed_by text not null check (agreed_by in ('person', 'permission', 'none')),
    agreed_on text not null check (agreed_on in ('dialog', 'terminal', 'editor terminal', 'rule')),
    login text not null,            -- the name that the person was logged in by; empty where it is not known
    approval_id integer unique references approval(id), -- the approval that it used
    seen_at text,                   -- when a person looked at it afterwards; it matters where a permission agreed
    created_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
    foreign key (skill_id, from_version) references version(skill_id, id),
    foreign key (skill_id, to_version) references version(skill_id, id)
) strict;

create index promotion_by_skill on promotion(skill_id);
create index promotion_pending on promotion(state) where state in ('pending', 'undoing');

-- One row per event of a decision, a promotion or a consent: a chain, as each hash covers all rows before it.
create table event (
    seq integer primary key,
    at text not null,
    kind text not null,             -- what happened, and so in which table
    key text not null,              -- of the row
    row_sha256 text not null,       -- over the row as it was then
    hash text not null              -- sha256 over the hash of the event before, and the columns above
) strict;

create trigger event_is_never_rewritten before update on event
begin select raise(abort, 'an event is never rewritten'); end;

create trigger event_is_never_removed before delete on event
begin select raise(abort, 'an event is never removed'); end;

-- One row per store: its commits, which a small file next to it (NAME.mark) counts, too, so that lost rows are noticed.
create table mark (
    id integer primary key check (id = 1),
    n integer not null
) strict;
