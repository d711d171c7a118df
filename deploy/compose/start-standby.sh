#!/bin/bash
# Copies the primary once, and follows it with a copy of the store's slot. See docs/operate/failover.md.
set -euo pipefail
# Also for the server's connections to the primary.
export PGPASSWORD="$STANDBY_PASSWORD"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  # A copy that was interrupted begins again. Both folders are on the volume, which is mounted above them.
  rm -rf "$PGDATA.new"
  pg_basebackup --host=postgres --username=standby --pgdata="$PGDATA.new" --wal-method=stream --checkpoint=fast
  mv -T "$PGDATA.new" "$PGDATA"
fi
touch "$PGDATA/standby.signal"
exec postgres -c listen_addresses='*' -c max_connections=200 -c wal_level=logical -c jit=off -c max_slot_wal_keep_size=8GB \
  -c primary_slot_name=standby -c hot_standby_feedback=on -c sync_replication_slots=on \
  -c primary_conninfo="host=postgres user=standby dbname=shop application_name=standby"
