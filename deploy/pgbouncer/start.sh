#!/bin/sh
# Starts PgBouncer with one user, whose name and password come from the environment. The file of users is in a folder in
# memory, readable by this process alone.
set -eu
umask 077
: "${POSTGRES_USER:?}" "${POSTGRES_PASSWORD:?}"
case "$POSTGRES_USER$POSTGRES_PASSWORD" in *'"'*) echo "the user and the password must have no quotation mark" >&2; exit 1 ;; esac
printf '"%s" "%s"\n' "$POSTGRES_USER" "$POSTGRES_PASSWORD" >"${PGBOUNCER_RUN:-/run/pgbouncer}/users.txt"
exec pgbouncer "${PGBOUNCER_INI:-/etc/pgbouncer/pgbouncer.ini}"
