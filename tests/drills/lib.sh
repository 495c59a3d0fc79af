# Sourced by drills: a folder with the plugin and the pipeline of a toy detector; starts runs, makes faults, and measures from
# the fault to the message and to the end of every process.
export NO_COLOR=1 OMP_WAIT_POLICY=passive LC_ALL=C.UTF-8
detrgraph=$builddir/detrgraph
dir=$(mktemp -d /tmp/detrgraph-drills-XXXXXX)
trap 'cd /; rm -rf "$dir"' EXIT
cd "$dir" || exit 1
cp "$srcdir"/tests/drills/drill.xml .
if ! ${CC:-cc} -std=c11 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" -o libdrill.so "$srcdir/tests/drills/drill.c" -lm 2>build.log; then
  echo "Bail out! the plugin of the drills does not build"
  sed 's/^/# /' build.log
  exit 1
fi

now() { echo "${EPOCHREALTIME/,/.}"; }

# begin NAME ARGUMENTS...: a run in the background, $run its launcher; every line of its output stands in NAME.log after the
# time when it came
begin() {
  local name=$1
  shift
  rm -rf "${name:?}" "$name.log" "$name.once" "$name.pid"
  { exec "$detrgraph" run drill.xml --out "$name" --set once="$dir/$name.once" "$@" 2>&1 & echo $! >"$name.pid"; wait $! 2>/dev/null; echo "ended with $?"; } |
    while IFS= read -r line; do printf '%s %s\n' "$(now)" "$line"; done >"$name.log" &
  reader=$!
  until [ -s "$name.pid" ]; do sleep 0.01; done
  run=$(cat "$name.pid")
}

# finish NAME: waits for the end of a run; its exit code
finish() {
  wait "$reader" 2>/dev/null
  return "$(sed -nE 's/^[0-9.]+ ended with ([0-9]+)$/\1/p' "$1.log")"
}

# whole NAME ARGUMENTS...: a run from beginning to end
whole() { begin "$@"; finish "$1"; }

# From /proc alone: a minimal system has no pgrep.
ranks_of() { cat "/proc/$1/task/"*/children 2>/dev/null | tr ' ' '\n' | sed '/^$/d' | sort -n; } # LAUNCHER
rank_of() { ranks_of "$1" | sed -n "$(($2 + 1))p"; } # LAUNCHER RANK: they are started in order

# reach NAME STEP: until the run has made so many steps
reach() {
  for _ in $(seq 3000); do
    [ -f "$1/metrics.jsonl" ] && [ "$(grep -c '"loss"' "$1/metrics.jsonl")" -ge "$2" ] && return 0
    kill -0 "$run" 2>/dev/null || return 1
    sleep 0.01
  done
  return 1
}

# message NAME ID: when the error of this id was printed, or nothing
message() { grep -m1 -F "error[$2]" "$1.log" | cut -d' ' -f1; }
since() { awk -v a="$1" -v b="$2" 'BEGIN { if (a == "" || b == "") print "never"; else printf "%.3f\n", b - a }'; } # FROM TO

# gone PID...: waits until none of the processes is there; when that was, or nothing after 10 s
gone() {
  local pid left
  for _ in $(seq 1000); do
    left=
    for pid in "$@"; do [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null && left=$pid; done
    [ -z "$left" ] && { now; return; }
    sleep 0.01
  done
}

same() { # NAME NAME: weights, averages, moments
  local file
  for file in model ema checkpoints/last/optimizer; do cmp "$1/$file.safetensors" "$2/$file.safetensors" 2>&1; done
}

losses() { sed -nE 's/.*"loss":([-0-9.e+]+).*/\1/p' "$1/metrics.jsonl"; }

# saved NAME: the step of its last checkpoint
saved() { basename "$(readlink "$1/checkpoints/last" 2>/dev/null)" | sed 's/step-0*//'; }

# nothing_left: processes of this folder, shared memory
nothing_left() {
  for line in /proc/[0-9]*/cmdline; do
    tr '\0' ' ' <"$line" 2>/dev/null | grep -F "detrgraph run drill.xml --out" | grep -F "$dir"
  done
  ls /dev/shm 2>/dev/null | grep -i detrgraph || true
}
