# Runs a command as a container of deploy/ would: as a user without rights, on a file system that is read-only but for two
# folders. Called within a mount namespace of its own: sandbox.sh STATE SCRATCH COMMAND...
set -eu
state=$1 scratch=$2
shift 2
mount --make-rprivate /
mount --bind "$state" "$state"
mount -t tmpfs -o mode=1777 tmpfs "$scratch"
cut -d ' ' -f 5 /proc/self/mountinfo | while read -r place; do
    case $place in
    "$state" | "$scratch" | /proc | /proc/* | /sys | /sys/* | /dev | /dev/pts) ;;
    *) mount -o remount,bind,ro "$(printf '%b' "$place")" 2>/dev/null || true ;;
    esac
done
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
