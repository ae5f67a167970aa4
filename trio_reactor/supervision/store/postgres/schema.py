"""The journal's tables and functions in PostgreSQL, and how they come to be.

Whatever fences is in the database, as functions: each call of the journal is one statement, and so
one transaction that the server ends by itself, whether or not the client still lives.  None is ever
left open by a process that was stopped in the middle of it.
"""

from __future__ import annotations

from typing import Final, LiteralString

from psycopg import Connection, sql

from trio_reactor.supervision.errors import StoreUnusable

__all__ = ["MIGRATIONS", "VERSION", "migrate"]

_FIRST: Final[LiteralString] = """
CREATE TABLE {schema}.host (
    incarnation text PRIMARY KEY,
    name text NOT NULL,
    beats bigint NOT NULL DEFAULT 0,
    lease double precision NOT NULL CHECK (lease > 0),
    fenced boolean NOT NULL DEFAULT false,
    boot_id text NOT NULL,
    pid_namespace bigint NOT NULL,
    pid integer NOT NULL,
    start_time bigint NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE {schema}.host IS
    'One row a start of a supervisor.  What a fenced one still holds may be taken.';
CREATE UNIQUE INDEX host_live ON {schema}.host (name) WHERE NOT fenced;

CREATE TABLE {schema}.writer (
    incarnation text PRIMARY KEY REFERENCES {schema}.host ON DELETE CASCADE,
    batch bigint NOT NULL DEFAULT 0,
    verdicts text[] NOT NULL DEFAULT '{{}}',
    replays bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE {schema}.writer IS
    'The last batch that each incarnation committed, and what became of it.';

CREATE TABLE {schema}.key (
    identity text NOT NULL,
    instance text NOT NULL,
    generation bigint NOT NULL CHECK (generation > 0),
    incarnation text NOT NULL REFERENCES {schema}.host,
    stopped boolean NOT NULL,
    PRIMARY KEY (identity, instance)
);
COMMENT ON TABLE {schema}.key IS
    'The highest generation of each key, who has it, and whether that session has stopped.';
CREATE INDEX key_incarnation ON {schema}.key (incarnation);

CREATE SEQUENCE {schema}.revision;
CREATE TABLE {schema}.record (
    identity text NOT NULL,
    instance text NOT NULL,
    generation bigint NOT NULL CHECK (generation > 0),
    incarnation text NOT NULL REFERENCES {schema}.host,
    stopped boolean NOT NULL,
    revision bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (identity, instance, generation)
);
CREATE INDEX record_incarnation ON {schema}.record (incarnation, revision);

CREATE FUNCTION {schema}.timeline() RETURNS text LANGUAGE sql AS $$
    SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
$$;

CREATE FUNCTION {schema}.is_fenced(who text) RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce((SELECT fenced FROM {schema}.host WHERE incarnation = who), true)
$$;

CREATE FUNCTION {schema}.apply_change(
    me text, a_identity text, an_instance text, a_generation bigint,
    opens boolean, stops boolean, a_body bytea
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    held {schema}.key%ROWTYPE;
    old {schema}.record%ROWTYPE;
BEGIN
    SELECT * INTO held FROM {schema}.key
        WHERE identity = a_identity AND instance = an_instance FOR UPDATE;
    IF opens THEN
        IF NOT FOUND THEN
            IF a_generation <> 1 THEN RETURN 'stale'; END IF;
            INSERT INTO {schema}.key VALUES (a_identity, an_instance, 1, me, false)
                ON CONFLICT DO NOTHING;
            -- Somebody else opened it at the same moment.
            IF NOT FOUND THEN RETURN 'stale'; END IF;
        ELSIF a_generation <> held.generation + 1 THEN
            RETURN 'stale';
        ELSIF held.incarnation <> me AND NOT held.stopped
                AND NOT {schema}.is_fenced(held.incarnation) THEN
            RETURN 'held';
        ELSE
            UPDATE {schema}.key SET generation = a_generation, incarnation = me, stopped = false
                WHERE identity = a_identity AND instance = an_instance;
        END IF;
        INSERT INTO {schema}.record VALUES (
            a_identity, an_instance, a_generation, me, false,
            nextval('{schema}.revision'), a_body
        );
        RETURN 'made';
    END IF;
    IF NOT FOUND THEN RETURN 'stale'; END IF;
    SELECT * INTO old FROM {schema}.record
        WHERE identity = a_identity AND instance = an_instance AND generation = a_generation
        FOR UPDATE;
    IF NOT FOUND THEN RETURN 'stale'; END IF;
    IF old.incarnation <> me AND NOT {schema}.is_fenced(old.incarnation) THEN
        RETURN 'held';
    END IF;
    UPDATE {schema}.record
        SET incarnation = me, stopped = stops, body = a_body,
            revision = nextval('{schema}.revision')
        WHERE identity = a_identity AND instance = an_instance AND generation = a_generation;
    IF a_generation = held.generation THEN
        UPDATE {schema}.key SET incarnation = me, stopped = stops
            WHERE identity = a_identity AND instance = an_instance;
    END IF;
    RETURN 'made';
END
$$;

CREATE FUNCTION {schema}.commit_batch(
    me text, this bigint,
    identities text[], instances text[], generations bigint[],
    opens boolean[], stops boolean[], bodies bytea[],
    forgotten_by integer[], forgotten_identities text[], forgotten_instances text[],
    forgotten_generations bigint[]
) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    last {schema}.writer%ROWTYPE;
    made text[] := ARRAY[]::text[];
    verdict text;
BEGIN
    -- Beats do not conflict with this lock; the fencer's does, and waits until this has ended.
    PERFORM 1 FROM {schema}.host WHERE incarnation = me AND NOT fenced FOR KEY SHARE;
    IF NOT FOUND THEN RETURN NULL; END IF;
    -- One batch at a time: one whose reply was lost has ended before it is read back here.
    SELECT * INTO last FROM {schema}.writer WHERE incarnation = me FOR UPDATE;
    IF last.batch >= this THEN
        -- It writes, so that its commit waits for the standby as that of the batch had to.
        UPDATE {schema}.writer SET replays = replays + 1 WHERE incarnation = me;
        RETURN CASE WHEN last.batch = this THEN last.verdicts ELSE ARRAY[]::text[] END;
    END IF;
    FOR i IN 1 .. cardinality(identities) LOOP
        BEGIN
            verdict := {schema}.apply_change(
                me, identities[i], instances[i], generations[i], opens[i], stops[i], bodies[i]
            );
            IF verdict = 'made' THEN
                DELETE FROM {schema}.record r
                    USING unnest(
                        forgotten_by, forgotten_identities, forgotten_instances,
                        forgotten_generations
                    ) AS f(by_change, identity, instance, generation)
                    WHERE f.by_change = i AND r.identity = f.identity
                        AND r.instance = f.instance AND r.generation = f.generation
                        AND r.incarnation = me AND r.stopped;
            END IF;
        EXCEPTION
            WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
                verdict := 'refused: ' || SQLERRM;
        END;
        made := made || verdict;
    END LOOP;
    UPDATE {schema}.writer SET batch = this, verdicts = made WHERE incarnation = me;
    RETURN made;
END
$$;

CREATE FUNCTION {schema}.fence_host(who text, seen bigint, seen_timeline text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    victim {schema}.host%ROWTYPE;
BEGIN
    -- Waits for whatever it is writing at this moment.
    SELECT * INTO victim FROM {schema}.host WHERE incarnation = who FOR UPDATE;
    IF NOT FOUND OR victim.fenced THEN RETURN true; END IF;
    IF victim.beats <> seen OR {schema}.timeline() <> seen_timeline THEN RETURN false; END IF;
    UPDATE {schema}.host SET fenced = true WHERE incarnation = who;
    RETURN true;
END
$$;

CREATE FUNCTION {schema}.enter_host(
    me text, my_name text, my_lease double precision,
    my_boot_id text, my_pid_namespace bigint, my_pid integer, my_start_time bigint,
    rival text, seen bigint, seen_timeline text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    other {schema}.host%ROWTYPE;
    inherited double precision;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended({lock} || my_name, 0));
    PERFORM 1 FROM {schema}.host WHERE incarnation = me;
    IF FOUND THEN RETURN ''; END IF;
    SELECT * INTO other FROM {schema}.host WHERE name = my_name AND NOT fenced FOR UPDATE;
    IF FOUND THEN
        IF rival IS NULL OR other.incarnation <> rival
                OR other.beats <> seen OR {schema}.timeline() <> seen_timeline THEN
            RETURN other.incarnation;
        END IF;
        UPDATE {schema}.host SET fenced = true WHERE incarnation = rival;
    END IF;
    -- What earlier incarnations held may live as long as their lease allowed, if that was longer.
    SELECT max(h.lease) INTO inherited FROM {schema}.host h
        WHERE h.name = my_name AND EXISTS (
            SELECT FROM {schema}.key k WHERE k.incarnation = h.incarnation AND NOT k.stopped
        );
    INSERT INTO {schema}.host
        (incarnation, name, lease, boot_id, pid_namespace, pid, start_time)
        VALUES (
            me, my_name, greatest(my_lease, inherited),
            my_boot_id, my_pid_namespace, my_pid, my_start_time
        );
    INSERT INTO {schema}.writer (incarnation) VALUES (me);
    PERFORM 1 FROM {schema}.key WHERE incarnation IN (
        SELECT incarnation FROM {schema}.host WHERE name = my_name AND incarnation <> me
    ) ORDER BY identity, instance FOR UPDATE;
    UPDATE {schema}.key SET incarnation = me WHERE incarnation IN (
        SELECT incarnation FROM {schema}.host WHERE name = my_name AND incarnation <> me
    );
    UPDATE {schema}.record SET incarnation = me WHERE incarnation IN (
        SELECT incarnation FROM {schema}.host WHERE name = my_name AND incarnation <> me
    );
    -- An incarnation that holds nothing and never will is forgotten; a missing one is a fenced one.
    DELETE FROM {schema}.host WHERE incarnation IN (
        SELECT incarnation FROM {schema}.host h WHERE fenced
            AND NOT EXISTS (SELECT FROM {schema}.key k WHERE k.incarnation = h.incarnation)
            AND NOT EXISTS (SELECT FROM {schema}.record r WHERE r.incarnation = h.incarnation)
        FOR UPDATE SKIP LOCKED
    );
    RETURN '';
END
$$;

CREATE FUNCTION {schema}.leave_host(me text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM {schema}.host WHERE incarnation = me AND NOT fenced FOR UPDATE;
    IF NOT FOUND THEN RETURN true; END IF;
    IF EXISTS (SELECT FROM {schema}.record WHERE incarnation = me AND NOT stopped) THEN
        -- The process may go on, but not as this host: the next incarnation sees it as ended.
        UPDATE {schema}.host SET pid = 0, start_time = 0 WHERE incarnation = me;
        RETURN false;
    END IF;
    UPDATE {schema}.host SET fenced = true WHERE incarnation = me;
    RETURN true;
END
$$;
"""

