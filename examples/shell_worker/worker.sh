#!/bin/sh
# A worker in plain POSIX shell: whoever speaks HTTP can work. Needs curl and awk.
#
#   FICHA_URL=https://ficha.example.com FICHA_TOKEN=… sh worker.sh [POOL]
#
# The token is a key of scope `service`. Stop it with Ctrl-C or SIGTERM: the job that it has goes back to the queue.
# Kill it, and the job goes back by itself once its lease is over; whoever takes it goes on from the last checkpoint.
set -u

: "${FICHA_URL:?say where the server is}" "${FICHA_TOKEN:?say who you are: a service key}"
pool=${1:-shell}
server=${FICHA_URL%/}
worker=${WORKER_ID:-$(uname -n)-$$}
beat_s=${BEAT_S:-10}
job='' beat='' stopping=''

# The work itself; put yours here. `lease` is the job as JSON. Each checkpoint says how far it is and what to go on
# from. One that is refused, or cannot be told, means that the job is no longer ours, nor ours to finish.
work() {
    upto=$(number upto) at=$(number at)
    at=${at:-0}
    while [ "$at" -lt "$upto" ]; do
        sleep 1
        at=$((at + 1))
        checkpoint COUNTING $((100 * at / upto)) "{\"at\":$at}" || return 0
    done
    finish completed "\"result\":{\"counted\":$at,\"by\":\"$worker\"}"
}

main() {
    trap 'stop' INT TERM
    while [ -z "$stopping" ]; do
        # Not asked again by curl: should a claim's answer get lost, its job comes back when the lease is over.
        lease=$(post claim "{\"worker\":\"$worker\",\"pools\":[\"$pool\"],\"wait_s\":10}") || { sleep 2; continue; }
        job=$(text job_id)
        [ -n "$job" ] || continue
        held="\"job_id\":\"$job\",\"epoch\":$(number epoch)"
        [ -z "$stopping" ] || stop
        say "job $job begins"
        keep_alive &
        beat=$!
        work
        release
    done
}

keep_alive() {
    # It ends with the job, and with the worker, however that ends: a lease that outlives its worker would be a lie.
    while sleep "$beat_s" && kill -0 "$$" 2>/dev/null; do
        told=$(post heartbeat "{\"leases\":[{$held}]}" --retry 3) || continue
        case $told in
            *'"code":"'*) say "job $job is no longer ours"; return ;;
        esac
    done
}

checkpoint() { post checkpoint "{$held,\"name\":\"$1\",\"progress\":$2,\"data\":$3}" --retry 3 >/dev/null; }

finish() {
    post finish "{$held,\"outcome\":\"$1\"${2:+,$2}}" --retry 5 >/dev/null && say "job $job is $1"
}

release() {
    [ -z "$beat" ] || kill "$beat" 2>/dev/null
    job='' beat=''
}

stop() {
    stopping=yes
    [ -n "$job" ] || return 0 # A claim may be under way, and bring one.
    finish returned
    release
    exit 0
}

# Sends JSON and prints the answer, which is an error unless it is 2xx. The token comes from standard input: arguments
# can be seen by everybody on the machine. What is sent again may be: every word about a job carries its epoch.
post() {
    path=$1 body=$2
    shift 2
    printf 'header = "Authorization: Bearer %s"\n' "$FICHA_TOKEN" |
        curl --config - --silent --show-error --fail-with-body --max-time 60 --retry-connrefused "$@" \
            --header 'Content-Type: application/json' --data "$body" "$server/api/worker/$path"
}

# The first number, or text, of a name in the lease. That is all the JSON that a shell can read honestly; where a
# payload holds more than a few plain fields, hand `lease` to a program that reads JSON.
number() { printf '%s\n' "$lease" | awk -v name="$1" "$find_number"; }
text() { printf '%s\n' "$lease" | awk -v name="$1" "$find_text"; }
find_number='match($0, "\"" name "\":[0-9]+") { n = length(name) + 3; print substr($0, RSTART + n, RLENGTH - n) }'
find_text='match($0, "\"" name "\":\"[^\"]*\"") { n = length(name) + 4; print substr($0, RSTART + n, RLENGTH - n - 1) }'

say() { printf '%s %s\n' "$worker:" "$*" >&2; }

main
