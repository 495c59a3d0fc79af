#!/usr/bin/env bash
# make bundle: packs a folder with the program, its libraries, fonts, pipelines, documents and all
# their licences. It runs from where it is unpacked, without installation. Only the C library is the
# machine's, and must be as new as this machine's.
#     ./bundle.sh SOURCE BUILD VERSION
# With the module for CUDA come the libraries of NVIDIA that it needs, more than a gigabyte;
# CUDA_LIBRARIES=no leaves them out, for machines that have them. The driver is the machine's.
set -euo pipefail
source=$1 build=$2 name=detrgraph-$3-$(uname -m)
root=$build/$name
unset MAKEFLAGS MFLAGS MAKELEVEL
libc='^(ld-linux|linux-vdso|libc|libm|libdl|libpthread|librt|libresolv|libutil|libnsl|libanl)[-.]'
graphviz_plugins='core dot_layout pango'

die() {
  echo "bundle: $*" >&2
  exit 1
}
# closure FILE...: paths of the shared objects that they need, except the C library's
closure() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | while read -r path; do
    basename "$path" | grep -qE "$libc" || echo "$path"
  done
}

# --- the installed tree, moved to the top of the bundle
rm -rf "$root"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
make -s -C "$build" install DESTDIR="$stage" >"$stage/log" 2>&1 ||
  die "make install failed: $(tail -n 5 "$stage/log")"
pc=$(find "$stage" -name detrgraph.pc)
prefix=$(sed -n 's/^prefix=//p' "$pc")
mkdir -p "$root/libexec" "$root/licences"
cp -a "$stage$prefix/." "$root"
rm -f "$root"/lib/*.la
mv "$root/bin/detrgraph" "$root/libexec/detrgraph"
sed -i "s|^prefix=.*|prefix=\${pcfiledir}/../..|; s|^exec_prefix=.*|exec_prefix=\${prefix}|" \
  "$root/lib/pkgconfig/detrgraph.pc"
cp "$source/LICENSE" "$root"
if command -v strip >/dev/null; then
  strip --strip-unneeded "$root/libexec/detrgraph" "$root"/lib/libdetrgraph.so.*.*
fi

# --- Graphviz's plugins, and its list of them
config=$(find /usr/lib /usr/lib64 -name 'config6*' -path '*graphviz*' 2>/dev/null | head -n 1)
plugins=()
if [ -n "$config" ]; then
  mkdir -p "$root/lib/graphviz"
  for p in $graphviz_plugins; do
    plugins+=("$(readlink -f "$(dirname "$config")/libgvplugin_$p.so.6")")
    cp "${plugins[-1]}" "$root/lib/graphviz/libgvplugin_$p.so.6"
    awk -v name="libgvplugin_$p.so.6" '$1 == name { on = 1 } on; /^}/ { on = 0 }' "$config"
  done >"$root/lib/graphviz/$(basename "$config")"
else
  echo "bundle: Graphviz has no list of plugins here: detrgraph render will not draw" >&2
fi

# --- libraries
libraries=()
carry() { # PATH: a library, and its name
  local real
  case $1 in */libdetrgraph.so*) return ;; esac
  [ ! -e "$root/lib/$(basename "$1")" ] || return 0
  libraries+=("$1")
  real=$(readlink -f "$1") # its name has the version
  cp "$real" "$root/lib"
  [ "$(basename "$real")" = "$(basename "$1")" ] ||
    ln -sf "$(basename "$real")" "$root/lib/$(basename "$1")"
}
while read -r path; do carry "$path"; done < <(closure "$root/libexec/detrgraph" "${plugins[@]}")

