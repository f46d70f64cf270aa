#!/bin/sh
# Submits a job from a build, once per key, and waits for its end. Needs a POSIX shell, curl and awk.
#
#   FICHA_URL=https://ficha.example.com FICHA_TOKEN=… sh submit.sh TOOL PAYLOAD KEY [SECONDS]
#
# With the commit in the key, whoever builds that commit again gets the first build's job: it is not paid twice.
# Prints the job as JSON. Ends with 0 if it completed, 1 if it failed, 3 if it was cancelled, 4 if it has not ended
# after so many seconds (half an hour), and 2 if it was refused or the server is away.
set -eu

: "${FICHA_URL:?say where the server is}" "${FICHA_TOKEN:?say who you are: a user key}"
tool=$1 payload=$2 key=$3 seconds=${4:-1800}
server=${FICHA_URL%/}
newline='
'

say() { printf '%s\n' "$*" >&2; }

# Sets `status` and `body`. The token comes from standard input: arguments can be seen by everybody on the machine.
ask() {
    answer=$(printf 'header = "Authorization: Bearer %s"\n' "$FICHA_TOKEN" |
        curl --config - --silent --max-time 60 --write-out '\n%{http_code}' "$@") || :
    status=${answer##*"$newline"} body=${answer%"$newline"*}
}

# Asks again while nobody answers, for about a minute. That does no harm: a look changes nothing, a submit has its key.
# What is refused is not asked again.
persist() {
    pause=1
    while ask "$@"; do
        case $status in
            2??) return ;;
            000 | 408 | 502 | 503 | 504) say "the server at $server does not answer ($status)" ;;
            *) break ;;
        esac
        [ "$pause" -le 32 ] || break
        sleep "$pause"
        pause=$((pause * 2))
    done
    say "${body:-nothing came back} ($status)"
    exit 2
}

# The first text of this name. In a job what others wrote comes later, and quotes within a text are escaped.
field() {
    printf '%s\n' "$body" | awk -v name="$1" \
        'match($0, "\"" name "\":\"[^\"]*\"") { n = length(name) + 4; print substr($0, RSTART + n, RLENGTH - n - 1) }'
}

persist --header 'Content-Type: application/json' --header "Idempotency-Key: $key" \
    --data "{\"tool\":\"$tool\",\"payload\":$payload,\"key_ttl_hours\":720}" "$server/api/jobs"
job=$(field job_id)
case $status in
    201) say "job $job is submitted" ;;
    *) say "job $job was submitted before; nothing is charged now" ;;
esac

waited=0 seen=
while persist "$server/api/jobs/$job"; do
    now=$(field status)
    [ "$now" = "$seen" ] || say "job $job is $now"
    seen=$now
    case $now in
        completed | failed | cancelled) break ;;
    esac
    [ "$waited" -lt "$seconds" ] || { say "job $job has not ended in time; it goes on by itself"; exit 4; }
    sleep 2
    waited=$((waited + 2))
done
printf '%s\n' "$body"
case $now in
    completed) exit 0 ;;
    failed) exit 1 ;;
    *) exit 3 ;;
esac