MIGRATIONS: Final[tuple[LiteralString, ...]] = (_FIRST,)
"""What makes each version from the one before; the first from nothing."""

VERSION: Final = len(MIGRATIONS)
"""The version that this library reads and writes."""


def migrate(connection: Connection, schema: str, store: str) -> None:
    """Bring the schema to this version, in one transaction; others that want to wait.

    Raises:
        StoreUnusable: It is newer, or something else; nothing was changed.
    """
    with connection.transaction():
        connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('trio_reactor:' || %s, 0))", (schema,)
        )
        version = _version(connection, schema, store)
        if version > VERSION:
            raise StoreUnusable(
                f"{store}: the schema {schema} has version {version}; this library reads {VERSION}",
                store=store,
            )
        if version == VERSION:
            return
        name = sql.Identifier(schema)
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
        if version == 0:
            connection.execute(
                sql.SQL(
                    "CREATE TABLE {}.migration (version integer PRIMARY KEY,"
                    " applied_at timestamptz NOT NULL DEFAULT now())"
                ).format(name)
            )
        for number, migration in enumerate(MIGRATIONS[version:], start=version + 1):
            connection.execute(
                sql.SQL(migration).format(schema=name, lock=sql.Literal(f"trio_reactor:{schema}/"))
            )
            connection.execute(
                sql.SQL("INSERT INTO {}.migration (version) VALUES (%s)").format(name), (number,)
            )


def _version(connection: Connection, schema: str, store: str) -> int:
    """Which version the schema has; 0 if there is nothing in it."""
    tables = {
        name
        for (name,) in connection.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s",
            (schema,),
        )
    }
    if not tables:
        return 0
    if not {"migration", "host", "key", "record"} <= tables:
        raise StoreUnusable(
            f"{store}: the schema {schema} holds something else than a journal of sessions",
            store=store,
        )
    row = connection.execute(
        sql.SQL("SELECT coalesce(max(version), 0) FROM {}.migration").format(sql.Identifier(schema))
    ).fetchone()
    return int(row[0]) if row is not None else 0
