# Sourced by drills: a folder with the plugin and the pipeline of a toy detector; starts runs, makes
# faults, and measures from the fault to the message and to the end of every process.
export NO_COLOR=1 OMP_WAIT_POLICY=passive LC_ALL=C.UTF-8
detrgraph=$builddir/detrgraph
dir=$(mktemp -d /tmp/detrgraph-drills-XXXXXX)
trap 'cd /; rm -rf "$dir"' EXIT
cd "$dir" || exit 1
cp "$srcdir"/tests/drills/drill.xml .
if ! ${CC:-cc} -std=c11 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" \
    -o libdrill.so "$srcdir/tests/drills/drill.c" -lm 2>build.log; then
  echo "Bail out! the plugin of the drills does not build"
  sed 's/^/# /' build.log
  exit 1
fi

now() { echo "${EPOCHREALTIME/,/.}"; }

# start NAME FOLDER COMMAND...: a command in the background, $run its process; every line of its
# output stands in NAME.log after the time when it came
start() {
  local name=$1 folder=$2
  shift 2
  rm -f "$name.log" "$name.pid"
  {
    cd "$folder" && exec "$@" 2>&1 &
    echo $! >"$name.pid"
    wait $! 2>/dev/null
    echo "ended with $?"
  } |
    while IFS= read -r line; do printf '%s %s\n' "$(now)" "$line"; done >"$name.log" &
  reader=$!
  until [ -s "$name.pid" ]; do sleep 0.01; done
  run=$(cat "$name.pid")
}

# begin NAME ARGUMENTS...: a run in the background
begin() {
  local name=$1
  shift
  rm -rf "${name:?}" "$name.once"
  start "$name" . "$detrgraph" run drill.xml --out "$name" --set once="$dir/$name.once" "$@"
}

# finish NAME: waits for the end of a run; its exit code
finish() {
  wait "$reader" 2>/dev/null
  return "$(sed -nE 's/^[0-9.]+ ended with ([0-9]+)$/\1/p' "$1.log")"
}

# whole NAME ARGUMENTS...: a run from beginning to end
whole() { begin "$@"; finish "$1"; }

# From /proc alone: a minimal system has no pgrep.
ranks_of() { # LAUNCHER
  cat "/proc/$1/task/"*/children 2>/dev/null | tr ' ' '\n' | sed '/^$/d' | sort -n
}
rank_of() { ranks_of "$1" | sed -n "$(($2 + 1))p"; } # LAUNCHER RANK: they are started in order

# reach NAME STEP: until the run has made so many steps
reach() {
  for _ in $(seq 12000); do
    [ -f "$1/metrics.jsonl" ] && [ "$(grep -c '"loss"' "$1/metrics.jsonl")" -ge "$2" ] && return 0
    kill -0 "$run" 2>/dev/null || return 1
    sleep 0.01
  done
  return 1
}

# said NAME PATTERN: when the first line that matches was printed, or nothing; message: the error of
# this id; ended: the launcher
said() { grep -s -m1 -E -- "$2" "$1.log" | cut -d' ' -f1; }
message() { said "$1" "error\[$2\]"; }
ended() { said "$1" '^[0-9.]+ ended with'; }
since() { # FROM TO
  awk -v a="$1" -v b="$2" \
    'BEGIN { if (a == "" || b == "") print "never"; else printf "%.3f\n", b - a }'
}

# gone PID...: waits until none of the processes is there; when that was, or nothing after a minute
gone() {
  local pid left
  for _ in $(seq 6000); do
    left=
    for pid in "$@"; do
      [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null && left=$pid
    done
    [ -z "$left" ] && { now; return; }
    sleep 0.01
  done
}

same() { # NAME NAME: weights, averages, moments
  local file
  for file in model ema checkpoints/last/optimizer; do
    cmp "$1/$file.safetensors" "$2/$file.safetensors" 2>&1
  done
}

losses() { sed -nE 's/.*"loss":([-0-9.e+]+).*/\1/p' "$1/metrics.jsonl"; }

# saved NAME: the step of its last checkpoint
saved() { basename "$(readlink "$1/checkpoints/last" 2>/dev/null)" | sed 's/step-0*//'; }

# nothing_left: what no run may leave in this folder or on this machine once it is over: processes;
# segments of shared memory; sockets (in namespaces of its own, where all are ours); locks; a
# control file; files that were not finished
nothing_left() {
  local file pid
  for file in /proc/[0-9]*; do
    pid=${file#/proc/}
    case $(readlink "$file/exe" 2>/dev/null)=$(readlink "$file/cwd" 2>/dev/null) in
      *detrgraph*="$dir"*) echo "process $pid" ;;
    esac
  done
  if [ "${DRILLS_ALONE:-}" ]; then
    find /dev/shm -mindepth 1 -printf 'shared memory %p\n'
    sed '1d; s/^/socket /' /proc/net/unix
    awk 'FNR > 1 && $10 > 0 { print "socket " $2 " to " $3 }' \
      /proc/net/tcp /proc/net/tcp6 2>/dev/null
  else
    # others have files there, too
    find /dev/shm -type f -user "$(id -u)" -newer "$dir/drill.xml" -iname '*detrgraph*' \
      -printf 'shared memory %p\n' 2>/dev/null
  fi
  command -v flock >/dev/null &&
    find "$dir" -name run.log ! -exec flock -n {} true \; -printf 'locked %p\n'
  find "$dir" \( -name control -o -name '*.tmp*' \) -printf 'file %p\n'
}
