#!/bin/sh
# Storefront as several processes on this machine: three NATS servers, two processes of each role, one PostgreSQL, one address.
# Needs nats-server on the PATH. Everything listens on 127.0.0.1 and is ended with Ctrl-C.
here=$(cd "$(dirname "$0")" && pwd)
exec "$here/../node_modules/.bin/node" "$here/local-cluster.ts" "$@"
