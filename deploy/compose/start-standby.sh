#!/bin/bash
# Copies the primary once, and follows it with a copy of the store's slot. See docs/operate/failover.md.
set -euo pipefail
export PGPASSWORD="$STANDBY_PASSWORD"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA" && chmod 0700 "$PGDATA"
  pg_basebackup --host=postgres --username=standby --pgdata="$PGDATA" --wal-method=stream --checkpoint=fast
fi
touch "$PGDATA/standby.signal"
exec postgres -c listen_addresses='*' -c max_connections=200 -c wal_level=logical -c jit=off -c max_slot_wal_keep_size=8GB \
  -c primary_slot_name=standby -c hot_standby_feedback=on -c sync_replication_slots=on \
  -c primary_conninfo="host=postgres user=standby password=$STANDBY_PASSWORD dbname=shop application_name=standby"
