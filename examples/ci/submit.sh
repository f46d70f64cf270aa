#!/bin/sh
# Submits a job from a build, once per key, and waits for its end. Needs a POSIX shell, curl and awk.
#
#   FICHA_URL=https://ficha.example.com FICHA_TOKEN=… sh submit.sh TOOL PAYLOAD KEY [SECONDS]
#
# With the repository and the commit in the key, whoever builds that commit again gets the first build's job: it is not
# paid twice. Prints the job as JSON, and ends with
#   0  it completed
#   1  it failed
#   2  refused: the build asks for something wrong, such as a payload that does not fit
#   3  it was cancelled
#   4  it has not ended after so many seconds (half an hour); it goes on by itself
#   5  refused: credits or a limit of the plan
#   6  refused: the key
#   7  the server does not answer, or says to try again later
#
# GitHub's builds get the output `job_id` and an annotation. Elsewhere: FICHA_OUTPUT is a file for `job_id=…` (GitLab's
# report `dotenv`), FICHA_ANNOTATIONS a file for GitLab's report `annotations`.
set -eu

: "${FICHA_URL:?say where the server is}" "${FICHA_TOKEN:?say who you are: a user key}"
tool=$1 payload=$2 key=$3 seconds=${4:-1800}
server=${FICHA_URL%/}
output=${FICHA_OUTPUT:-${GITHUB_OUTPUT:-}}
job=
newline='
'

say() { printf '%s\n' "$*" >&2; }

# Tells the build how it went, `notice` or `error`. JSON's texts have no line breaks, which would begin another command.
annotate() {
    level=$1
    shift
    if [ -n "${GITHUB_ACTIONS:-}" ]; then
        printf '::%s title=Ficha::%s\n' "$level" "$(printf '%s' "$*" | sed 's/%/%25/g')" >&2
    else
        say "$*"
    fi
    [ -z "${FICHA_ANNOTATIONS:-}" ] || [ -z "$job" ] ||
        printf '{"ficha": [{"external_link": {"label": "%s", "url": "%s"}}]}\n' \
            "job $job: $level" "$server/console/jobs/$job" > "$FICHA_ANNOTATIONS"
}

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
    code=$(field code) words=$(field error)
    annotate error "${words:-the server at $server does not answer} (${code:-$status})"
    case $code in
        INSUFFICIENT_CREDITS | COST_LIMIT | QUOTA_EXCEEDED | ACTIVE_JOB_EXISTS) exit 5 ;;
        UNAUTHENTICATED | FORBIDDEN | ACCOUNT_CLOSED) exit 6 ;;
    esac
    case $status in
        000 | 408 | 429 | 5??) exit 7 ;;
        *) exit 2 ;;
    esac
}

# The first text of this name. In a job what others wrote comes later, and quotes within a text are escaped.
field() {
    printf '%s\n' "$body" | awk -v name="$1" 'match($0, "\"" name "\":\"([^\"\\\\]|\\\\.)*\"") {
        n = length(name) + 4; text = substr($0, RSTART + n, RLENGTH - n - 1); gsub(/\\"/, "\"", text); print text }'
}

persist --header 'Content-Type: application/json' --header "Idempotency-Key: $key" \
    --data "{\"tool\":\"$tool\",\"payload\":$payload,\"key_ttl_hours\":720}" "$server/api/jobs"
job=$(field job_id)
[ -z "$output" ] || printf 'job_id=%s\n' "$job" >> "$output"
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
    [ "$waited" -lt "$seconds" ] || { annotate error "job $job has not ended in time; it goes on by itself"; exit 4; }
    sleep 2
    waited=$((waited + 2))
done
printf '%s\n' "$body"
case $now in
    completed) annotate notice "job $job completed" ;;
    failed) annotate error "job $job failed: $(field user_error)"; exit 1 ;;
    *) annotate error "job $job was cancelled"; exit 3 ;;
esac
