#!/bin/sh
# Starts PgBouncer with one user, whose name and password come from the environment, and with one that may look at its
# figures and one that administers it, where they have passwords. The file of users is in a folder in memory, readable by
# this process alone.
set -eu
umask 077
: "${POSTGRES_USER:?}" "${POSTGRES_PASSWORD:?}"
users="${PGBOUNCER_RUN:-/run/pgbouncer}/users.txt"
: >"$users"
add() {
    case "$1$2" in *'"'*) echo "a user and a password must have no quotation mark" >&2; exit 1 ;; esac
    printf '"%s" "%s"\n' "$1" "$2" >>"$users"
}
add "$POSTGRES_USER" "$POSTGRES_PASSWORD"
if [ -n "${PGBOUNCER_STATS_PASSWORD:-}" ]; then add pgbouncer_stats "$PGBOUNCER_STATS_PASSWORD"; fi
if [ -n "${PGBOUNCER_ADMIN_PASSWORD:-}" ]; then add pgbouncer_admin "$PGBOUNCER_ADMIN_PASSWORD"; fi
exec pgbouncer "${PGBOUNCER_INI:-/etc/pgbouncer/pgbouncer.ini}"
