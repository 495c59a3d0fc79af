# Sourced by the lints: verdict NAME < <(violations); at the end finish.
n=0 failed=0
# every folder with sources of the program, bottom up: a room includes only rooms before it
rooms=(base media kernels tensor graph proof nodes exec feed comm control weights report runtime
  check cli)

verdict() {
  local bad
  bad=$(cat)
  n=$((n + 1))
  if [ -z "$bad" ]; then
    echo "ok $n - $1"
  else
    failed=1
    echo "not ok $n - $1"
    sed 's/^/# /' <<<"$bad"
  fi
}

skip() { # NAME, REASON
  n=$((n + 1))
  echo "ok $n - $1 # SKIP $2"
}

lacks() { # NAME, TOOL: a skip; but where .ci/run installs the tool, a failure
  if [ -n "${CI:-}" ]; then verdict "$1" <<<"there is no $2"; else skip "$1" "there is no $2"; fi
}

# version_19 TOOL: the name under which LLVM's tool of version 19 is installed, or nothing
version_19() {
  local name
  for name in "$1-19" "$1"; do
    [[ $("$name" --version 2>/dev/null) =~ version\ 19\. ]] && { echo "$name"; return; }
  done
}

# the sources in C and C++, NUL after each; not old copies of headers, not what make writes
sources() {
  find "${rooms[@]}" include plugins tests \
    \( -path tests/graph/abi/1 -o -path kernels/operands.h \) -prune -o \
    -name '*.[ch]' -print0 -o -name '*.cc' -print0 | sort -z
}

# what <detrgraph/*.h> declares DG_PUBLIC: from there to ';', the name before '(' or '['
public() {
  sed 's|/\*.*\*/||' "$srcdir"/include/detrgraph/*.h | tr '\n' ' ' | grep -oE 'DG_PUBLIC [^;{]*' |
    grep -vE 'visibility|dg_plugin_v' | # a plugin's own entry
    sed -E 's/^([^([]*)[([].*/\1/; s/[[:space:]]+$//; s/.*[^A-Za-z0-9_]//' | sort -u
}

# the anchors of a page's headings, as they are rendered
anchors() { sed -nE '/^```/,/^```/d; s/^#+ //p' "$1" | tr 'A-Z ' 'a-z-' | sed 's/[^a-z0-9_-]//g'; }

dead_links() { # PAGE...: links and pictures that lead nowhere
  local page target file anchor
  for page; do
    grep -oE '\]\([^)[:space:]]+|<img src="[^"]+' "$page" | sed -E 's/^\]\(//; s/^<img src="//' |
      grep -vE '^[a-z]+:' | while read -r target; do
      file=${target%%#*} anchor=${target#"${target%%#*}"}
      [ -n "$file" ] && file=$(dirname "$page")/$file || file=$page
      [ -e "$file" ] || { echo "$page: $target"; continue; }
      [ -z "$anchor" ] || anchors "$file" | grep -qxF -- "${anchor#?}" ||
        echo "$page: $target: no such heading"
    done
  done
}

finish() {
  echo "1..$n"
  exit $failed
}
