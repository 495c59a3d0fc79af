# Sourced by the lints: verdict NAME < <(violations); at the end finish.
n=0 failed=0

verdict() {
  local bad
  bad=$(cat)
  n=$((n + 1))
  if [ -z "$bad" ]; then echo "ok $n - $1"; else failed=1; echo "not ok $n - $1"; sed 's/^/# /' <<<"$bad"; fi
}

skip() { # NAME, REASON
  n=$((n + 1))
  echo "ok $n - $1 # SKIP $2"
}

finish() {
  echo "1..$n"
  exit $failed
}