# --- NVIDIA's, which load each other by name
cuda=()
[ "${CUDA_LIBRARIES:-yes}" = no ] || readarray -t cuda < <(find "$root" -name detrgraph-cuda.so)
if [ "${#cuda[@]}" -gt 0 ]; then
  folder=
  while read -r path; do
    carry "$path"
    case $path in */libcublasLt.so*) folder=$(dirname "$path") ;; esac
  done < <(closure "${cuda[@]}")
  [ -n "$folder" ] || die "cuBLASLt, which ${cuda[0]} needs, is not found"
  # in one folder; or one folder for each, as in PyPI's wheels
  for pattern in 'libcudnn*.so.9' 'libnvrtc.so.[0-9]*' 'libnvrtc-builtins.so.[0-9]*' \
    'libnccl.so.2'; do
    found=$(compgen -G "$folder/$pattern" || compgen -G "$folder/../../*/lib/$pattern") || {
      echo "bundle: $pattern is not beside cuBLASLt: the machine needs it" >&2
      continue
    }
    while read -r path; do carry "$path"; done <<<"$found"
  done
fi

# --- fonts for drawings
fonts=()
if [ -d /usr/share/fonts/truetype/dejavu ]; then
  mkdir -p "$root/share/fonts"
  fonts=(/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
    /usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf)
  cp "${fonts[@]}" "$root/share/fonts"
fi
cat >"$root/share/fonts.conf" <<'END'
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
END

mkdir -p "$root/bin"
cat >"$root/bin/detrgraph" <<'END'
#!/bin/sh
# runs detrgraph with the libraries beside it
here=$(dirname "$(dirname "$(readlink -f "$0")")")
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export GVBINDIR="$here/lib/graphviz" FONTCONFIG_FILE="$here/share/fonts.conf"
exec "$here/libexec/detrgraph" "$@"
END
chmod 755 "$root/bin/detrgraph"

# --- licences of every package that files came from
# wheel_licence FILE: those of the PyPI wheel that lists it, beside it or in site-packages
wheel_licence() {
  local folder wheel
  folder=$(dirname "$1")
  for wheel in "$folder"/../dist-info/*.dist-info "$folder"/../../../*.dist-info; do
    grep -qsF "/$(basename "$1")," "$wheel/RECORD" || continue
    find "$wheel" -iname 'licen[cs]e*' -type f | while read -r text; do
      cp "$text" "$root/licences/$(basename "$wheel" .dist-info)-$(basename "$text")"
    done
    return 0
  done
  return 1
}
for path in "${libraries[@]}" "${plugins[@]}" "${fonts[@]}"; do
  real=$(readlink -f "$path")
  package=$({ dpkg -S "$real" || dpkg -S "${real#/usr}" || :; } 2>/dev/null |
    head -n 1 | cut -d: -f1)
  if [ -z "$package" ]; then
    wheel_licence "$real" ||
      echo "bundle: no package is known to own $path: add its licence by hand" >&2
    continue
  fi
  cp -L "/usr/share/doc/$package/copyright" "$root/licences/$package" 2>/dev/null ||
    echo "bundle: $package has no copyright file" >&2
done
for path in /usr/share/common-licenses/*; do # the licences that those files refer to
  grep -qrF "$path" "$root/licences" && cp -L "$path" "$root/licences"
done

# --- check that it needs nothing else
outside=$(
  LD_LIBRARY_PATH=$root/lib \
    ldd "$root/libexec/detrgraph" "$root"/lib/graphviz/*.so.* "${cuda[@]}" 2>/dev/null |
    awk '/not found/ { print $1, "is missing" } $2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -vF "$root/" | while read -r path rest; do
      basename "$path" | grep -qE "$libc" || echo "$path $rest"
    done | sort -u)
[ -z "$outside" ] || die "these are not in the bundle: $outside"
env -i PATH="$PATH" HOME=/ "$root/bin/detrgraph" \
  validate "$root/share/detrgraph/pipelines/quickstart.xml" >/dev/null || die "it does not run"

tar -C "$build" --sort=name --owner=0 --group=0 --numeric-owner -czf "$build/$name.tar.gz" "$name"
size=$(du -h "$build/$name.tar.gz" | cut -f1) unpacked=$(du -sh "$root" | cut -f1)
licences=$(find "$root/licences" -type f | wc -l)
echo "$name.tar.gz: $size, $unpacked unpacked, ${#libraries[@]} libraries, $licences licences"
echo "try: tar xf $name.tar.gz &&" \
  "$name/bin/detrgraph run $name/share/detrgraph/pipelines/quickstart.xml"
