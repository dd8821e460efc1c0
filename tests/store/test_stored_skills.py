"""Skills at rest: every version byte for byte, found by path and by the beginning of its id."""

import pytest
from children import SKILL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillopt_mcp.core.errors import NotFound, UnsafeStore
from skillopt_mcp.core.skills import MAIN_FILE, SkillFile, SkillFiles
from skillopt_mcp.store.opening import Store
from skillopt_mcp.store.pool import Pool

NAMES = st.text("abc/é.", min_size=1, max_size=8)
CONTENTS = st.one_of(st.binary(max_size=200), st.binary(min_size=1, max_size=8).map(lambda seed: seed * 1000))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(NAMES, st.tuples(CONTENTS, st.booleans()), min_size=1, max_size=4))
def test_files_come_back_byte_for_byte(store: Store, files: dict[str, tuple[bytes, bool]]) -> None:
    given_files = SkillFiles(tuple(SkillFile(path, *rest) for path, rest in files.items()))
    skill = store.skills.track("s", "/s", given_files)
    assert store.skills.get_files(skill.id, skill.live_version) == given_files
    assert skill.live_version == given_files.digest


def test_a_large_file_is_kept_small_and_a_dense_one_as_it_is(store: Store) -> None:
    dense = bytes((i * i * 31 + i // 7) % 256 for i in range(1000))
    store.skills.track("s", "/s", SkillFiles((SkillFile(MAIN_FILE, b"word " * 1000), SkillFile("dense", dense))))
    pool = Pool(store.path)
    rows = pool.rows("select size, encoding, length(content) < 200 from blob order by size")
    pool.close()
    assert rows == [(1000, "raw", 0), (5000, "zlib", 1)]


def test_tracking_again_notes_the_new_live_version_and_its_parent(store: Store) -> None:
    first = store.skills.track("s", "/s", SKILL)
    edited = SKILL.replaced(SkillFile(MAIN_FILE, b"# Other\n"))
    second = store.skills.track("s", "/s", edited)
    back = store.skills.track("s", "/s", SKILL)
    assert (second.id, second.live_version, back.live_version) == (first.id, edited.digest, SKILL.digest)
    assert store.skills.get_version(first.id, edited.digest).parent_id == SKILL.digest
    assert store.skills.get_version(first.id, SKILL.digest).parent_id is None
    assert store.skills.list_skills() == [back]


def test_a_version_is_found_by_its_beginning(store: Store) -> None:
    skill = store.skills.track("s", "/s", SKILL)
    for length in (8, 12, 64):
        assert store.skills.get_version(skill.id, SKILL.digest[:length]).id == SKILL.digest


def test_a_beginning_that_two_versions_share_names_neither(store: Store) -> None:
    skill = store.skills.track("s", "/s", SKILL)
    pool = Pool(store.path)
    with pool.write() as connection:
        for end in "ab":
            connection.execute(
                "insert into version(skill_id, id, origin) values (?, ?, 'recorded')", [skill.id, "12345678" + end]
            )
    pool.close()
    with pytest.raises(NotFound, match="no single version '12345678'"):
        store.skills.get_version(skill.id, "12345678")
    assert store.skills.get_version(skill.id, "12345678a").id == "12345678a"


def test_damaged_bytes_are_never_handed_out(store: Store) -> None:
    skill = store.skills.track("s", "/s", SKILL)
    pool = Pool(store.path)
    with pool.write() as connection:
        connection.execute("drop trigger blob_is_never_rewritten")
        connection.execute("update blob set content = cast('# Skill\n- Be sloppy.\n' as blob)")
    pool.close()
    with pytest.raises(UnsafeStore, match=f"version '{SKILL.digest}' is damaged"):
        store.skills.get_files(skill.id, SKILL.digest)


def test_two_skills_of_one_name_are_found_by_path(store: Store) -> None:
    one, two = (store.skills.track("same", path, SKILL) for path in ("/a/same", "/b/same"))
    assert store.skills.find_skill("/b/same") == two
    assert store.skills.find_skill("/a/same") == one
    assert store.skills.find_skill("other") is None
    with pytest.raises(NotFound, match="2 tracked skills are named 'same': use the path, one of '/a/same', '/b/same'"):
        store.skills.find_skill("same")
