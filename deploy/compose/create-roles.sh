#!/bin/bash
# Runs once, in an empty cluster: the store's three roles and its database (docs/operate/database.md), and the standby's.
set -euo pipefail
psql --set=ON_ERROR_STOP=1 --username=postgres \
  --set=owner="$OWNER_PASSWORD" --set=api="$API_PASSWORD" --set=stream="$STREAM_PASSWORD" --set=standby="$STANDBY_PASSWORD" <<'SQL'
create role shop_owner login password :'owner';
create role shop_api login password :'api';
create role shop_stream login replication password :'stream';
create role standby login replication password :'standby';
create database shop owner shop_owner;
revoke all on database shop from public;
grant connect, temporary on database shop to shop_api;
grant connect on database shop to shop_stream, standby;
select pg_create_physical_replication_slot('standby', true);
SQL
# The image lets roles connect to databases by password, and only the local ones replicate.
echo 'host replication standby all scram-sha-256' >>"$PGDATA/pg_hba.conf"
